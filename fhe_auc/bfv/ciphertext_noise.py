"""The noise of BFV ciphertexts: how large it gets, which flooding must hide and the modulus hold; and how large it is.

Standard deviations of a coefficient, derived for what the verified protocol computes, (Σ left)·(Σ right)·r; a test
measures them on both backends. V is the variance of the secret key's coefficients: 2/3, with joint keys n·2/3.

Measured exactly, in integers, by whoever has the secret key s: (c0, c1) holds c0 + c1·s = Q·m/t + x modulo Q, and
whoever decrypts sees the noise x as well as m.
"""

from __future__ import annotations

import math

import numpy as np

from fhe_auc.bfv.context import SecretContext
from fhe_auc.bfv.parameters import DIGIT_BITS, BfvParameters
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.second_error import FRESH_VARIANCE
from fhe_auc.rlwe.transform import coefficients_of

CONFIDENCE = 8.0
"""Standard deviations that no coefficient is off by: of a million million coefficients none is."""

_ERROR_VARIANCE = 3.25**2  # of the libraries' errors in keys; SEAL's measured 3.24, OpenFHE's 3.19
_SWITCHING_ERROR_VARIANCE = 1 + _ERROR_VARIANCE  # OpenFHE's own 1.0, and what we add
_TERNARY_VARIANCE = 2 / 3


def sum_variance(parameters: BfvParameters, parties: int) -> float:
    """Return the mean square of a coefficient of the noise of a sum of fresh encryptions under the secret key.

    Of each, both errors, and what encoding rounds off: OpenFHE rounds up, by 1/2 on average, which does not cancel.
    """
    rounding = parties**2 / 4 if parameters.backend == "openfhe" else 0.0
    return parties * (FRESH_VARIANCE + 1 / 12) + rounding


def product_deviation(parameters: BfvParameters, parties: int, *, joint_keys: bool = False, products: int = 1) -> float:
    """Return the standard deviation of a coefficient of the noise of a sum of relinearised products.

    A ciphertext decrypts to c0 + c1·s = Q·m/t + e + Q·k, where k, of variance (1 + N·V)/12, is what does not fit into
    the modulus. A product, divided by Q/t, has noise t·(e·k' + e'·k) + m·e' + m'·e, and what key switching adds.
    Either factor has a submission of each of `parties`; joint keys are the sum of one share of each. So many `products`
    are added up.
    """
    size = parameters.ring_dimension
    key_variance = _TERNARY_VARIANCE * (parties if joint_keys else 1)
    multiple_variance = (1 + size * key_variance) / 12
    error_variance = sum_variance(parameters, parties)
    tensor = 2 * size * error_variance * max(parameters.plain_moduli) ** 2 * (multiple_variance + 1 / 12)
    rounding = (1 + size * key_variance + (size * key_variance) ** 2) / 12
    return math.sqrt(products * (tensor + rounding + _switching_variance(parameters, parties, joint_keys)))


def noise_bound(parameters: BfvParameters, parties: int, *, joint_keys: bool = False, products: int = 1) -> float:
    """Return X: no coefficient of r·noise is larger, whatever r, of absolute value at most t/2."""
    deviation = product_deviation(parameters, parties, joint_keys=joint_keys, products=products)
    return CONFIDENCE * deviation * max(parameters.plain_moduli) / 2


def _switching_variance(parameters: BfvParameters, parties: int, joint_keys: bool) -> float:
    """Return the variance that relinearisation adds: Σ digits · errors of the key."""
    size = parameters.ring_dimension
    if parameters.special_bits:
        digits = sum(4.0**bits for bits in parameters.modulus_bits) / 3
        # The special prime may be just above half of the power of two.
        divided = size * digits * _ERROR_VARIANCE / 4.0 ** (parameters.special_bits - 1)
        return divided + (1 + size * _TERNARY_VARIANCE) / 12
    count = sum(-(-bits // DIGIT_BITS) for bits in parameters.modulus_bits)
    error_variance = _SWITCHING_ERROR_VARIANCE
    if joint_keys:
        # The key is off by r + S·h + U·g (`rlwe.openfhe_joint_keys`): S, U sums of n secrets, r, h, g of n errors.
        error_variance *= parties + 2 * size * _TERNARY_VARIANCE * parties * parties
    return count * size * 4.0**DIGIT_BITS / 3 * error_variance


def scaled_noise(secret: SecretContext, words: Words, prime: int) -> list[int]:
    """Return t times a ciphertext's noise, an integer between -Q/2 and Q/2 for each coefficient.

    `words`, uint64, are of the shape that submissions have, and `prime` is the index of the plaintext modulus t.
    """
    half = secret.mask_shape
    first, second = np.split(words, 2)
    phase = first.copy()
    half.add_in_place(phase, half.multiply(second, secret.secret_words))
    modulus = math.prod(half.moduli)
    t = secret.parameters.plain_moduli[prime]
    scaled = (t * each % modulus for each in integers(half, coefficients_of(half, phase)))
    return [each - modulus if each > modulus // 2 else each for each in scaled]


def integers(half: Polynomials, coefficients: Words) -> list[int]:
    """Return the coefficients modulo Q of one polynomial given modulo each prime of Q (Chinese remainder)."""
    modulus = math.prod(half.moduli)
    weights = [modulus // each * pow(modulus // each, -1, each) for each in half.moduli]
    columns = zip(*coefficients.tolist(), strict=True)
    return [sum(part * weight for part, weight in zip(column, weights, strict=True)) % modulus for column in columns]

"""The noise of BFV ciphertexts: how large it gets, which flooding must hide and the modulus hold; and how large it is.

Standard deviations of a coefficient, derived for what is computed: (Σ left)·(Σ right)·r on chains for products, and
Σ plaintext·ciphertext on the others, whose results are switched to a smaller modulus, too. Tests measure them on both
backends. V is the variance of the secret key's coefficients: 2/3, with joint keys n·2/3.

Measured exactly, in integers, by whoever has the secret key s: (c0, c1) holds c0 + c1·s = Q·m/t + x modulo Q, and
whoever decrypts sees the noise x as well as m.
"""

from __future__ import annotations

import math

from fhe_auc.bfv import slots
from fhe_auc.bfv.context import SecretContext
from fhe_auc.bfv.parameters import DIGIT_BITS, BfvParameters
from fhe_auc.errors import CapacityError
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.second_error import FRESH_VARIANCE
from fhe_auc.rlwe.transform import coefficients_of

CONFIDENCE = 8.0
"""Standard deviations that no coefficient is off by: of a million million coefficients none is."""

MODULUS_SWITCHING_BOUND = 512.0
"""τ: no coefficient of the noise grows by more where a result is switched to a smaller modulus.

Each coefficient of c0 and c1 is rounded, so that one of c0 + c1·s is off by at most N + 1 roundings, added or
subtracted. They lie in [-1/2, 1/2], with mean 0 and independent: those of uniform coefficients, which flooding makes
them. By Hoeffding's inequality any of the N coefficients is off by more than τ with a probability of at most
2N·e^(-2τ²/(N + 1)), 2^-78 at N = 8192. (The worst case, (N + 1)/2, leaves no room modulo one prime.)
"""

_MOST_TAKEN = 0.99  # of the capacity: the primes are not quite powers of two

_ERROR_VARIANCE = 3.25**2  # of the libraries' errors in keys; SEAL's measured 3.24, OpenFHE's 3.19
_SWITCHING_ERROR_VARIANCE = 1 + _ERROR_VARIANCE  # OpenFHE's own 1.0, and what we add
_TERNARY_VARIANCE = 2 / 3


def sum_variance(parties: int) -> float:
    """Return the mean square of a coefficient of the noise of a sum of fresh encryptions under the secret key.

    Of each, both errors, and what encoding rounds off, at most 1/2 up or down.
    """
    return parties * (FRESH_VARIANCE + 1 / 12)


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
    error_variance = sum_variance(parties)
    tensor = 2 * size * error_variance * max(parameters.plain_moduli) ** 2 * (multiple_variance + 1 / 12)
    rounding = (1 + size * key_variance + (size * key_variance) ** 2) / 12
    return math.sqrt(products * (tensor + rounding + _switching_variance(parameters, parties, joint_keys)))


def noise_bound(parameters: BfvParameters, parties: int, *, joint_keys: bool = False, products: int = 1) -> float:
    """Return X: no coefficient of r·noise is larger, whatever r, of absolute value at most t/2."""
    deviation = product_deviation(parameters, parties, joint_keys=joint_keys, products=products)
    return CONFIDENCE * deviation * max(parameters.plain_moduli) / 2


def plain_product_bound(parameters: BfvParameters, products: int) -> float:
    """Return X: no coefficient of the noise of Σ plaintext·ciphertext is larger before flooding.

    Of so many products of any plaintext vector with a fresh encryption under the secret key, no encryption taken twice,
    and of what `PublicContext.flood` and `add_values` add: an encryption of zero under the public key, and 1/2. The
    plaintext is a polynomial of N coefficients of at most t/2, which all meet every coefficient of the noise, so that
    its deviation gets √N·t/2 times as large.
    """
    size = parameters.ring_dimension
    product = max(parameters.plain_moduli) / 2 * math.sqrt(size * sum_variance(products))
    zero = math.sqrt(_ERROR_VARIANCE * (1 + 2 * size * _TERNARY_VARIANCE))
    return CONFIDENCE * math.hypot(product, zero) + 1 / 2


def flooding_margin(parameters: BfvParameters, products: int, kept: int) -> float:
    """Return λ: flooding hides the noise of so many products (`plain_product_bound`) but for a distance of 2^-λ.

    For each prime. With b of `BfvParameters.flooding_bits`, λ is b - log2 N - log2 X. Planners call this with the
    `kept` primes of the modulus q that results are switched to. Raises `CapacityError` where such a result would not
    decrypt: (2^b + X)·q/Q + τ must stay below q/2t. ValueError where there are not so many primes.
    """
    bits = parameters.modulus_bits
    if not 1 <= kept <= len(bits):
        raise ValueError(f"of {len(bits)} primes, 1 to {len(bits)} can be kept, got {kept}")
    bound = plain_product_bound(parameters, products)
    capacity = parameters.capacity_bits
    dropped = sum(bits[kept:])
    rounding = MODULUS_SWITCHING_BOUND * 2.0 ** (dropped - capacity) if dropped else 0.0
    taken = (2.0**parameters.flooding_bits + bound) * 2.0**-capacity + rounding
    if taken > _MOST_TAKEN:
        raise CapacityError(f"{kept} of {len(bits)} primes leave results of {products:,} products no room for noise")
    return parameters.flooding_bits - math.log2(parameters.ring_dimension) - math.log2(bound)


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
    phase = slots.phase_of(half, words, secret.secret_words)
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

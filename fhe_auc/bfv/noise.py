"""The noise of BFV ciphertexts, measured with the secret key: exactly, in integers.

With (c0, c1) and the secret key s, c0 + c1·s = Q·m/t + x modulo Q. Whoever decrypts sees the noise x as well as m.
"""

from __future__ import annotations

import math

import numpy as np

from fhe_auc.bfv.context import SecretContext
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.transform import coefficients_of


def scaled_noise(secret: SecretContext, words: Words, prime: int) -> list[int]:
    """Return t times the noise, an integer between -Q/2 and Q/2 for each coefficient.

    Parameters
    ----------
    secret : SecretContext
    words : ndarray of uint64
        A ciphertext of `prime`, of the shape that submissions have.
    prime : int
        Index of the plaintext modulus t.
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

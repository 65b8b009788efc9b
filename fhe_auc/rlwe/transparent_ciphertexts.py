"""Transparent ciphertexts (c0, c1), whose c1 is zero or small: anybody who knows the session's name can make one.

Parties refuse them.

Where c1 is zero, c0 is the message. Where all of its coefficients are small, c0 + c1·s is the message and a noise: with
c1 = 1, the secret key itself. Those of a ciphertext that a circuit has made are uniform modulo Q.

It is no more than that. A structured c1 may pass: ((Q-1)/2)·(1 + x + … + x^(N-1)) is not small, and c1·s is, under
every second key. A ciphertext made with the public key, or changed on the way, hides what it should. Signatures say
whose word a result is, and are what stops a stranger.
"""

import math

import numpy as np

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.modular import multiply
from fhe_auc.rlwe.number_theoretic_transform import coefficients_of
from fhe_auc.rlwe.polynomials import Polynomials, Words

_LEAST_DISTANCE = 1 / 8
"""Mean distance of c1's coefficients from zero, over Q; uniform ones have 1/4, and of 8192 the mean is 0.002 off."""


def check(words: Words) -> None:
    """Raise `DeserialisationError` where a ciphertext's second polynomial is zero: SEAL has an error of its own."""
    if not words[len(words) // 2 :].any():
        raise DeserialisationError("not a ciphertext: its second polynomial is zero")


def unpack(whole: Polynomials, packed: bytes | memoryview) -> Words:
    """Return the values of a result's polynomials, of the shape `whole`.

    Raises `DeserialisationError` as `Polynomials.unpack`, and where the second polynomial is zero or small.
    """
    words = whole.unpack(packed)
    check(words)
    half = Polynomials(whole.ring_dimension, whole.moduli[: len(whole.moduli) // 2])
    if _distance(half, words[len(half.moduli) :]) < _LEAST_DISTANCE:
        raise DeserialisationError("not a ciphertext: its second polynomial is small")
    return words


def _distance(half: Polynomials, values: Words) -> float:
    """Return the mean distance of a polynomial's coefficients modulo Q from zero, over Q (Chinese remainder)."""
    modulus = math.prod(half.moduli)
    fractions = np.zeros(half.ring_dimension)
    for row, prime in zip(coefficients_of(half, values), half.moduli, strict=True):
        fractions += multiply(row, np.uint64(pow(modulus // prime, -1, prime)), prime) / prime
    return float(np.abs(fractions - np.rint(fractions)).mean())

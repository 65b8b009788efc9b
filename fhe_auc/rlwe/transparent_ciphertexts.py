"""Transparent ciphertexts, whose c1, or a product's c2, is zero or small: who knows the session's name can make one.

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
    _check_size(half, coefficients_of(half, words[len(half.moduli) :]))
    return words


def unpack_results(
    few: Polynomials, whole: Polynomials, packed: bytes | memoryview, count: int
) -> list[tuple[Words, Words, Words]]:
    """Return c0, of the shape `few`, c1 and c2, `whole`, of so many products, as coefficients.

    Raises `DeserialisationError` as `Polynomials.unpack`, and where c1 or c2 is small.
    """
    shapes = few, whole, whole
    if len(packed) != count * sum(shape.packed_size for shape in shapes):
        raise DeserialisationError(f"a result of {len(packed)} bytes is of other parameters")
    view, results = memoryview(packed), []
    for _ in range(count):
        parts = []
        for shape in shapes:
            parts.append(shape.unpack(view[: shape.packed_size]))
            view = view[shape.packed_size :]
        sums, first, second = parts
        for part in (first, second):
            _check_size(whole, part)
        results.append((sums, first, second))
    return results


def _check_size(shape: Polynomials, coefficients: Words) -> None:
    """Raise `DeserialisationError` where coefficients modulo Q are small: their mean distance from zero, over Q."""
    modulus = math.prod(shape.moduli)
    fractions = np.zeros(shape.ring_dimension)
    for row, prime in zip(coefficients, shape.moduli, strict=True):  # Chinese remainder
        fractions += multiply(row, np.uint64(pow(modulus // prime, -1, prime)), prime) / prime
    if float(np.abs(fractions - np.rint(fractions)).mean()) < _LEAST_DISTANCE:
        raise DeserialisationError("not a ciphertext: a polynomial that multiplies the secret key is small")

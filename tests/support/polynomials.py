"""Polynomials modulo primes as Python's integers, and their products by the definition."""

import math
from collections.abc import Sequence

import numpy as np

from fhe_auc.rlwe.modular import centred
from fhe_auc.rlwe.polynomials import Polynomials, Words, values_of


def residues(ring: Polynomials, numbers: Sequence[int]) -> Words:
    """The coefficients modulo each prime."""
    return np.array([[each % modulus for each in numbers] for modulus in ring.moduli], np.uint64)


def polynomial(ring: Polynomials, numbers: Sequence[int]) -> Words:
    """The polynomial with these coefficients, as values at the roots of -1."""
    return values_of(ring, residues(ring, numbers))


def integers(ring: Polynomials, coefficients: Words) -> list[int]:
    """The coefficients modulo Q of one polynomial given modulo each prime of Q (Chinese remainder)."""
    return [number % math.prod(ring.moduli) for number in centred(list(coefficients), ring.moduli)]


def signed(ring: Polynomials, coefficients: Words) -> list[int]:
    """The coefficients as integers between -Q/2 and Q/2."""
    return centred(list(coefficients), ring.moduli)


def product(left: Sequence[int], right: Sequence[int]) -> list[int]:
    """The coefficients of a product modulo x^N + 1, by the definition."""
    size = len(left)
    found = [0] * size
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            found[(i + j) % size] += a * b if i + j < size else -a * b
    return found

"""Products of polynomials over the integers, added up, scaled and rounded: BFV's product of ciphertexts, exactly.

A polynomial modulo Q stands for the one with integer coefficients between -Q/2 and Q/2. Products of these, added up,
are below the product of a few wide primes, modulo which they are computed value by value. What comes out is exact, the
same on every machine: parties and aggregator compute the same polynomial, each for itself.
"""

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from fhe_auc.rlwe.ciphertexts import kept_shape
from fhe_auc.rlwe.modular import MULTIPLIED_BITS, centred, multiply, primes_below
from fhe_auc.rlwe.polynomials import Polynomials, PolynomialSum, Words, coefficients_of, values_of

_MOST_PRODUCTS_BITS = 20


def lifted(half: Polynomials, values: Words) -> Words:
    """Return the polynomial with integer coefficients between -Q/2 and Q/2, as values modulo the wide primes.

    `values`, at the roots of -1, are of the shape `half`, modulo all primes of Q.
    """
    # With y_i = x·(Q/q_i)^-1 modulo q_i, x is Σ y_i·(Q/q_i) less the nearest multiple of Q, which the y_i/q_i tell in
    # double precision. Where x is within 2^-48·Q of Q/2 it may come out as x - Q, for everybody alike.
    modulus, shape = math.prod(half.moduli), wide(half)
    digits = [
        multiply(row, np.uint64(pow(modulus // q, -1, q)), q)
        for row, q in zip(coefficients_of(half, values), half.moduli, strict=True)
    ]
    multiple = np.rint(sum(digit / q for digit, q in zip(digits, half.moduli, strict=True))).astype(np.uint64)
    found = shape.zeros()
    for row, p in zip(found, shape.moduli, strict=True):
        row[:] = multiply(multiple, np.uint64(-modulus % p), p)
        for digit, q in zip(digits, half.moduli, strict=True):
            row += multiply(digit, np.uint64(modulus // q % p), p)
        row %= np.uint64(p)
    return values_of(shape, found)


def summed_products(half: Polynomials, pairs: Iterable[tuple[Words, Words]]) -> Words:
    """Return Σ x·y over the integers, of up to 2^20 pairs as `lifted` returns them, and in the same form."""
    shape = wide(half)
    total = PolynomialSum(shape)
    for x, y in pairs:
        total.add(shape.multiply(x, y))
    return total.words


def rounded(half: Polynomials, products: Words, t: int, kept: int) -> Words:
    """Return t·q/Q² times what `summed_products` returned, rounded, modulo the first `kept` primes of Q, of product q.

    As values at the roots of -1. Errors as `kept_shape`.
    """
    shape, small = wide(half), kept_shape(half, kept)
    modulus = math.prod(half.moduli)
    denominator = modulus * modulus // math.prod(small.moduli)
    shift = denominator // 2
    whole = centred(list(coefficients_of(shape, products)), shape.moduli)
    numbers = ((t * each + shift) // denominator for each in whole)
    rows = [[each % q for q in small.moduli] for each in numbers]
    return values_of(small, np.ascontiguousarray(np.array(rows, np.uint64).T))


@lru_cache(maxsize=16)
def wide(half: Polynomials) -> Polynomials:
    """Return the shape of a polynomial modulo the wide primes: their product is above twice any sum of products."""
    size = half.ring_dimension
    bits = 2 * math.prod(half.moduli).bit_length() + size.bit_length() + _MOST_PRODUCTS_BITS
    # None of them is a prime of Q: these have fewer bits (`bfv.parameters`), and it would not matter.
    return Polynomials(size, primes_below(MULTIPLIED_BITS, -(-bits // (MULTIPLIED_BITS - 1)), size))

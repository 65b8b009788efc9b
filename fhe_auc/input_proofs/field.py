"""Arithmetic modulo a prime t with 2^k | t − 1: roots of unity, and transforms over them.

Arrays hold residues in [0, t); the last axis is the one that is transformed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues, multiply
from fhe_auc.rlwe.polynomials import bit_reversed


@lru_cache(maxsize=64)
def root_of_unity(order: int, prime: int) -> int:
    """Return an element of this order, a power of two; raise ValueError where the field has none."""
    if order < 1 or order & (order - 1) or (prime - 1) % order:
        raise ValueError(f"modulo {prime} there is no element of order {order}")
    non_residue = next(each for each in range(2, prime) if pow(each, (prime - 1) // 2, prime) != 1)
    return pow(non_residue, (prime - 1) // order, prime)


@lru_cache(maxsize=256)
def powers(base: int, count: int, prime: int) -> Residues:
    """Return base^0 … base^(count − 1), read-only."""
    found = modular.powers(base, count, prime)
    found.flags.writeable = False
    return found


def values_at_roots(coefficients: Residues, prime: int) -> Residues:
    """Return the values at ω^0 … ω^(n − 1) of polynomials with n coefficients, ω of order n, a power of two."""
    return _transformed(coefficients, root_of_unity(coefficients.shape[-1], prime), prime)


def coefficients_of(values: Residues, prime: int) -> Residues:
    """Return the coefficients of the polynomials that take these values at the roots; undoes `values_at_roots`."""
    size = values.shape[-1]
    found = _transformed(values, pow(root_of_unity(size, prime), -1, prime), prime)
    return multiply(found, np.uint64(pow(size, -1, prime)), prime)


def _transformed(numbers: Residues, root: int, prime: int) -> Residues:
    """Cooley and Tukey's transform in time."""
    size, t = numbers.shape[-1], np.uint64(prime)
    found = np.ascontiguousarray(numbers[..., bit_reversed(size)])
    half = 1
    while half < size:
        factors = powers(pow(root, size // (2 * half), prime), half, prime)
        pairs = found.reshape(*found.shape[:-1], size // (2 * half), 2, half)
        odd = multiply(pairs[..., 1, :], factors, prime)
        even = pairs[..., 0, :].copy()
        pairs[..., 0, :] = (even + odd) % t
        pairs[..., 1, :] = (even + (t - odd)) % t
        half *= 2
    return found

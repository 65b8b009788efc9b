"""Arithmetic modulo a prime t with 2^k | t − 1: roots of unity, transforms over them, and sums of any length.

Arrays hold residues in [0, t); the last axis is the one that is transformed or summed unless an axis is given.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fhe_auc.rlwe.modular import Residues, multiply

_BLOCK = 2**8  # so many residues of 56 bits add up in 64


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
    found = np.ones(count, np.uint64)
    done = 1
    while done < count:
        step = np.uint64(pow(base, done, prime))
        found[done : 2 * done] = multiply(found[: min(done, count - done)], step, prime)
        done *= 2
    found.flags.writeable = False
    return found


def total(values: Residues, prime: int, axis: int = -1) -> Residues:
    """Return sums along an axis of any length."""
    moved = np.moveaxis(values, axis, -1)
    while moved.shape[-1] > _BLOCK:
        whole = moved.shape[-1] // _BLOCK * _BLOCK
        blocks = moved[..., :whole].reshape(*moved.shape[:-1], -1, _BLOCK).sum(axis=-1, dtype=np.uint64)
        moved = np.concatenate([blocks % np.uint64(prime), moved[..., whole:]], axis=-1)
    return np.asarray(moved.sum(axis=-1, dtype=np.uint64) % np.uint64(prime))


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
    found = np.ascontiguousarray(numbers[..., _reversed(size)])
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


@lru_cache(maxsize=16)
def _reversed(size: int) -> NDArray[np.int64]:
    """Return 0 … size − 1, the bits of each reversed."""
    found: NDArray[np.int64] = np.zeros(1, np.int64)
    while len(found) < size:
        found = np.concatenate([2 * found, 2 * found + 1])
    return found

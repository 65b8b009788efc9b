"""The number-theoretic transform: a polynomial's coefficients modulo a prime, and its values at roots of -1.

    value j = Σ_k c_k·ψ^((2·rev(j) + 1)·k) mod q        rev reverses the log2 N bits of j

with ψ the smallest primitive 2N-th root of one. Both libraries keep ciphertexts and keys as these values, in this
order; a test compares. Here it serves what the libraries do not offer: noise of our own choice, and looking at noise.

Source: Longa and Naehrig, "Speeding up the Number Theoretic Transform …", CANS 2016, algorithms 1 and 2.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fhe_auc.rlwe.modular import multiply
from fhe_auc.rlwe.polynomials import Polynomials, Words


def values_of(polynomials: Polynomials, coefficients: Words) -> Words:
    """Return the values of polynomials given by their coefficients; both as `Polynomials.unpack` returns them."""
    moduli, roots, _, _ = _tables(polynomials)
    found = coefficients.copy()
    blocks = 1
    while blocks < polynomials.ring_dimension:
        halves = found.reshape(len(found), blocks, 2, -1)
        factors = roots[:, blocks : 2 * blocks, None]
        left, right = halves[:, :, 0].copy(), multiply(halves[:, :, 1], factors, moduli)
        halves[:, :, 0] = _reduced(left + right, moduli)
        halves[:, :, 1] = _reduced(left + moduli - right, moduli)
        blocks *= 2
    return found


def coefficients_of(polynomials: Polynomials, values: Words) -> Words:
    """Return the coefficients of polynomials given by their values."""
    moduli, _, inverse_roots, inverse_size = _tables(polynomials)
    found = values.copy()
    blocks = polynomials.ring_dimension // 2
    while blocks:
        halves = found.reshape(len(found), blocks, 2, -1)
        left, right = halves[:, :, 0].copy(), halves[:, :, 1].copy()
        halves[:, :, 0] = _reduced(left + right, moduli)
        halves[:, :, 1] = multiply(left + moduli - right, inverse_roots[:, blocks : 2 * blocks, None], moduli)
        blocks //= 2
    return multiply(found[:, None, :], inverse_size, moduli)[:, 0]


def _reduced(numbers: NDArray[np.uint64], moduli: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers below twice their modulus, reduced: what is below wraps around when the modulus is subtracted."""
    return np.asarray(np.minimum(numbers, numbers - moduli))


@lru_cache(maxsize=8)
def _tables(polynomials: Polynomials) -> tuple[NDArray[np.uint64], Words, Words, NDArray[np.uint64]]:
    """Return moduli, ψ^rev(j) and its inverse, and 1/N, shaped to be broadcast."""
    ring_dimension, moduli = polynomials.ring_dimension, polynomials.moduli
    bits = ring_dimension.bit_length() - 1
    order = [int(f"{j:0{bits}b}"[::-1], 2) for j in range(ring_dimension)]
    roots: list[list[int]] = []
    inverses: list[list[int]] = []
    for modulus in moduli:
        root = smallest_root(ring_dimension, modulus)
        for table, base in ((roots, root), (inverses, pow(root, -1, modulus))):
            powers = [1]
            for _ in range(ring_dimension - 1):
                powers.append(powers[-1] * base % modulus)
            table.append([powers[place] for place in order])
    sizes = [pow(ring_dimension, -1, modulus) for modulus in moduli]
    broadcast = (len(moduli), 1, 1)
    return (
        np.array(moduli, np.uint64).reshape(broadcast),
        np.array(roots, np.uint64),
        np.array(inverses, np.uint64),
        np.array(sizes, np.uint64).reshape(broadcast),
    )


def smallest_root(ring_dimension: int, modulus: int) -> int:
    """Return the smallest primitive 2N-th root of one modulo a prime that is 1 modulo 2N."""
    base = 2
    while pow(base, (modulus - 1) // 2, modulus) != modulus - 1:
        base += 1
    root = pow(base, (modulus - 1) // (2 * ring_dimension), modulus)
    step, smallest = root * root % modulus, root
    for _ in range(ring_dimension - 1):
        root = root * step % modulus
        smallest = min(smallest, root)
    return smallest

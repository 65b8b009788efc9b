"""Switch polynomials to a smaller modulus: divide by the primes that are dropped, and round each coefficient.

A ciphertext (c0, c1) whose noise is far below its modulus Q says as much modulo q, both polynomials times q/Q: message
and noise get smaller together, and rounding adds little (`fhe_auc.bfv.ciphertext_noise`). Anybody can do it.
"""

import numpy as np

from fhe_auc.rlwe.modular import multiply
from fhe_auc.rlwe.number_theoretic_transform import coefficients_of, values_of
from fhe_auc.rlwe.polynomials import Polynomials, Words


def kept_shape(half: Polynomials, kept: int) -> Polynomials:
    """Return the shape of one polynomial modulo the first `kept` primes; ValueError where there are not so many."""
    if not 1 <= kept <= len(half.moduli):
        raise ValueError(f"of {len(half.moduli)} primes, 1 to {len(half.moduli)} can be kept, got {kept}")
    return Polynomials(half.ring_dimension, half.moduli[:kept])


def switched(half: Polynomials, values: Words, kept: int) -> Words:
    """Return one polynomial modulo the first `kept` primes, divided by the others; both as values at roots of unity.

    `half` is the shape of `values`. Each coefficient is off by at most 1/2, or hardly more. Errors as `kept_shape`.
    """
    shape = kept_shape(half, kept)
    if shape == half:
        return values
    return values_of(shape, divided(half, coefficients_of(half, values), kept))


def divided(half: Polynomials, rows: Words, kept: int) -> Words:
    """Return the same of coefficients, of shape (primes, any number); `rows` are changed."""
    for last in reversed(range(kept, len(half.moduli))):
        dropped = half.moduli[last]
        remainder = rows[-1].astype(np.int64)
        remainder[remainder > dropped // 2] -= dropped  # so that quotients are rounded, not cut off
        rows = rows[:-1]
        for row, modulus in zip(rows, half.moduli[:last], strict=True):
            divisible = row + np.mod(-remainder, modulus).view(np.uint64)
            row[:] = multiply(divisible, np.uint64(pow(dropped, -1, modulus)), modulus)
    return rows

"""Slots: how complex numbers stand in a polynomial with integer coefficients, and where their sum does.

A polynomial modulo x^N + 1 is C in y = x^C, its components, z = z₀(y) + x·z₁(y) + … with C = 4 or 16. Each has N/C
coefficients, and its values at the B = N/2C roots y_j = exp(iπ(4j + 1)/2B) of -1 are its slots: CKKS's canonical
embedding of the smaller ring (Cheon et al., ASIACRYPT 2017), at one of each two conjugate roots.

    slots v_j of a component   ->   coefficient k = (1/B)·Re Σ_j v_j·y_j^-k
    coefficient 0   = (1/B)·Re Σ_j v_j          coefficient B = (1/B)·Im Σ_j v_j         since y_j^B = i

So the sum over all slots is two coefficients of the plaintext, and takes no rotation. Components multiply like powers
of x: of a square z², component k is Σ z_a·z_b over a + b = k, and y times that over a + b = k + C, slot by slot. Where
only those of `fhe_auc.ckks.parameters.PRODUCTS` are filled, some components of z² are 2·z_a·z_b and nothing else.

Each component is encoded in double precision on its own: one of large values leaves the others' small ones precise.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.ckks.parameters import PRODUCTS
from fhe_auc.rlwe.modular import add, multiply, reduced
from fhe_auc.rlwe.polynomials import Polynomials, Words

Slots: TypeAlias = NDArray[np.complex128]
"""Values of a plaintext, shape (C, B): a row for each component."""

_LOW_BITS = 40
MOST_BITS = _LOW_BITS + 62  # of a coefficient's size: what is above the low bits fits an int64, and rounds nothing


def summed(components: int) -> list[int]:
    """Return the components of a square, of so many, whose sums over all slots a result tells, triple by triple."""
    return [first + second for first, *others in PRODUCTS[components] for second in others]


def sum_positions(ring_dimension: int, components: int) -> list[int]:
    """Return where the sums of `summed` stand in a polynomial: real and imaginary part of each in turn."""
    return [each + part for each in summed(components) for part in (0, ring_dimension // 2)]


def coefficients(values: Slots) -> NDArray[np.float64]:
    """Return the real coefficients, shape (2CB,), of the polynomial with these slots; not rounded."""
    size = values.shape[1]
    twist = np.exp(-0.5j * np.pi / size * np.arange(2 * size))
    found = (np.tile(np.fft.fft(values, axis=1), 2) * twist).real / size
    return np.ascontiguousarray(found.T).ravel()


def message(half: Polynomials, numbers: NDArray[np.float64]) -> Words:
    """Return numbers below 2^102 in size, rounded to integers, modulo each prime of `half`."""
    whole = np.rint(numbers)
    high = np.floor(whole / 2.0**_LOW_BITS).astype(np.int64)
    low = (whole - high * 2.0**_LOW_BITS).astype(np.uint64)
    words = half.zeros()
    for row, prime in zip(words, half.moduli, strict=True):
        above = multiply(reduced(high, prime), np.uint64(2**_LOW_BITS % prime), prime)
        row[:] = add(above, reduced(low, prime), prime)
    return words

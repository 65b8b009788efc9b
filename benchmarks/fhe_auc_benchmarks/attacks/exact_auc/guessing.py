"""The best that anybody can do who sees every plaintext submitted: guess the point α, four values at a time.

An accepted lie is a pair of polynomials (n, d) of degree 2 with n·H_D - d·H_N = Q, where Q is not zero and has α as a
root. Q has degree 4 at most, and any Q of degree 4 can be reached where H_N and H_D have no common root: modulo H_D, d
is -Q/H_N, and n follows. So a liar chooses Q with four roots among the values that α may have.

Where H_N and H_D have a common divisor, there is better: to put z in its place leaves Q = 0, which passes whatever α
is, and says that the AUC is undefined.
"""

from __future__ import annotations

import numpy as np

from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues

GUESSES = 4


def forged(honest: Residues, prime: int, generator: np.random.Generator) -> Residues:
    """Return totals that pass whatever α is where that can be, else if α is among four values drawn at random.

    From the coefficients of H_N and H_D, shape (…, 3, 2), those of n and d, of the same shape. Where H_D has no leading
    coefficient, they are mostly of no use.
    """
    possible, undefined = _undefined(honest, prime)
    return np.where(possible[..., None, None], undefined, _guessed(honest, prime, generator))


def _undefined(honest: Residues, prime: int) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.bool_]], Residues]:
    """Return where H_N and H_D have a common divisor, and there z·H/divisor, which has no constant coefficient."""
    constant, middle, leading = np.moveaxis(honest, -2, 0)
    # n2·H_D - d2·H_N = c0 + c1·z vanishes at every common root.
    c0, c1 = (_cross(leading, each, prime) for each in (constant, middle))
    root = modular.multiply(modular.subtract(np.zeros_like(c0), c0, prime), modular.inverse(c1, prime), prime)
    root = root[..., None]
    quotient = modular.add(middle, modular.multiply(leading, root, prime), prime)
    at_root = modular.add(constant, modular.multiply(quotient, root, prime), prime)
    linear = (leading == 0).all(axis=-1)
    proportional = (c0 == 0) & (c1 == 0) & ~linear
    shared = (c1 != 0) & (at_root == 0).all(axis=-1)
    nothing = np.zeros_like(constant)
    found = np.stack([nothing, quotient, leading], axis=-2)
    found[proportional] = np.stack([nothing, leading, nothing], axis=-2)[proportional]
    found[linear] = np.stack([nothing, constant, middle], axis=-2)[linear]
    return linear | proportional | shared, found


def _guessed(honest: Residues, prime: int, generator: np.random.Generator) -> Residues:
    """Return totals that pass if α is among four values drawn at random."""
    numerator, denominator = honest[..., 0], honest[..., 1]
    q = _product_of_roots(_distinct(prime, generator, honest.shape[:-2]), prime)
    # d = d0 + d1·z with Q + d·H_N divisible by H_D: two linear equations, by Cramer's rule.
    monic = modular.multiply(denominator, modular.inverse(denominator[..., 2], prime)[..., None], prime)
    times_z = np.concatenate([np.zeros_like(numerator[..., :1]), numerator], axis=-1)
    (_, c), (_, u), (_, v) = (_divided(each, monic, prime) for each in (q, numerator, times_z))
    inverse = modular.inverse(_cross(u, v, prime), prime)
    d = np.zeros_like(numerator)
    d[..., 0] = modular.multiply(_cross(v, c, prime), inverse, prime)
    d[..., 1] = modular.multiply(_cross(c, u, prime), inverse, prime)
    n, _ = _divided(modular.add(q, _multiplied(d, numerator, prime), prime), monic, prime)
    n = modular.multiply(n, modular.inverse(denominator[..., 2], prime)[..., None], prime)
    return np.stack([n, d], axis=-1)


def _distinct(prime: int, generator: np.random.Generator, shape: tuple[int, ...]) -> Residues:
    """Return four different values in 1 … prime - 1, shape (…, 4)."""
    drawn = generator.integers(0, [prime - 1 - each for each in range(GUESSES)], (*shape, GUESSES))
    for place in range(1, GUESSES):  # the k-th value that has not been taken
        for taken in np.moveaxis(np.sort(drawn[..., :place], axis=-1), -1, 0):
            drawn[..., place] += drawn[..., place] >= taken
    return (drawn + 1).astype(np.uint64)


def _product_of_roots(roots: Residues, prime: int) -> Residues:
    """Return the coefficients of Π (z - root), the constant one first."""
    found = np.ones((*roots.shape[:-1], 1), np.uint64)
    for place in range(roots.shape[-1]):
        shifted = np.concatenate([np.zeros_like(found[..., :1]), found], axis=-1)
        times = modular.multiply(found, roots[..., place, None], prime)
        shifted[..., :-1] = modular.subtract(shifted[..., :-1], times, prime)
        found = shifted
    return found


def _multiplied(x: Residues, y: Residues, prime: int) -> Residues:
    """Return the product of two polynomials of degree 2."""
    found = np.zeros((*x.shape[:-1], 5), np.uint64)
    for power in range(3):
        times = modular.multiply(y, x[..., power, None], prime)
        found[..., power : power + 3] = modular.add(found[..., power : power + 3], times, prime)
    return found


def _divided(polynomial: Residues, monic: Residues, prime: int) -> tuple[Residues, Residues]:
    """Return quotient (three coefficients) and remainder (two) by a monic polynomial of degree 2."""
    rest = polynomial.copy()
    quotient = np.zeros((*rest.shape[:-1], 3), np.uint64)
    for power in range(rest.shape[-1] - 3, -1, -1):
        quotient[..., power] = rest[..., power + 2]
        times = modular.multiply(monic, rest[..., power + 2, None], prime)
        rest[..., power : power + 3] = modular.subtract(rest[..., power : power + 3], times, prime)
    return quotient, rest[..., :2]


def _cross(x: Residues, y: Residues, prime: int) -> Residues:
    return modular.subtract(
        modular.multiply(x[..., 0], y[..., 1], prime), modular.multiply(x[..., 1], y[..., 0], prime), prime
    )

"""Making proofs.

The wires' polynomials f_i take a seed at ω^0, and at ω^k what enters the gadget in call k. The proof is the seeds, and
the coefficients of p = G(f), G the gadget: of degree b·(P − 1). It is made of p's values on b cosets of the P roots of
unity, η^c·⟨ω⟩: with k = i mod P they tell Σ_m p_{k + P·m}·η^{c·(k + P·m)}, a system of b equations for each k.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fhe_auc.input_proofs.field import coefficients_of, powers, root_of_unity, values_at_roots
from fhe_auc.input_proofs.statement import Shape, Statement
from fhe_auc.rlwe.modular import Residues, add, multiply, subtract, total


def prove(statement: Statement, digits: Residues, weights: Residues, seeds: Residues) -> Residues:
    """Return the proofs of a party's digits, shape (proofs, `Shape.size`): seeds, then coefficients.

    `digits` have the shape (digits,). `weights`, the joint randomness, have the shape (proofs, digits), and `seeds`,
    uniform and used once, (proofs, wires).
    """
    shape, t = statement.shape, statement.prime
    own = in_calls(digits, shape)
    products = multiply(in_calls(weights, shape), own, t)
    # Digits and products of all calls, (1 + proofs, chunk, P), and the polynomials through them and zeros at ω^0.
    wires = np.zeros((1 + len(weights), shape.chunk, shape.points), np.uint64)
    wires[0, :, 1:], wires[1:, :, 1:] = own.T, products.swapaxes(1, 2)
    polynomials = coefficients_of(wires, t)
    of_products, of_digits = seeds[:, : shape.chunk, None], seeds[:, shape.chunk :, None]
    values = np.empty((statement.base, len(weights), shape.points), np.uint64)
    for number in range(statement.base):
        shift = pow(root_of_unity(shape.order, t), number, t)
        on_coset = values_at_roots(multiply(polynomials, powers(shift, shape.points, t), t), t) if number else wires
        first = _first(shape, t, shift)  # the polynomial that is 1 at ω^0, and zero at the others
        u = add(on_coset[1:], multiply(of_products, first, t), t)
        x = add(on_coset[:1], multiply(of_digits, first, t), t)
        values[number] = gadget(u, x, statement.base, t, axis=1)
    return np.concatenate([seeds, _interpolated(values, shape, t)], axis=1)


def gadget(products: Residues, digits: Residues, base: int, prime: int, axis: int = -1) -> Residues:
    """Return the gadget, Σ_j u_j·Π_{v=1}^{b−1} (x_j − v), of u and x, of one shape, with j along `axis`.

    With u_j = r_j·x_j it is zero where every x_j is a digit to the base b. Where one is not, it is zero for one in t of
    the weights r only.
    """
    # Factors v and b − v make x² − b·x + v·(b − v): half as many products.
    square = multiply(digits, subtract(digits, np.full((), base, np.uint64), prime), prime)
    found = products
    for value in range(1, (base + 1) // 2):
        found = multiply(found, add(square, np.full((), value * (base - value), np.uint64), prime), prime)
    if base % 2 == 0:
        found = multiply(found, subtract(digits, np.full((), base // 2, np.uint64), prime), prime)
    return total(found, prime, axis)


def in_calls(digits: Residues, shape: Shape) -> Residues:
    """Return what belongs to digits, shape (…, digits), by call: shape (…, calls, chunk), filled up with zeros."""
    filled = np.zeros((*digits.shape[:-1], shape.calls * shape.chunk), np.uint64)
    filled[..., : shape.digits] = digits
    return filled.reshape(*digits.shape[:-1], shape.calls, shape.chunk)


def _first(shape: Shape, prime: int, shift: int) -> Residues:
    """Return (y^P − 1)/(P·(y − 1)), its limit 1 at y = 1, for y on the coset of `shift`: shape (P,)."""
    if shift == 1:
        return np.array([1] + [0] * shape.calls, np.uint64)
    # The same polynomial by its coefficients, which are all 1/P.
    even = np.full(shape.points, pow(shape.points, -1, prime), np.uint64)
    return values_at_roots(multiply(even, powers(shift, shape.points, prime), prime), prime)


def _interpolated(values: Residues, shape: Shape, prime: int) -> Residues:
    """Return the coefficients, (proofs, coefficients), of polynomials by values on the cosets, (cosets, proofs, P)."""
    unshifted = np.stack(
        [
            multiply(each, powers(pow(root_of_unity(shape.order, prime), -number, prime), shape.points, prime), prime)
            for number, each in enumerate(coefficients_of(values, prime))
        ]
    )
    solved = multiply(_inverse(shape, prime)[:, :, None, None], unshifted[None], prime)
    blocks = total(solved, prime, axis=1)  # (blocks of P coefficients, proofs, P)
    found: Residues = blocks.swapaxes(0, 1).reshape(values.shape[1], -1)
    return found[:, : shape.coefficients]


@lru_cache(maxsize=16)
def _inverse(shape: Shape, prime: int) -> NDArray[np.uint64]:
    """Return the inverse of the matrix with s^{c·m} in row c and column m, s = η^P, shape (b, b), in integers mod t.

    Row m of it has the coefficients of X^m in Lagrange's polynomials of the points s^c.
    """
    base, step = shape.base, pow(root_of_unity(shape.order, prime), shape.points, prime)
    points = [pow(step, number, prime) for number in range(base)]
    found = np.zeros((base, base), np.uint64)
    for own, point in enumerate(points):
        polynomial = [1]
        scale = 1
        for other in points:
            if other != point:
                shifted, scaled = [0, *polynomial], [-other * each for each in polynomial] + [0]
                polynomial = [(x + y) % prime for x, y in zip(shifted, scaled, strict=True)]
                scale = scale * (point - other) % prime
        inverse = pow(scale, -1, prime)
        found[:, own] = [each * inverse % prime for each in polynomial]
    return found

"""Proofs: how a party makes them, and how two servers check them.

**Making.** The wires' polynomials f_i take a seed at ω^0, and at ω^k what enters the gadget in call k. The proof is the
seeds, and the coefficients of p = G(f), G the gadget: of degree b·(P − 1). It is made of p's values on b cosets of the
P roots of unity, η^c·⟨ω⟩: with k = i mod P they tell Σ_m p_{k + P·m}·η^{c·(k + P·m)}, b equations for each k.

**Checking.** Each server queries its shares, and whoever has both servers' answers decides. All that a server computes
is linear in its shares, so the answers add up to that of the digits and the proofs. At a random point z the wires'
polynomials must give what the gadget's polynomial is there; the gadget's values in all calls must add up to zero; and
random combinations of the equations must hold.

With z outside the P roots of unity the wires' values at z are uniform, as their seeds are, so the answers together tell
nothing of the digits. At a root they would *be* digits.

Arrays hold residues modulo a prime t with 2^k | t − 1; transforms are over the last axis.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.input_proofs.statement import LINEAR_CHECKS, PROOFS, Shape, Statement
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues, add, inverse, multiply, subtract, total, uniform
from fhe_auc.rlwe.polynomials import bit_reversed

_LABEL = b"fhe-auc input proofs: query 1\0"


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
        others = np.array(points[:own] + points[own + 1 :], object)
        found[:, own] = np.poly(others)[::-1] * pow(int(np.prod(point - others)), -1, prime) % prime
    return found


class Query:
    """Where the proofs of a session are looked at; never printed, as who knows it beforehand can make false ones.

    `key`, 32 bytes (`InputError` for another length), is drawn once all submissions are in; `digest` is the manifest's.
    The points are drawn again until they lie outside the roots of unity, so no key yields a point at a digit.
    """

    def __init__(self, statement: Statement, key: bytes, digest: bytes) -> None:
        shape, t = statement.shape, statement.prime
        stream = KeyStream(derived_key(key, digest, _LABEL))
        drawn = (int(uniform(stream, t, 1)[0]) for _ in iter(int, 1))
        points = [next(each for each in drawn if pow(each, shape.points, t) != 1) for _ in range(PROOFS)]
        self._statement = statement
        self._lagrange = np.stack([_lagrange(point, shape.points, t) for point in points])
        self._powers = np.stack([powers(point, shape.coefficients, t) for point in points])
        # Σ p(ω^k) over the calls is P·Σ of every P-th coefficient, less p(1), the sum of all.
        every = np.arange(shape.coefficients) % shape.points == 0
        self._calls = np.where(every, np.uint64(shape.points - 1), np.uint64(t - 1))
        self._weights = uniform(stream, t, LINEAR_CHECKS, statement.equations)
        self._combined = statement.combined(self._weights)

    def __repr__(self) -> str:
        return "Query(...)"

    def answers(
        self, digits: Residues, proofs: Residues, weights: Residues, constants: Residues | None = None
    ) -> Residues:
        """Return a server's answers for its shares of several parties' digits and proofs, (parties, verifier_size).

        `digits` have the shape (parties, digits), `proofs` (parties, proofs, `Shape.size`), and `weights`, the joint
        randomness, (parties, proofs, digits). `constants`, (parties, equations), are those of the equations, for one of
        the servers only.
        """
        statement, shape, t = self._statement, self._statement.shape, self._statement.prime
        seeds, coefficients = proofs[..., : shape.wires], proofs[..., shape.wires :]
        own, at_calls = in_calls(digits, shape)[:, None], self._lagrange[:, 1:, None]
        scaled = multiply(own, at_calls, t)  # (parties, proofs, calls, chunk)
        of_digits = total(scaled, t, axis=2)
        of_products = total(multiply(in_calls(weights, shape), scaled, t), t, axis=2)
        wires = add(np.concatenate([of_products, of_digits], axis=-1), multiply(seeds, self._lagrange[:, :1], t), t)
        at_point = total(multiply(coefficients, self._powers, t), t)
        in_all_calls = total(multiply(coefficients, self._calls, t), t)
        answers = np.concatenate([wires, at_point[..., None], in_all_calls[..., None]], axis=-1)
        linear = total(multiply(statement.counts_of(digits)[:, None], self._combined, t), t)
        if constants is not None:
            linear = subtract(linear, total(multiply(constants[:, None], self._weights, t), t), t)
        return np.concatenate([answers.reshape(len(digits), -1), linear], axis=-1)


def decide(statement: Statement, answers: Residues) -> NDArray[np.bool_]:
    """Return of which parties the proofs hold, shape (parties,), by the sum of both servers' answers."""
    shape, t = statement.shape, statement.prime
    linear = answers[:, -LINEAR_CHECKS:]
    by_proof = answers[:, :-LINEAR_CHECKS].reshape(len(answers), PROOFS, -1)
    found = gadget(by_proof[..., : shape.chunk], by_proof[..., shape.chunk : shape.wires], shape.base, t)
    wrong = (found ^ by_proof[..., -2]) | by_proof[..., -1]
    return np.asarray((np.bitwise_or.reduce(wrong, axis=-1) | np.bitwise_or.reduce(linear, axis=-1)) == 0)


def _lagrange(point: int, size: int, prime: int) -> Residues:
    """Return the values at `point`, no root of unity, of the polynomials that are 1 at one root and 0 at the others."""
    roots = powers(root_of_unity(size, prime), size, prime)
    scale = (pow(point, size, prime) - 1) * pow(size, -1, prime) % prime
    away = subtract(np.full(size, point, np.uint64), roots, prime)
    return multiply(multiply(inverse(away, prime), roots, prime), np.uint64(scale), prime)


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

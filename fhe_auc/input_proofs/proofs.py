"""Proofs: how a party makes them, and how two servers check them.

    x_kj       digits, calls k = 1 … C, j = 1 … J; what is left of the last f_j is zeros
    g          Π_{v<b} (x − v), zero on digits to the base b
    f_j        polynomial of degree C + N − 1 through x_kj at k, and random seeds at C + 1 … C + N
    σ_ij       weights, i = 1 … N: the joint randomness
    h_i        Σ_j σ_ij·g(f_j), of degree b·(C + N − 1)
    Z          Π_k (y − k), k = 1 … C
    q_i        h_i/Z, a polynomial where all h_i are zero at 1 … C: of degree D = b·(C + N − 1) − C

**Making.** The proof is the seeds, and each q_i by its values at C + 1 … C + D + 1, where Z is not zero.

**Checking.** At distinct random points z_1 … z_N outside 1 … C each server makes of its shares the values of all f_j at
all points, and of q_i at z_i: all is linear in shares, so both servers' add up to those of the digits and the proof.
Whoever has both, and the weights, decides whether Σ_j σ_ij·g(f_j(z_i)) = Z(z_i)·q_i(z_i) for all i. Random combinations
of the equations must hold besides.

**Soundness.** Where an x_kj is no digit, h_i is not zero at k, but for one in t of the weights. Then h_i − Z·q_i is not
zero, whatever q_i and the seeds are, and has b·(C + N − 1) roots at most: so many of t − C − N + 1 points at least.

**Zero knowledge.** As the N points are distinct and outside 1 … C, values of f_j there are uniform, as its N seeds are.
What q_i is there follows from them, as Z(z_i) is not zero. At a point in 1 … C the values would *be* digits.

All N proofs have the f_j in common, so that they have N seeds each, and N proofs less than twice the size of one.
Values at integers are products with constant matrices (Lagrange). Arrays hold residues modulo a prime t of up to 50
bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.input_proofs.statement import LINEAR_CHECKS, Shape, Statement
from fhe_auc.rlwe.modular import Matrix, Residues, add, matmul, product, subtract, total, uniform

_LABEL = b"fhe-auc input proofs: query 2\0"
_BLOCK = 2**13  # residues that are worked on at a time: they fit a processor's first caches


def prove(statement: Statement, digits: Residues, weights: Residues, seeds: Residues) -> Residues:
    """Return the proof of a party's digits, shape (`Shape.size`,): seeds, then the values of each q_i.

    `digits` have the shape (digits,). `weights`, the joint randomness, and `seeds`, uniform and used once, have the
    shape (chunk, proofs).
    """
    shape, t = statement.shape, statement.prime
    beyond, over_z = _for_proving(shape, t)
    values = np.concatenate([seeds, beyond.after(_known(digits, seeds, shape))], axis=1)  # of f_j, at C + 1 …
    sums = matmul(gadget(values, shape.base, t).T, weights, t).T
    return np.concatenate([seeds.reshape(-1), product(sums, over_z, t).reshape(-1)])


def gadget(digits: Residues, base: int, prime: int) -> Residues:
    """Return g = Π_{v<b} (x − v) of each x: zero where it is a digit to the base b."""
    flat = digits.reshape(-1)
    found = np.empty_like(flat)
    for start in range(0, flat.size, _BLOCK):
        x = flat[start : start + _BLOCK]
        # Factors v and b − 1 − v make x·(x − b + 1) + v·(b − 1 − v): half as many products.
        square = product(x, subtract(x, np.uint64(base - 1), prime), prime)
        more = (np.uint64(value * (base - 1 - value)) for value in range(1, base // 2))
        factors = [square, *(add(square, each, prime) for each in more)]
        factors += [subtract(x, np.uint64(base // 2), prime)] if base % 2 else []
        found[start : start + _BLOCK] = reduce(lambda left, right: product(left, right, prime), factors)
    return found.reshape(digits.shape)


def _known(digits: Residues, seeds: Residues, shape: Shape) -> Residues:
    """Return the values of f_j at 1 … C + N, shape (…, chunk, C + N)."""
    found = np.zeros((*digits.shape[:-1], shape.chunk * shape.calls), np.uint64)
    found[..., : shape.digits] = digits
    return np.concatenate([found.reshape(*seeds.shape[:-1], shape.calls), seeds], axis=-1)


@lru_cache(maxsize=16)
def _for_proving(shape: Shape, prime: int) -> tuple[Matrix, Residues]:
    """Return what makes f_j's values at C + N + 1 … C + D + 1 of those before, and 1/Z at C + 1 … C + D + 1."""
    points = range(shape.calls + 1, shape.calls + shape.quotient + 1)
    beyond = [lagrange(1, shape.known, point, prime) for point in points[shape.proofs :]]
    over_z = [pow(_vanishing(point, shape, prime), -1, prime) for point in points]
    return Matrix(np.array(beyond, np.uint64).reshape(-1, shape.known).T, prime), np.array(over_z, np.uint64)


class Query:
    """Where the proofs of a session are looked at; never printed, as who knows it beforehand can make false ones.

    `points` are z_1 … z_N, distinct and outside 1 … C; `weights` are of the equations, one row for each linear check.
    """

    def __init__(self, statement: Statement, points: Sequence[int], weights: Residues) -> None:
        shape, t = statement.shape, statement.prime
        self._statement = statement
        self._at_points = Matrix(np.array([lagrange(1, shape.known, point, t) for point in points], np.uint64).T, t)
        of_quotients = np.zeros((len(points), shape.quotient, len(points)), np.uint64)
        for number, point in enumerate(points):
            of_quotients[number, :, number] = lagrange(shape.calls + 1, shape.quotient, point, t)
        self._of_quotients = Matrix(of_quotients.reshape(-1, len(points)), t)
        self._vanishing = np.array([_vanishing(point, shape, t) for point in points], np.uint64)
        self._of_digits = Matrix(statement.of_digits(statement.combined(weights)).T, t)
        self._of_constants = Matrix(weights.T, t)

    @classmethod
    def drawn(cls, statement: Statement, key: bytes, digest: bytes) -> Query:
        """Return the one of a key.

        `key`, 32 bytes (`InputError` for another length), is drawn once all submissions are in; `digest` is the
        manifest's.
        """
        shape, t = statement.shape, statement.prime
        stream, points = KeyStream(derived_key(key, digest, _LABEL)), list[int]()
        while len(points) < shape.proofs:
            point = int(uniform(stream, t, 1)[0])
            if not 1 <= point <= shape.calls and point not in points:
                points.append(point)
        return cls(statement, points, uniform(stream, t, LINEAR_CHECKS, statement.equations.number))

    def __repr__(self) -> str:
        return "Query(...)"

    def answers(self, digits: Residues, proofs: Residues, constants: Residues | None = None) -> Residues:
        """Return a server's answers for its shares of several parties' digits and proofs, (parties, verifier_size).

        `digits` have the shape (parties, digits), `proofs` (parties, `Shape.size`). `constants`, (parties, equations),
        are those of the equations, for one of the servers only.
        """
        shape, parties = self._statement.shape, len(digits)
        seeds = proofs[:, : shape.seeds].reshape(parties, shape.chunk, shape.proofs)
        wires = self._at_points.after(_known(digits, seeds, shape)).reshape(parties, -1)
        linear = self._of_digits.after(digits)
        if constants is not None:
            linear = subtract(linear, self._of_constants.after(constants), self._statement.prime)
        return np.concatenate([wires, self._of_quotients.after(proofs[:, shape.seeds :]), linear], axis=1)

    def decide(self, answers: Residues, weights: Residues) -> NDArray[np.bool_]:
        """Return of which parties the proofs hold, shape (parties,), by the sum of both servers' answers.

        `weights` have the shape (parties, chunk, proofs).
        """
        shape, t = self._statement.shape, self._statement.prime
        wires, quotients, linear = np.split(answers, [shape.seeds, shape.seeds + shape.proofs], axis=1)
        found = total(product(gadget(wires.reshape(weights.shape), shape.base, t), weights, t), t, axis=1)
        right = (found == product(quotients, self._vanishing, t)).all(axis=1)
        return np.asarray(right & ~linear.any(axis=1))


def lagrange(first: int, count: int, point: int, prime: int) -> list[int]:
    """Return the values at `point` of the polynomials that are 1 at one of `count` integers from `first`, 0 at others.

    The prime is above all of these.
    """
    away = [point - node for node in range(first, first + count)]
    before = accumulate(away[:-1], lambda x, y: x * y % prime, initial=1)
    behind = [*accumulate(away[:0:-1], lambda x, y: x * y % prime, initial=1)][::-1]
    return [x * y * each % prime for x, y, each in zip(before, behind, _divisors(count, prime), strict=True)]


@lru_cache(maxsize=16)
def _divisors(count: int, prime: int) -> list[int]:
    """Return 1/Π_{n≠m} (m − n) for each m of so many integers in a row: (−1)^(count − 1 − m)/(m!·(count − 1 − m)!)."""
    factorials = [*accumulate(range(1, count), lambda x, y: x * y % prime, initial=1)]
    pairs = zip(factorials, factorials[::-1], strict=True)
    return [(-1) ** (count - 1 - m) * pow(x * y, -1, prime) for m, (x, y) in enumerate(pairs)]


def _vanishing(point: int, shape: Shape, prime: int) -> int:
    return reduce(lambda found, call: found * (point - call) % prime, range(1, shape.calls + 1), 1)

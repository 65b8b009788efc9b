"""Checking proofs: each server queries its shares, and whoever has both servers' answers decides.

All that a server computes of its shares is linear in them, so the answers add up to that of the digits and the proofs.
At a random point z the wires' polynomials must give what the gadget's polynomial is there; the gadget's values in all
calls must add up to zero; and random combinations of the equations must hold.

With z outside the P roots of unity the wires' values at z are uniform, as their seeds are, so the answers together tell
nothing of the digits. At a root they would *be* digits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.input_proofs.field import powers, root_of_unity
from fhe_auc.input_proofs.prove import gadget, in_calls
from fhe_auc.input_proofs.statement import LINEAR_CHECKS, PROOFS, Statement
from fhe_auc.rlwe.modular import Residues, add, inverse, multiply, subtract, total, uniform

_LABEL = b"fhe-auc input proofs: query 1\0"


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

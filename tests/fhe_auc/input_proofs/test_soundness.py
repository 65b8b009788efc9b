"""A lie passes as seldom as the bound says, and the best liar as often: exactly, at toy fields; never at a real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs.proofs import Query, decide, prove
from fhe_auc.input_proofs.statement import PROOFS, Statement
from fhe_auc.rlwe.modular import uniform
from tests.support import vdaf
from tests.support.proved_counts import TOY, Proved, oracles_circuit, oracles_field, statement_of

DIGEST = bytes(32)
SHAPES = [(2, 2, 100), (4, 4, 60), (8, 16, 30), (7, 8, 12)]  # base, points, digits


@dataclass(frozen=True)
class Mended:
    """Coefficients to add to a gadget's polynomial, so that its calls add up to zero, and the points of no change."""

    coefficients: list[int]
    points: frozenset[int]


def mended(statement: Statement, coefficients: Sequence[int], draw: np.random.Generator) -> Mended:
    """The best lie that is known: a difference with as many roots as its degree allows, none of them a root of unity.

    The proof passes where the difference vanishes. It is scaled until the calls of the sum add up to zero.
    """
    field, shape = oracles_field(statement.prime), statement.shape
    roots = field.roots(shape.points)
    outside = sorted(set(range(statement.prime)) - set(roots))

    def in_all_calls(polynomial: Sequence[int]) -> int:
        return sum(field.value(list(polynomial), root) for root in roots[1:]) % field.prime

    while True:
        points = draw.choice(outside, shape.coefficients - 1, replace=False).tolist()
        difference = [1]
        for point in points:
            difference = field.product(difference, [-point, 1])
        if in_all_calls(difference):
            break
    scale = -in_all_calls(coefficients) * pow(in_all_calls(difference), -1, field.prime)
    return Mended([scale * each % field.prime for each in difference], frozenset(points))


def a_lie(base: int, points: int, digits: int) -> Proved:
    """At the toy field: the first digit is `base`, and the equation holds."""
    statement = statement_of(TOY, digits, 1, base, points)
    return Proved(statement, np.array([base] + [0] * (digits - 1), np.uint64), points, [base])


@pytest.mark.parametrize(("base", "points", "digits"), SHAPES)
def test_the_best_liar_passes_at_as_many_points_as_the_bound_allows_and_no_other(
    base: int, points: int, digits: int
) -> None:
    """All points of the field are tried. Before its proof is mended, a lie passes at none; the oracle decides."""
    lie = a_lie(base, points, min(digits, 12))
    statement, field, circuit = lie.statement, oracles_field(TOY), oracles_circuit(lie.statement.shape)
    shape, weights, proof = statement.shape, lie.weights[0].tolist(), lie.proofs[0].tolist()
    change = mended(statement, proof[shape.wires :], np.random.default_rng(base))
    better = proof[: shape.wires] + field.sum([proof[shape.wires :], change.coefficients])
    passed: dict[str, set[int]] = {"as it is": set(), "mended": set()}
    outside = [point for point in range(TOY) if pow(point, points, TOY) != 1]
    for point in outside:
        for name, own in (("as it is", proof), ("mended", better)):
            verifier = vdaf.query(field, circuit, lie.digits.tolist(), own, [point], weights, 1)
            passed[name] |= {point} if vdaf.decide(field, circuit, verifier) else set()
    assert passed == {"as it is": set(), "mended": change.points}
    assert len(outside) == TOY - points
    assert len(change.points) / len(outside) == shape.error(TOY)


def test_joint_randomness_lets_one_lie_of_t_pass_whatever_the_digits_are() -> None:
    """All weights of two wrong digits are tried, at the smallest field that has the roots of unity."""
    t = 17
    statement = statement_of(t, 3, 1, 2, 4)
    query = Query(statement, bytes(32), DIGEST)
    for first, second in ((2, 0), (16, 2), (5, 9)):
        digits = np.array([first, second, 1], np.uint64)
        weights = np.full((t * t, 3), 3, np.uint64)
        weights[:, :2] = np.indices((t, t)).reshape(2, -1).T
        proofs = prove(statement, digits, weights, uniform(KeyStream(bytes(32)), t, t * t, 2))
        answers = query.answers(
            np.repeat(digits[None], t * t, axis=0),
            np.repeat(proofs[:, None], PROOFS, axis=1),
            np.repeat(weights[:, None], PROOFS, axis=1),
            np.full((t * t, 1), int(digits.sum()) % t, np.uint64),
        )
        assert int(decide(statement, answers).sum()) == t

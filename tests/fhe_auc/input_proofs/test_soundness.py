"""A lie passes as seldom as the bound says, and the best liar as often: exactly, at toy fields; never at a real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs.proofs import Query, decide, prove
from fhe_auc.input_proofs.statement import PROOFS, Statement
from fhe_auc.rlwe.modular import Residues, add, multiply, subtract, uniform
from tests.support import vdaf
from tests.support.proved_counts import REAL, TOY, Proved, oracles_circuit, oracles_field, statement_of

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


# Counts 0 and 1 are one column's levels, 2 and 3 another's, of the same rows; 4 is what is left of a cap.
LIED_ABOUT = statement_of(REAL, 5, 2, 8, 8, [{0: 1, 1: 1, 4: 1}, {0: 1, 1: 1, 2: -1, 3: -1}])
CAP = 50
Lie = Callable[[np.random.Generator], list[int]]
"""Digits, some of them no digits; constants stay a cap, and zero."""


def _places(*counts: int) -> list[int]:
    return [each // 8**place % 8 for each in counts for place in (0, 1)]


def honest(draw: np.random.Generator) -> list[int]:
    first, second, third = (int(each) for each in draw.integers(0, 20, 3))
    return _places(
        first, second, third % (first + second + 1), first + second - third % (first + second + 1), 50 - first - second
    )


def any_digit(draw: np.random.Generator) -> list[int]:
    """One digit is any residue; what is left of the cap makes up for it, as if it were a digit."""
    found, place = honest(draw), int(draw.integers(0, 2))
    lie = int(draw.integers(8, REAL))
    change = (lie - found[place]) * 8**place
    found[place] = lie
    return _balanced(found, change)


def wrapped_around(draw: np.random.Generator) -> list[int]:
    """Two counts near half of the prime each, which add up to a count modulo the prime."""
    lie = REAL // 2 + int(draw.integers(1, 1000))
    return [lie, 0, (REAL + 5 - lie) % REAL, 0, *_places(5, 0, CAP - 5)]


def over_the_cap(draw: np.random.Generator) -> list[int]:
    """Digits all, of too many rows."""
    count = CAP + int(draw.integers(1, 14))
    return _places(count, 0, count, 0, 0)


def one_group_against_another(draw: np.random.Generator) -> list[int]:
    """Digits all, and within the cap, but the second column has other rows than the first."""
    moved = int(draw.integers(1, 10))
    return _places(10, 10, 10 + moved, 10, CAP - 20)


def _balanced(digits: list[int], change: int) -> list[int]:
    """What the first count has more, the third has, and the rest less, in their places of ones."""
    digits[4] += change
    digits[8] -= change
    return digits


LIES: list[Lie] = [any_digit, wrapped_around, over_the_cap, one_group_against_another]


@pytest.mark.parametrize("make", LIES)
def test_each_lie_is_false_for_one_reason_alone(make: Lie) -> None:
    """Either a digit is none, or an equation does not hold: no check of the servers' does the other one's work."""
    for seed in range(20):
        digits = make(np.random.default_rng(seed))
        counts = [(digits[each] + 8 * digits[each + 1]) % REAL for each in range(0, 10, 2)]
        equations = (counts[0] + counts[1] + counts[4] - CAP, counts[0] + counts[1] - counts[2] - counts[3])
        assert all(each % REAL < 8 for each in digits) != all(each % REAL == 0 for each in equations)


def accepted(make: Lie, kinds: int, parties: int, improved: bool) -> int:
    """How many of `kinds` sets of digits, each sent by so many parties, pass, under a key for each set."""
    statement, shape, t = LIED_ABOUT, LIED_ABOUT.shape, REAL
    draw, stream = np.random.default_rng(kinds), KeyStream(bytes(32))
    change = np.array(_improvement(), np.uint64)
    constants = np.repeat(np.array([[CAP, 0]], np.uint64), parties, axis=0)
    found = 0
    for kind in range(kinds):
        digits = np.array([each % t for each in make(draw)], np.uint64)
        weights = uniform(stream, t, parties * PROOFS, shape.digits)
        proofs = prove(statement, digits, weights, uniform(stream, t, parties * PROOFS, shape.wires))
        if improved:
            coefficients = proofs[:, shape.wires :]
            sums = [int(each) % t for each in _in_all_calls(coefficients)]
            scale = np.array([[-each % t] for each in sums], np.uint64)
            proofs[:, shape.wires :] = add(coefficients, multiply(scale, change, t), t)
        proofs, weights = proofs.reshape(parties, PROOFS, -1), weights.reshape(parties, PROOFS, -1)
        pad, pad_of_proofs = uniform(stream, t, parties, shape.digits), uniform(stream, t, *proofs.shape)
        query = Query(statement, kind.to_bytes(32, "big"), DIGEST)
        aggregators = query.answers(subtract(digits, pad, t), subtract(proofs, pad_of_proofs, t), weights, constants)
        found += int(decide(statement, add(aggregators, query.answers(pad, pad_of_proofs, weights), t)).sum())
    return found


def _in_all_calls(coefficients: Residues) -> list[int]:
    points = LIED_ABOUT.shape.points
    rows = coefficients.tolist()
    return [(points * sum(row[::points]) - sum(row)) % REAL for row in rows]


def _improvement() -> list[int]:
    """A polynomial of the gadget's degree with that many roots, whose calls add up to one."""
    field, difference = oracles_field(REAL), [1]
    for point in range(2, LIED_ABOUT.shape.coefficients + 1):
        difference = field.product(difference, [-point, 1])
    scale = pow(_in_all_calls(np.array([difference], np.uint64))[0], -1, REAL)
    return [scale * each % REAL for each in difference]


def test_who_tells_no_lie_passes_every_time() -> None:
    assert accepted(honest, 12, 50, improved=False) == 600
    assert accepted(honest, 12, 50, improved=True) == 600


@pytest.mark.parametrize("improved", [False, True], ids=["as they are", "with the best proof that is known"])
@pytest.mark.parametrize("make", LIES)
@pytest.mark.parametrize(("kinds", "parties"), [(14, 90), pytest.param(125, 100, marks=pytest.mark.slow)])
def test_none_of_ten_or_a_hundred_thousand_lies_passes_at_a_real_field(
    make: Lie, improved: bool, kinds: int, parties: int
) -> None:
    assert accepted(make, kinds, parties, improved) == 0

"""What a party proves of rows with weights: units within its cap, and squares that such rows can have.

Rows are counted here one by one. A liar's numbers are those of a sketch of its choice, with whatever makes all
equations hold: as each bound has a number of its own that follows from the others, there are no other ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError
from fhe_auc.input_proofs.proofs import Query
from fhe_auc.input_proofs.statement import Statement
from fhe_auc.question.analysis import Analysis, Variable
from fhe_auc.question.follow_up import AtHorizon, FollowUp
from fhe_auc.question.weights import Weights
from fhe_auc.rlwe.modular import Residues, primes_below, residues, subtract
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.exact_auc.proved_counts import ProvedCounts, RowCaps
from fhe_auc_protocols.exact_auc.tie_sums import TieSums
from tests.support.proved_counts import Proved, holds, integers_of

(PRIME,) = primes_below(50, 1, 2**15)
BINS, STARTS, CAP = 4, (0, 1), 20  # the last three bins are merged
WEIGHTS = Weights("ipw", 50, 10)  # up to 5 in steps of 0.1
SEX, AGE = Variable("sex", ("F", "M")), Variable("age", ("0-39", "40-64", "65+"))
AT = AtHorizon(365.0, (1000, 1200), 1500, (0,), ((0.0, 0.0, 0.0),))
ANALYSES = {
    "weights": Analysis(weights=WEIGHTS),
    "groups": Analysis(weights=WEIGHTS, by=(SEX, AGE)),
    "models": Analysis(weights=WEIGHTS, models=("old", "new"), by=(SEX,)),
    "horizon": Analysis(follow_up=FollowUp("days", "status", (365.0,)), at=AT),
}
ONE = ANALYSES["weights"]
STEPS = {"exact": (1, 1), "coarse": (4, 16), "coarse squares": (1, 4)}
analyses = pytest.mark.parametrize("analysis", ANALYSES.values(), ids=ANALYSES)
steps = pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)


class Row(NamedTuple):
    label: int
    units: int
    bins: tuple[int, ...]  # by model
    levels: tuple[int, ...] = ()


def largest(analysis: Analysis) -> int:
    assert analysis.units is not None
    return analysis.units.most


def some_rows(analysis: Analysis, number: int, seed: int, most: int | None = None) -> list[Row]:
    random = np.random.default_rng(seed)

    def drawn(*sizes: int) -> tuple[int, ...]:
        return tuple(int(random.integers(size)) for size in sizes)

    levels = [len(variable.levels) for variable in analysis.by]
    return [
        Row(*drawn(2), 1 + drawn(most or largest(analysis))[0], drawn(*[BINS] * len(analysis.models)), drawn(*levels))
        for _ in range(number)
    ]


class Counted:
    """Units, rows, and what standard errors take, of all groups, row by row."""

    def __init__(self, analysis: Analysis, steps: tuple[int, int], rows: Sequence[Row]) -> None:
        groups, (g, h) = analysis.groups, steps
        shape = len(analysis.models), len(groups), 2
        self.p, self.n = np.zeros((*shape, BINS), np.int64), np.zeros(shape[1:], np.int64)
        x, q = (np.zeros((*shape, len(STARTS)), np.int64) for _ in range(2))
        for row in rows:
            own = [g for g, one in enumerate(groups) if one.variable is None or row.levels[one.variable] == one.level]
            self.n[own, row.label] += 1
            for model, at in enumerate(row.bins):
                self.p[model, own, row.label, at] += row.units
                x[model, own, row.label, int(at > 0)] += row.units
                q[model, own, row.label, int(at > 0)] += row.units**2
        self.q = (q + h // 2) // h
        self.merged = [(x + g // 2) // g, self.q] if g > 1 else [self.q]

    @property
    def sketch(self) -> Residues:
        return residues(np.concatenate([own.ravel() for own in (self.p, self.n, *self.merged, np.arange(3))]), PRIME)


def proved(analysis: Analysis, steps: tuple[int, int] = (1, 1), most: int = CAP) -> ProvedCounts:
    size = Counted(analysis, steps, []).sketch.size
    return ProvedCounts(analysis, BINS, most, PRIME, size, TieSums(analysis, None, BINS, size), size, STARTS, steps)


def believed(statement: Statement, digits: Residues, constants: Residues) -> bool:
    """What both servers decide together about these digits' proof."""
    query, party = Query.drawn(statement, bytes(32), bytes(32)), Proved(statement, digits, 1, constants.tolist())
    aggregators = query.answers(*(own[None] for own in (*party.padded, party.constants)))
    helpers = query.answers(*(own[None] for own in party.pad))
    return bool(query.decide(subtract(aggregators, helpers, statement.prime), party.weights[None])[0])


def forged(wanted: ProvedCounts, counted: Counted, cap: int) -> Residues:
    """All digits that make the equations hold; a number that has none is its own lowest digit."""
    statement, numbers = wanted.statement, wanted.numbers_of(counted.sketch, cap)
    sums, constants = integers_of(statement, numbers.tolist()), wanted.constants([cap])[0].tolist()
    assert all((own - each) % PRIME == 0 for own, each in zip(sums, constants, strict=True))
    found = []
    for number, length in zip(numbers.tolist(), statement.lengths.tolist(), strict=True):
        places = [number // statement.base**place % statement.base for place in range(length)]
        found += places if 0 <= number < statement.base**length else [number % PRIME] + [0] * (length - 1)
    return np.array(found, np.uint64)


@analyses
@steps
@pytest.mark.parametrize("rows", [0, 1, CAP])
def test_the_sketch_comes_back_and_the_statement_holds_of_rows(
    analysis: Analysis, steps: tuple[int, int], rows: int
) -> None:
    drawn = some_rows(analysis, rows, seed=rows, most=None if analysis.at else 10)
    wanted, sketch = proved(analysis, steps), Counted(analysis, steps, drawn).sketch
    submitted = wanted.submitted(sketch, CAP)
    assert submitted.shape == (wanted.size,)
    assert wanted.sketch_of(submitted).tolist() == sketch.tolist()
    assert holds(wanted, submitted, CAP)


EXTREMES: dict[str, Callable[[Analysis], list[tuple[int, int]]]] = {  # units and bin of each row
    "all weights at the bound": lambda own: [(largest(own), 1)] * (CAP if own.at else CAP // 5),
    "the least weight, each": lambda own: [(1, at % BINS) for at in range(CAP)],
    "one row": lambda own: [(largest(own), 0)],
    "none": lambda own: [],
    "exactly at the cap": lambda own: [(largest(own) if own.at else 10, 3)] * CAP,
}


@pytest.mark.parametrize("extreme", EXTREMES.values(), ids=EXTREMES)
@pytest.mark.parametrize("analysis", [ONE, ANALYSES["horizon"]], ids=["weights", "horizon"])
@steps
def test_the_servers_believe_honest_extremes(
    extreme: Callable[[Analysis], list[tuple[int, int]]], analysis: Analysis, steps: tuple[int, int]
) -> None:
    rows = [Row(1, units, (at,)) for units, at in extreme(analysis)]
    wanted = proved(analysis, steps)
    submitted = wanted.submitted(Counted(analysis, steps, rows).sketch, CAP)
    assert believed(wanted.statement, submitted[: wanted.statement.digits], wanted.constants([CAP])[0])


def over_the_cap(lie: Counted, analysis: Analysis) -> None:
    """One unit more than the cap, of a row more: with squares that fit."""
    more = CAP * (largest(analysis) if analysis.at else 10) + 1 - int(lie.p[0, 0].sum())
    lie.p[0, 0, 1, 0] += more
    lie.n[0, 1] = CAP - lie.n[0, 0]
    lie.q[0, 0, 1, 0] += more


def rows_over_the_cap(lie: Counted, analysis: Analysis) -> None:
    lie.n[0, 0] = CAP + 1 - lie.n[0, 1]


def more_rows_than_units(lie: Counted, analysis: Analysis) -> None:
    lie.p[0, 0, 0], lie.q[0, 0, 0] = 0, 0
    lie.n[0, 0] = 1


def heavier_rows_than_the_bound(lie: Counted, analysis: Analysis) -> None:
    lie.n[0, 1] = (int(lie.p[0, 0, 1].sum()) - 1) // largest(analysis)


def squares_below_the_sum(lie: Counted, analysis: Analysis) -> None:
    lie.q[0, 0, 1, 1] = lie.p[0, 0, 1, 1:].sum() - 1


def squares_above_the_bound(lie: Counted, analysis: Analysis) -> None:
    lie.q[0, 0, 1, 1] = lie.p[0, 0, 1, 1:].sum() * largest(analysis) + 1


def squares_without_weights(lie: Counted, analysis: Analysis) -> None:
    lie.p[0, 0, 0, 0], lie.q[0, 0, 0, 0] = 0, 1


def negative_units(lie: Counted, analysis: Analysis) -> None:
    lie.p[0, 0, 1, :2] += 1000, -1000


def negative_squares(lie: Counted, analysis: Analysis) -> None:
    lie.q[0, 0, 1] += 10**6, -(10**6)


def half_units(lie: Counted, analysis: Analysis) -> None:
    """Two halves modulo the prime: their sum is a whole number, and as no digits are."""
    lie.p[0, 0, 1, :2] += (PRIME + 1) // 2
    lie.q[0, 0, 1] += (PRIME + 1) // 2


LIES = [
    *(over_the_cap, rows_over_the_cap, more_rows_than_units, heavier_rows_than_the_bound, squares_below_the_sum),
    *(squares_above_the_bound, squares_without_weights, negative_units, negative_squares, half_units),
]


@pytest.mark.parametrize("lie", LIES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("analysis", [ONE, ANALYSES["horizon"]], ids=["weights", "horizon"])
def test_a_lie_has_no_digits_and_the_servers_find_it(
    lie: Callable[[Counted, Analysis], None], analysis: Analysis
) -> None:
    drawn = some_rows(analysis, CAP, seed=1, most=None if analysis.at else 10)
    wanted, counted = proved(analysis), Counted(analysis, (1, 1), drawn)
    constants = wanted.constants([CAP])[0]
    assert believed(wanted.statement, forged(wanted, counted, CAP), constants)
    lie(counted, analysis)
    with pytest.raises(InputError):
        wanted.submitted(counted.sketch, CAP)
    assert not believed(wanted.statement, forged(wanted, counted, CAP), constants)


@pytest.mark.parametrize("analysis", [ANALYSES["groups"], ANALYSES["models"]], ids=["groups", "models"])
def test_whichever_number_is_changed_the_statement_does_not_hold(analysis: Analysis) -> None:
    wanted = proved(analysis, STEPS["coarse"])
    submitted = wanted.submitted(Counted(analysis, STEPS["coarse"], some_rows(analysis, 9, 3, most=10)).sketch, CAP)
    for place in np.cumsum(wanted.statement.lengths) - wanted.statement.lengths:
        changed = submitted.copy()
        changed[place] = (changed[place] + np.uint64(1)) % np.uint64(PRIME)
        assert not holds(wanted, changed, CAP)


@steps
@given(p=st.integers(0, 200), x=st.integers(0, 60), q=st.integers(0, 700))
def test_what_passes_of_a_bin_is_rounded_of_what_lies_between_its_bounds(
    steps: tuple[int, int], p: int, x: int, q: int
) -> None:
    """Of units p of weights up to 5, in steps of 0.1: coarse units are those of p, and squares of p … 50·p."""
    counted, (g, h) = Counted(ONE, steps, []), steps
    counted.p[0, 0, 1, 1], counted.n[0, 1] = p, -(-p // 50)
    counted.merged = [np.array([[[[0, 0], [0, own]]]]) for own in ([x, q] if g > 1 else [q])]
    numbers = proved(ONE, steps).numbers_of(counted.sketch, CAP)
    possible = {(own + h // 2) // h for own in range(p, 50 * p + 1)}
    assert (numbers.min() >= 0) == (q in possible and (g == 1 or x == (p + g // 2) // g))


@pytest.mark.parametrize("analysis", [ANALYSES["groups"], ANALYSES["horizon"]], ids=["groups", "horizon"])
@steps
def test_no_equation_wraps_around_with_all_digits_at_their_most(analysis: Analysis, steps: tuple[int, int]) -> None:
    statement = proved(analysis, steps, most=5000).statement
    each = [statement.base**length - 1 for length in statement.lengths.tolist()]
    own = statement.equations
    for sign in (1, -1):
        one_side = np.maximum(sign * own.multiples, 0)
        sums = [0] * own.number
        for term, equation, multiple in zip(own.terms, own.equations_of, one_side.tolist(), strict=True):
            sums[equation] += multiple * each[term]
        assert max(sums) + max(each) < statement.prime


def test_a_site_checks_its_own_rows_and_weights_before_it_takes_part() -> None:
    """Rows of weight 0 do not count; at a horizon a row may count as much as the largest weight says."""
    caps = RowCaps((3,), ONE)

    def party(weights: list[int]) -> PartyData:
        rows: Any = PartyData.from_arrays("north", [0, 1] * 4, [0.5] * 8)
        return PartyData(rows.name, rows.labels, rows.scores, weights=np.array(weights, np.int64))

    caps.check_rows(party([10, 10, 10, *[0] * 5]), 0)
    caps.check_rows(party([1, 29, *[0] * 6]), 0)
    for weights, told in (
        ([30, 1, *[0] * 6], "weights that add up to 3.1, more than its row cap, 3"),
        ([1, 1, 1, 1, *[0] * 4], "4 rows that count, more than its row cap, 3"),
    ):
        with pytest.raises(InputError, match=told):
            caps.check_rows(party(weights), 0)
    RowCaps((3,), ANALYSES["horizon"]).check_rows(party([1500, 1500, 1500, *[0] * 5]), 0)
    for analysis, told in (
        (ONE, "its rows, and their weights, each add"),
        (ANALYSES["horizon"], "of weights up to 1.5"),
    ):
        (term,) = RowCaps((3,), analysis).terms()
        assert told in term.why

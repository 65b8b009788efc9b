"""What a party proves of rows with weights: units within its cap, and squares that such rows can have.

Rows are counted here one by one. A liar's numbers are those of a sketch of its choice, with whatever makes all
equations hold: as each bound has a number of its own that follows from the others, there are no other ones.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.input_proofs.proofs import Query
from fhe_auc.input_proofs.statement import Statement
from fhe_auc.question.analysis import Analysis, Variable
from fhe_auc.question.follow_up import AtHorizon, FollowUp
from fhe_auc.question.weights import Weights
from fhe_auc.rlwe.modular import Residues, primes_below, residues, subtract
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import Party
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import Lie, LyingComputation, LyingTask
from fhe_auc_keys.roles.helped import HelpedParty, helped_secrets
from fhe_auc_protocols.exact_auc.exact_plan import ExactPlan
from fhe_auc_protocols.exact_auc.exact_protocols import plan_exact
from fhe_auc_protocols.exact_auc.proved_counts import ProvedCounts, RowCaps
from fhe_auc_protocols.exact_auc.tie_sums import TieSums
from tests.support.exact_sessions import GRID, Play, rows, slow
from tests.support.proved_counts import Proved, holds, integers_of

(PRIME,) = primes_below(50, 1, 2**15)
BINS, STARTS, CAP = 4, (0, 1), 20  # the last three bins are merged
WEIGHTS = Weights("ipw", 50, 10)  # up to 5 in steps of 0.1
SEX, AGE = Variable("sex", ("F", "M")), Variable("age", ("0-39", "40-64", "65+"))
AT = AtHorizon(365.0, (1000, 1200), 1500)
ANALYSES = {
    "weights": Analysis(weights=WEIGHTS),
    "groups": Analysis(weights=WEIGHTS, by=(SEX, AGE)),
    "models": Analysis(weights=WEIGHTS, models=("old", "new"), by=(SEX,)),
    "horizon": Analysis(follow_up=FollowUp("days", "status", (365.0,), step=365.0), at=AT),
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


def least(analysis: Analysis) -> int:
    """What a row that counts counts at least: a unit, or at a horizon a weight of 1."""
    return 1000 if analysis.at else 1


def some_rows(analysis: Analysis, number: int, seed: int, most: int | None = None) -> list[Row]:
    random = np.random.default_rng(seed)

    def drawn(*sizes: int) -> tuple[int, ...]:
        return tuple(int(random.integers(size)) for size in sizes)

    levels = [len(variable.levels) for variable in analysis.by]
    more = (most or largest(analysis)) - least(analysis) + 1
    return [
        Row(*drawn(2), least(analysis) + drawn(more)[0], drawn(*[BINS] * len(analysis.models)), drawn(*levels))
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
    return ProvedCounts(analysis, BINS, most, PRIME, size, TieSums(analysis, None, BINS, size), STARTS, steps)


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
    "the least weight, each": lambda own: [(least(own), at % BINS) for at in range(CAP)],
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
    lie.q[0, 0, 1, 0] += more * least(analysis)


def rows_over_the_cap(lie: Counted, analysis: Analysis) -> None:
    lie.n[0, 0] = CAP + 1 - lie.n[0, 1]


def more_rows_than_units(lie: Counted, analysis: Analysis) -> None:
    lie.p[0, 0, 0], lie.q[0, 0, 0] = 0, 0
    lie.n[0, 0] = 1


def lighter_rows_than_may_be(lie: Counted, analysis: Analysis) -> None:
    lie.n[0, 0] = int(lie.p[0, 0, 0].sum()) // least(analysis) + 1


def heavier_rows_than_the_bound(lie: Counted, analysis: Analysis) -> None:
    lie.n[0, 1] = (int(lie.p[0, 0, 1].sum()) - 1) // largest(analysis)


def squares_below_the_sum(lie: Counted, analysis: Analysis) -> None:
    lie.q[0, 0, 1, 1] = lie.p[0, 0, 1, 1:].sum() * least(analysis) - 1


def squares_above_the_bound(lie: Counted, analysis: Analysis) -> None:
    lie.q[0, 0, 1, 1] = lie.p[0, 0, 1, 1:].sum() * largest(analysis) + 1


def squares_without_weights(lie: Counted, analysis: Analysis) -> None:
    lie.p[0, 0, 0, 0], lie.q[0, 0, 0, 0] = 0, 1


def negative_units(lie: Counted, analysis: Analysis) -> None:
    moved = lie.p[0, 0, 1, 1] + 1000
    lie.p[0, 0, 1, :2] += moved, -moved


def negative_squares(lie: Counted, analysis: Analysis) -> None:
    lie.q[0, 0, 1] += 10**6, -(10**6)


def half_units(lie: Counted, analysis: Analysis) -> None:
    """Two halves modulo the prime: their sum is a whole number, and as no digits are."""
    lie.p[0, 0, 1, :2] += (PRIME + 1) // 2
    lie.q[0, 0, 1] += (PRIME + 1) // 2


LIES = [
    *(over_the_cap, rows_over_the_cap, more_rows_than_units, lighter_rows_than_may_be, heavier_rows_than_the_bound),
    *(
        squares_below_the_sum,
        squares_above_the_bound,
        squares_without_weights,
        negative_units,
        negative_squares,
        half_units,
    ),
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


def test_a_column_whose_levels_have_other_rows_than_the_first_ones_does_not_hold() -> None:
    analysis = ANALYSES["groups"]
    wanted, counted = proved(analysis), Counted(analysis, (1, 1), some_rows(analysis, 9, 3, most=10))
    assert holds(wanted, wanted.submitted(counted.sketch, CAP), CAP)
    (level, label), *_ = np.argwhere(counted.n[3:] < counted.p[0, 3:].sum(axis=-1))
    counted.n[3 + level, label] += 1
    assert not holds(wanted, wanted.submitted(counted.sketch, CAP), CAP)


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


def test_where_weights_take_more_than_one_prime_it_is_said_how_many_rows_or_which_step_would_do() -> None:
    """Modulo 2^50 products of three numbers are as coarse as a third of a weight, at most."""

    def planned(rows: int, per: int) -> ExactPlan:
        analysis = Analysis(weights=Weights("ipw", 50 * per, per))
        asked: dict[str, Any] = {"thresholds": 100, "parties": 20, "backend": "tenseal", "helpers": 1, "interval": True}
        return plan_exact(**asked, analysis=analysis, max_rows=rows, caps=(rows // 20,) * 20)

    with pytest.raises(CapacityError) as caught:
        planned(20_000, 1000)
    told = re.search(
        r"\(([\d,]+) would do\): .*, take weights in steps of ([\d.]+), leave the interval", str(caught.value)
    )
    assert told is not None
    assert planned(int(told[1].replace(",", "")), 1000).proved is not None
    assert planned(20_000, round(1 / float(told[2]))).proved is not None


def test_weights_that_no_prime_has_room_for_are_refused_whoever_plans_them() -> None:
    analysis = Analysis(weights=Weights("ipw", 2**24, 10**6))
    for most in (10**7, 2**40):
        with pytest.raises(CapacityError, match="modulo a prime of 50 bits, 28 counts cannot be proved"):
            _ = proved(analysis, most=most).statement


def test_a_site_checks_its_own_rows_and_weights_before_it_takes_part() -> None:
    """Rows of weight 0 do not count; at a horizon a row may count as much as the largest weight says."""
    caps = RowCaps((3,), ONE)

    def party(weights: list[int]) -> PartyData:
        rows: Any = PartyData.from_arrays("north", [0, 1] * 4, [0.5] * 8)
        return PartyData(rows.name, rows.labels, rows.scores, weights=np.array(weights, np.int64))

    caps.check_rows(party([10, 10, 10, *[0] * 5]), 0)
    caps.check_rows(party([1, 29, *[0] * 6]), 0)
    for weights, told in (
        ([30, 1, *[0] * 6], "weights that add up to more than its row cap, 3"),
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


# --- Sessions ---------------------------------------------------------------------------------------------------------


class OtherSketch(LyingComputation):
    """Submits what a lie makes of the party's sketch."""

    def __init__(self, manifest: Manifest, change: Callable[[dict[str, Residues]], None]) -> None:
        super().__init__(manifest, Lie(""), 1)
        self._change = change

    def false_counts(self, sketches: Any) -> list[Residues]:
        (own,) = (each.copy() for each in sketches)
        self._change(self.plan.releases[0].sketch.split(own))  # views
        return [own]


def session(protocol: str, sites: Sequence[PartyData] | None = None, **request: Any) -> Play:
    """Sites whose weights go from 0 to 5, and whose caps fit."""
    if sites is None:
        random, sites = np.random.default_rng(5), rows(4, 7, most=30)
        sites = [dataclasses.replace(data, weights=random.integers(0, 51, data.rows)) for data in sites]
    caps = {data.name: max(data.rows, -(-int(np.sum(data.weights)) // 10)) for data in sites}  # type: ignore[arg-type]
    return Play(protocol, sites, keys="helper", min_parties=2, row_caps=caps, analysis=ONE, **request)


def with_a_liar(play: Play, lie: Callable[[dict[str, Residues]], None]) -> Any:
    """What the first site reads, where the last one lies."""
    data = play.sites[-1]
    own, computation = helped_secrets(play.material[data.name], play.manifest), OtherSketch(play.manifest, lie)
    task = LyingTask(play.manifest, data, computation)
    play.parties[-1] = Party(play.manifest, data.name, HelpedParty(play.manifest, computation, own, task))
    message: bytes | None = play.aggregator.start()
    while message is not None:
        message = play.deliver(play.answers(message))
    return play.parties[0].result()


def weighted_auc(sites: Sequence[PartyData]) -> float:
    """By going through all pairs of rows; a score's bin is the last threshold it reaches."""
    ordered = list[tuple[int, int, int]]()
    for data in sites:
        columns = data.labels, data.weights, np.searchsorted(GRID, data.y_score, "right")
        ordered += np.stack(columns, axis=1).astype(int).tolist()  # type: ignore[arg-type]
    ones, zeros = ([row[1:] for row in ordered if row[0] == label] for label in (1, 0))
    twice = sum(w * v * ((x > y) + (x >= y)) for w, x in ones for v, y in zeros)
    return round(twice / (2 * sum(w for w, _ in ones) * sum(v for v, _ in zeros)), 6)


@pytest.mark.parametrize("protocol", [pytest.param("exact", marks=pytest.mark.slow), "verified"])
@pytest.mark.parametrize("interval", [pytest.param(None, marks=pytest.mark.slow), 0.95])
def test_weights_are_proved_and_the_auc_is_that_of_all_pairs(protocol: str, interval: float | None) -> None:
    play = session(protocol, interval=interval)
    found = {(each.auc, each.inputs_proved, each.inputs_not_proved) for each in play.read()}
    assert found == {(weighted_auc(play.sites), "row caps", ())}


def test_at_a_horizon_the_weights_of_a_site_may_add_up_to_more_than_its_cap() -> None:
    heavy, *others = rows(4, 7, most=30)
    sites = [dataclasses.replace(heavy, weights=np.full(heavy.rows, 1500))]
    sites += [dataclasses.replace(data, weights=np.arange(data.rows) % 2 * 1000) for data in others]
    caps = {data.name: data.rows for data in sites}
    play = Play("verified", sites, keys="helper", row_caps=caps, analysis=ANALYSES["horizon"], interval=0.95)
    found = play.read()[0]
    assert (found.auc, found.inputs_proved, found.parties) == (weighted_auc(sites), "row caps", 4)


def squares_understated(sketch: dict[str, Residues]) -> None:
    sketch["m0 g0 c1 squares"][:] = 0


def more_rows(sketch: dict[str, Residues]) -> None:
    sketch["rows"] += np.uint64(10**4)


def heavier(sketch: dict[str, Residues]) -> None:
    """Another tenth of the cap, in squares, too."""
    sketch["m0 g0 c1"][3] += np.uint64(10**5)
    sketch["m0 g0 c1 squares"][3] += np.uint64(10**5)


@pytest.mark.parametrize("lie", [squares_understated, *(slow(each) for each in (more_rows, heavier))])
def test_a_site_that_lies_about_weights_is_left_out_by_name(lie: Callable[[dict[str, Residues]], None]) -> None:
    play = session("verified", interval=0.95)
    found = with_a_liar(play, lie)
    assert (found.unproved_parties, found.auc) == (("site 3",), weighted_auc(play.sites[:3]))


def test_a_site_that_understates_its_squares_within_their_bounds_narrows_an_interval_by_its_own_part() -> None:
    """One of ten says that each unit is a row's. Its bins' units are the same, and so is the AUC."""
    random = np.random.default_rng(1)
    sites = [
        dataclasses.replace(data, weights=np.clip(10 * np.exp(random.normal(-0.4, 0.9, data.rows)), 1, 50).astype(int))
        for data in (dataclasses.replace(one, name=f"site {at}") for at, one in enumerate(rows(1, 5, most=60) * 10))
    ]

    def as_if_units_were_rows(sketch: dict[str, Residues]) -> None:
        for label in (0, 1):
            sketch[f"m0 g0 c{label} squares"][:] = sketch[f"m0 g0 c{label}"]

    honest = session("verified", sites, interval=0.95).read()[0]
    found = with_a_liar(session("verified", sites, interval=0.95), as_if_units_were_rows)
    assert (found.auc, found.unproved_parties) == (honest.auc, ())
    assert 0.88 < found.standard_error / honest.standard_error < 0.98


def test_what_is_released_of_few_different_weights_tells_how_many_rows_have_each() -> None:
    """Rows, weights and squares of a label are three equations; here weights are 1, 2.5 and 4, one of them rare."""
    weights, counts = np.array([10, 25, 40]), np.array([17, 1, 5])
    data = PartyData.from_arrays("site 0", np.arange(46) % 2, np.linspace(0, 1, 46))
    sites = [dataclasses.replace(data, weights=np.repeat(weights, 2 * counts)), *rows(1, 1)]
    sites[1] = dataclasses.replace(sites[1], name="site 1", weights=np.zeros(sites[1].rows, int))
    play = session("verified", sites, interval=0.95)
    plan, digest = play.plan, play.manifest.digest
    pooled = sum(plan.sums.sketch(own, GRID, plan.max_rows, plan.modulus, digest) for own in sites)
    (release,), (prime,) = plan.releases, plan.parameters.plain_moduli
    told = dict(zip([own.name for own in release.sums], release.totals(residues(pooled, prime), prime), strict=True))
    known = [int(told[name]) for name in ("counted g0 c1", "P", "W10")]
    assert np.linalg.solve(np.stack([weights**0, weights, weights**2]), known).round(6).tolist() == counts.tolist()

"""Weights: AUCs are scikit-learn's, errors those of influence functions over rows, and what cannot be is refused."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError, InputError, ResultCheckError
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN, Analysis, Cell
from fhe_auc.question.follow_up import AtHorizon, FollowUp
from fhe_auc.question.weights import Weights
from fhe_auc.results.estimates import few_digits
from fhe_auc.rlwe.ring_parameters import choose_backend
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.exact_auc.auc_sums import Coarse, OfWeights, auc_of_sums
from fhe_auc_protocols.exact_auc.exact_plan import NO_WEIGHTS, AnalysisSums, ExactPlan
from fhe_auc_protocols.exact_auc.exact_protocols import Verified, plan_exact
from fhe_auc_protocols.exact_auc.release_part import Said
from fhe_auc_protocols.exact_auc.tie_sums import runs_of
from tests.support import plain_sums
from tests.support.exact_sessions import Play, slow
from tests.support.row_auc_at import Estimate, weighted_auc
from tests.support.several import SEX, binned, chosen, made, pool, read, read_in_the_clear, released, told

WEIGHTED = Analysis(weights=Weights("ipw", 500, 100))
EVERY = Analysis(models=("old", "new"), by=(SEX,), cluster="id", min_cell=1, weights=WEIGHTED.weights)
GRID = thresholds.uniform(100)


def frozen(values: Any, kind: Any = np.int64) -> Any:
    array = np.array(values, kind)
    array.flags.writeable = False
    return array


def weighing(data: PartyData, weights: Any, ids: Any = None) -> PartyData:
    return replace(data, weights=frozen(weights), clusters=None if ids is None else frozen(ids, np.int32))


def sites(analysis: Analysis, seed: int, number: int = 3, *, most: int = 60, places: int = 3) -> list[PartyData]:
    """Rows with weights at random, a tenth of them 0, of patients with one to four rows."""
    generator, found = np.random.default_rng(seed), []
    for data in made(structs.replace(analysis, weights=UNSET), number, seed, most=most, places=places):
        weights = generator.integers(1, analysis.units.most + 1, data.rows) * (generator.random(data.rows) > 0.1)
        ids = np.repeat(np.arange(data.rows), generator.integers(1, 5, data.rows))[: data.rows]
        found.append(weighing(data, weights, ids))
    return found


def pooled(parties: Sequence[PartyData]) -> PartyData:
    ids = np.concatenate([1000 * at + each.clusters for at, each in enumerate(parties)])
    return weighing(pool(parties), np.concatenate([each.weights for each in parties]), ids)


def say(analysis: Analysis, parties: Sequence[PartyData], grid: Any = GRID, **sums: Any) -> Said:
    return told(read_in_the_clear(AnalysisSums(analysis, len(grid), True, **sums), parties, grid))


def of_rows(rows: PartyData, analysis: Analysis, model: int, group: int, grid: Any = GRID) -> tuple[Estimate, Any]:
    """The oracle of a model in a group, over binned scores; and which rows count."""
    own = chosen(rows, analysis, Cell(group, (0, 1))) & (rows.weights > 0)
    return weighted_auc(rows.labels[own] == 1, binned(rows.scores[model], grid)[own], rows.weights[own]), own


@settings(deadline=None)
@given(seed=st.integers(0, 2**32), places=st.sampled_from([2, 6]))
def test_an_auc_is_scikit_learns_with_sample_weights_to_the_binning_error(seed: int, places: int) -> None:
    from sklearn.metrics import roc_auc_score

    parties, grid = sites(WEIGHTED, seed, places=places), thresholds.uniform(101)
    found, rows = say(WEIGHTED, parties, grid).headline, pooled(parties)
    truth = roc_auc_score(rows.y_true, rows.y_score, sample_weight=rows.weights)
    exact = 1e-12 if places == 2 else found.binning_error + 1e-12  # hundredths have bins of their own
    assert found.auc == pytest.approx(truth, abs=exact)
    counted = rows.weights > 0
    assert (found.positives, found.negatives) == ((rows.y_true & counted).sum(), (~rows.y_true & counted).sum())


@pytest.mark.parametrize(
    ("protocol", "keys"),
    [("verified", "sealed"), slow("verified", "helper"), slow("exact", "sealed"), slow("exact", "helper")],
)
def test_a_session_gives_estimates_groups_and_differences_by_weights(protocol: str, keys: str) -> None:
    parties = sites(EVERY, 4)
    grid = thresholds.uniform(30)
    (found, *_) = Play(protocol, parties, grid, analysis=EVERY, interval=0.95, keys=keys, max_rows=400).read()
    clear = say(EVERY, parties, grid)
    assert found.estimates == tuple(map(few_digits, clear.estimates))
    assert found.comparisons == tuple(map(few_digits, clear.comparisons))
    assert (found.auc, found.fraction, found.binning_error_fraction) == (round(clear.headline.auc, 6), None, None)
    assert 0 <= found.binning_error / clear.headline.binning_error - 1 < 0.01  # rounded up
    effective = of_rows(pooled(parties), EVERY, 0, 0, grid)[0].effective
    assert found.settings["weights"] == "steps of 0.01"
    assert found.settings["effective_events"] == pytest.approx(effective[0], abs=0.5)
    assert found.settings["effective_others"] == pytest.approx(effective[1], abs=0.5)


@pytest.mark.parametrize("variance_bins", [480, 40])
def test_standard_errors_are_those_of_influence_functions_over_rows(variance_bins: int) -> None:
    analysis = structs.replace(EVERY, models=("model",), cluster=UNSET)
    parties = sites(analysis, 7, most=300)
    for at, estimate in enumerate(say(analysis, parties, variance_bins=variance_bins).estimates):
        oracle, _ = of_rows(pooled(parties), analysis, 0, at)
        assert estimate.auc == pytest.approx(oracle.auc, abs=1e-12)
        merged = 0.03 if variance_bins < len(GRID) else 1e-9
        assert estimate.standard_error == pytest.approx(oracle.error, rel=merged)


def test_differences_are_those_of_influence_functions_over_rows() -> None:
    analysis = structs.replace(EVERY, by=(), cluster=UNSET)
    parties = sites(analysis, 8, most=200)
    rows, (found,) = pooled(parties), say(analysis, parties).comparisons
    (first, own), (second, _) = (of_rows(rows, analysis, model, 0) for model in (0, 1))
    influence, labels, variance = second.influence - first.influence, rows.labels[own], 0.0
    for label, effective in ((1, first.effective[0]), (0, first.effective[1])):
        variance += (influence[labels == label] ** 2).sum() * effective / (effective - 1)
    assert found.difference == pytest.approx(second.auc - first.auc)
    assert found.standard_error == pytest.approx(math.sqrt(variance), rel=1e-9)


@pytest.mark.parametrize("bins", [100, 1000])
def test_errors_by_patients_are_those_of_sums_of_their_rows_influences(bins: int) -> None:
    grid, parties = thresholds.uniform(bins), sites(EVERY, 9, most=400)
    rows, said = pooled(parties), say(EVERY, parties, grid)
    for estimate, (model, group) in zip(said.estimates, [(m, g) for m in (0, 1) for g in (0, 1, 2)], strict=True):
        oracle, own = of_rows(rows, EVERY, model, group, grid)
        expected = math.sqrt(by_patients(oracle.influence, rows, own, oracle.effective))
        assert estimate.standard_error == pytest.approx(expected, rel=0.03)
    (first, own), (second, _) = (of_rows(rows, EVERY, model, 0, grid) for model in (0, 1))
    expected = math.sqrt(by_patients(second.influence - first.influence, rows, own, first.effective))
    assert said.comparisons[0].standard_error == pytest.approx(expected, rel=0.03)


def by_patients(influence: Any, rows: PartyData, own: NDArray[np.bool_], effective: tuple[float, float]) -> float:
    """The variance of a sum over rows: patients are independent, and as many of them as of rows are effective."""
    labels, ids = rows.labels[own], rows.clusters[own]
    sides = [np.bincount(ids, influence * (labels == label), 1 + ids.max()) for label in (1, 0)]
    counts, variance = [len(np.unique(ids[labels == label])) for label in (1, 0)], 0.0
    for side, patients, label, rows_ in zip(sides, counts, (1, 0), effective, strict=True):
        k = patients * rows_ / (labels == label).sum()
        variance += float(side @ side) * k / (k - 1)
    k = len(np.unique(ids)) * sum(effective) / len(ids)
    return variance + 2 * float(sides[0] @ sides[1]) * k / (k - 1)


def test_a_group_whose_weights_make_one_row_of_it_of_all_is_not_shown() -> None:
    (data,) = made(Analysis(by=(SEX,)), 1, 5, most=200)
    weights = np.where(data.groups[0] == 0, 500, 1)
    weights[[np.flatnonzero((data.groups[0] == 1) & (data.labels == label))[0] for label in (0, 1)]] = 500
    for weighed in (frozen(weights), frozen(np.full(data.rows, 500))):
        sums = AnalysisSums(structs.replace(WEIGHTED, by=(SEX,)), len(GRID), interval=True)
        said = told(read_in_the_clear(sums, [weighing(data, weighed)], GRID, level=0.95))
        of_groups = [estimate.auc is None for estimate in said.estimates[1:]]
        assert of_groups == [len(set(weighed.tolist())) > 1] * 2  # the other one would give it away
        missing = {estimate.missing[:40] for estimate in said.estimates[1:]}
        assert missing == {"fewer than 10 effective events or others" if any(of_groups) else ""}
        sums = AnalysisSums(structs.replace(WEIGHTED, by=(SEX,)), len(GRID), interval=False)
        (warning,) = told(read_in_the_clear(sums, [weighing(data, weighed)], GRID)).warnings
        assert warning == "without an interval a group is shown even where few of its rows have most of the weight"


def test_few_heavy_rows_are_told_of_and_one_is_why_there_is_no_interval() -> None:
    (data,) = made(PLAIN, 1, 5, most=200)
    for heavy, no_interval in ((1, True), (5, False)):
        weights = np.ones(data.rows, int)
        weights[np.flatnonzero(data.labels)[:heavy]] = 500_000
        heavily = structs.replace(WEIGHTED, weights=Weights("w", 500_000, 100))
        sums = AnalysisSums(heavily, len(GRID), interval=True)
        said = told(read_in_the_clear(sums, [weighing(data, frozen(weights))], GRID, level=0.95))
        others = (data.labels == 0).sum()
        assert f"few rows have most of the weight: all is worth {heavy} events and {others} others" in said.warnings
        assert any("each label needs two effective rows" in text for text in said.warnings) == no_interval


@pytest.mark.parametrize("units", [slow(1), slow(100), 317])
@pytest.mark.parametrize("bins", [100, 1000])
def test_equal_weights_give_what_rows_that_count_once_give(units: int, bins: int) -> None:
    once, grid = structs.replace(EVERY, weights=UNSET), thresholds.uniform(bins)
    parties = [weighing(each, np.full(each.rows, units), each.clusters) for each in sites(EVERY, 5, most=200)]
    weighted, plain = say(EVERY, parties, grid), say(once, parties, grid)
    for one, other in zip(
        (*weighted.estimates, *weighted.comparisons), (*plain.estimates, *plain.comparisons), strict=True
    ):
        assert numbers(one) == pytest.approx(numbers(other), rel=1e-9, nan_ok=True)
    assert weighted.warnings == plain.warnings


def numbers(found: Any) -> list[float]:
    names = [name for name in found.__slots__ if isinstance(getattr(found, name), int | float)]
    ends = [found.interval.low, found.interval.high] if found.interval else []
    return [*(float(getattr(found, name)) for name in names), *ends]


def test_whole_weights_give_the_auc_of_rows_that_are_there_so_often_and_0_that_of_rows_that_are_not() -> None:
    whole = Analysis(by=(SEX,), min_cell=1, weights=Weights("times", 3, 1))
    parties = sites(whole, 6)
    repeated = []
    for each in parties:
        often = np.repeat(np.arange(each.rows), each.weights)
        columns = (each.labels, *each.scores, *each.groups)
        labels, scores, groups = (frozen(own[often], own.dtype) for own in columns)
        repeated.append(PartyData(each.name, labels, (scores,), (groups,)))
    weighted, plain = say(whole, parties), say(structs.replace(whole, weights=UNSET), repeated)
    for one, other in zip(weighted.estimates, plain.estimates, strict=True):
        assert (one.fraction, one.binning_error) == (other.fraction, other.binning_error)
        assert one.standard_error > other.standard_error  # repeated rows are not as many


def test_ties_that_are_meant_are_told_from_merged_pairs_by_weights_too() -> None:
    grid = thresholds.uniform(64)  # none of its bins holds one number
    runs, parties = runs_of(np.zeros(64, bool)), sites(WEIGHTED, 3, places=1, most=200)
    merged = say(WEIGHTED, parties, grid, runs=runs).headline
    every = say(WEIGHTED, parties, grid).headline
    assert merged.binning_error == 0 < every.binning_error


def plan(analysis: Analysis, *, rows: int, bins: int = 600, caps: tuple[int, ...] = (), **asked: Any) -> ExactPlan:
    asked = {"interval": True, "helpers": int(bool(caps)), "parties": 3, **asked}
    backend = choose_backend(None)
    return plan_exact(thresholds=bins, analysis=analysis, max_rows=rows, caps=caps, backend=backend, **asked)


@pytest.mark.parametrize("per", [slow(1), 10])
@pytest.mark.parametrize("bins", [4, 200])
def test_no_sum_wraps_around_however_rows_are_weighted(per: int, bins: int) -> None:
    """All weight on few rows, each as heavy as it may be, or evenly; and whichever way models order them."""
    most, rows = 7 * per, 20
    analysis = structs.replace(EVERY, weights=Weights("w", most, per))
    made_plan = plan(analysis, rows=rows, bins=bins)
    sums, grid = made_plan.sums, thresholds.uniform(bins)
    ranges = sums.ranges(rows, made_plan.parties)
    for ones in (1, 2, 10):
        for unit in (1, most):
            number = min(rows, rows * per // unit)
            labels = np.arange(number) < min(ones, number - 1)
            scores = (labels.astype(float), 1 - labels.astype(float))
            groups = (frozen(np.zeros(number), np.uint8),)
            arrays = frozen(labels, np.uint8), tuple(frozen(each, float) for each in scores), groups
            data = weighing(PartyData("one", *arrays), np.full(number, unit), np.zeros(number))
            sketch = sums.sketch(data, grid, rows, made_plan.modulus).tolist()
            vectors = plain_sums.vectors_of(sums.release.sketch, sketch)
            values = [plain_sums.value(each, vectors) for each in sums.release.sums] if bins < 10 else []
            assert all(low <= value <= high for value, (low, high) in zip(values, ranges, strict=bool(values)))
            assert released(sums, [data], grid, rows) == values or not values


@pytest.mark.parametrize(
    ("weights", "what"),
    [
        (None, "party 'site 0': the session asks for weights, and there are none"),
        ([501, 1, 1], "party 'site 0': there are weights that do not lie from 0 to 5$"),
        ([1, 1, -1], "party 'site 0': there are weights that do not lie from 0 to 5$"),
        ([500, 500, 401], "party 'site 0' alone has 15 rows by weight, 1 more than max_rows = 14; give --max-rows 15"),
    ],
)
def test_weights_that_are_not_within_their_bounds_do_not_leave_a_party(weights: Any, what: str) -> None:
    data = PartyData.from_arrays("site 0", [0, 1, 0], [0.1, 0.6, 0.7])
    data = data if weights is None else weighing(data, weights)
    with pytest.raises(InputError, match=what):
        Play("verified", [data, replace(data, name="b")], GRID, analysis=WEIGHTED, interval=0.95, max_rows=14)


def test_weights_of_all_parties_that_add_up_to_too_much_are_an_error() -> None:
    parties = [weighing(each, np.full(each.rows, 500)) for each in sites(WEIGHTED, 2)]
    total = 5 * sum(each.rows for each in parties)
    what = f"no number is given: the parties have {total} rows by weight in all, 1 more than max_rows = {total - 1}; "
    sums = AnalysisSums(WEIGHTED, len(GRID), True)
    with pytest.raises(ResultCheckError, match=what) as caught:
        read(sums, released(sums, parties, GRID, 10**4), 3, max_rows=total - 1)
    assert caught.value.check == "rows"
    read(sums, released(sums, parties, GRID, 10**4), 3, max_rows=total)


def test_sums_of_the_heaviest_weights_are_exact() -> None:
    """Floating point holds integers up to 2^53: sums of squares, and over pairs of a patient's rows, exceed that."""
    heavy = structs.replace(EVERY, weights=Weights("w", 2**24, 10**6))
    (data,), times = sites(EVERY, 11, 1, most=400), 30_000
    grid, light_and_heavy = thresholds.uniform(1000), []
    for analysis, weights in ((EVERY, data.weights), (heavy, data.weights * times)):
        sums = AnalysisSums(analysis, len(grid), True)
        sketch = sums.sketch(weighing(data, weights, data.clusters), grid, 10**5, 2**60)
        light_and_heavy.append(sums.release.sketch.split(sketch))
    assert max(own.max() for own in light_and_heavy[1].values()) > 2**53
    for name, light in light_and_heavy[0].items():
        powers = (0,) if name == "rows" or name.startswith("k g") else (1, 2)
        assert any(np.array_equal(light * times**power, light_and_heavy[1][name]) for power in powers), name


def test_a_patient_whose_rows_are_too_heavy_for_64_bits_is_an_error_that_names_the_party() -> None:
    heavy = structs.replace(EVERY, weights=Weights("w", 2**24, 10**6))
    (data,) = sites(EVERY, 11, 1, most=400)
    data = weighing(data, np.full(data.rows, 2**24), np.zeros(data.rows))
    with pytest.raises(InputError, match="party 'site 0': rows of one patient have too large weights"):
        AnalysisSums(heavy, 1000, True).sketch(data, thresholds.uniform(1000), 10**5, 2**60)


def test_a_party_whose_rows_are_gone_can_still_read_a_result() -> None:
    plugin = Verified()
    session = Play("verified", sites(WEIGHTED, 1), GRID, analysis=WEIGHTED, interval=0.95, max_rows=400)
    plugin.task(session.manifest, PartyData.without_rows("site 0", WEIGHTED))


@pytest.mark.parametrize(
    "sums",
    [
        (5, 0, 100, 100, 60, -60, 20, 40),  # a row of weight 2 has the square 4
        (5, 0, 100, 100, 41, -30, 16, 40),  # R10² above Q10·Σq
        (5, 0, 100, 100, 30, -30, 11, 40),  # squares below P²/rows
        (5, 0, 100, 100, 30, -30, 5, 40),  # squares below weights: not whole units
        (5, 0, -1, 100, 0, -30, 20, 40),
        (5, 0, 10**6, 100, 30, -30, 20, 40),  # Q10 above Σq·N²
    ],
)
def test_integers_of_no_weighted_rows_give_no_number(sums: tuple[int, ...]) -> None:
    with pytest.raises(ResultCheckError, match="not an AUC"):
        auc_of_sums(sums, 3, 5, OfWeights((6, 10), 4))


def test_more_rows_than_units_and_heavier_rows_than_there_may_be_give_no_number() -> None:
    parties, sums = sites(WEIGHTED, 2), AnalysisSums(WEIGHTED, len(GRID), True)
    honest = released(sums, parties, GRID, 10**4)
    at = [each.name for each in sums.release.sums].index("counted g0 c1")
    for rows in (honest[at] // 10, 10**6, 0):
        with pytest.raises(ResultCheckError, match="not an AUC"):
            read(sums, [*honest[:at], rows, *honest[at + 1 :]], 3, max_rows=10**7)


def test_with_epsilon_weights_are_refused_by_whoever_makes_the_session_and_whoever_reads_its_plan() -> None:
    asked: Any = {"keys": "helper", "row_caps": 20, "options": {"epsilon": 1.0}, "parties": ("a", "b", "c")}
    for analysis in (WEIGHTED, Analysis(follow_up=FollowUp("days", "status", (365.0,)))):
        with pytest.raises(InputError, match="do not go with noise, which is sized for rows that count once"):
            Verified().prepare(Request(thresholds=GRID, analysis=analysis, **asked))
    private = Verified().planned(Request(thresholds=GRID, **asked))
    with pytest.raises(InputError, match=NO_WEIGHTS):
        structs.replace(private, analysis=WEIGHTED)


def test_a_session_of_follow_up_times_has_a_horizon() -> None:
    follow_up = FollowUp("days", "status", (2.0,))
    with pytest.raises(InputError, match="at one horizon, once the censoring curve is known"):
        plan(Analysis(follow_up=follow_up), rows=100)
    at = AtHorizon(2.0, (1000, 1200, 1500), 1500)
    assert plan(Analysis(follow_up=follow_up, at=at), rows=100).sums.aucs.vectors[-1] == ("m0 g0 c1 squares", 480)


def test_weights_with_too_many_steps_for_so_many_rows_are_refused() -> None:
    with pytest.raises(CapacityError, match="take wider steps, or a lower bound of one"):
        plan(Analysis(weights=Weights("w", 2**24, 10**6)), rows=10**6)


def test_where_counts_are_proved_errors_are_of_coarse_sums_modulo_one_prime() -> None:
    analysis = Analysis(weights=Weights("ipw", 50_000, 1000))
    of_few, of_many = (plan(analysis, rows=3 * cap, caps=(cap,) * 3) for cap in (1, 1500))
    assert of_few.sums.coarse < of_many.sums.coarse
    names = [name for name, _ in of_many.sums.aucs.vectors]
    assert names == [f"m0 g0 c{label}{kind}" for kind in ("", " coarse", " squares") for label in (0, 1)][:2] + [
        "rows"
    ] + [f"m0 g0 c{label}{kind}" for kind in (" coarse", " squares") for label in (0, 1)]
    assert plan(analysis, rows=4500).sums.coarse == Coarse(1, 1)
    with pytest.raises(CapacityError, match=r"take more \(\d[\d,]+ would do\)"):
        plan(analysis, rows=300_000, caps=(100_000,) * 3)


@pytest.mark.parametrize("power", [4, 8])
def test_coarse_sums_move_a_standard_error_by_less_than_a_percent(power: int) -> None:
    analysis = Analysis(weights=Weights("ipw", 5_000, 1000))
    parties, grid = sites(analysis, 12, most=2000), thresholds.uniform(600)
    exactly, coarsely = (say(analysis, parties, grid, coarse=own) for own in (Coarse(), Coarse(2**power, 4**power * 4)))
    assert coarsely.headline.fraction == exactly.headline.fraction
    assert coarsely.headline.standard_error == pytest.approx(exactly.headline.standard_error, rel=0.01)
    assert coarsely.headline.standard_error != exactly.headline.standard_error
    assert PLAIN.units is None

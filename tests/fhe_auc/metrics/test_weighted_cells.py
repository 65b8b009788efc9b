"""Small counts of rows with weights: what sums of weights tell, and to whom."""

import itertools

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import EvaluationError
from fhe_auc.metrics import small_cells
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.results.asked import ReportAsked
from fhe_auc.results.decisions import _RATES, decision
from fhe_auc.results.intervals import effective, wilson
from fhe_auc.results.report_card import report_card
from tests.support.weighted_rows import Rows, histogram_of, some_rows

WEIGHTS = 1.234, 2.345  # of the rows of two sites
EDGES = np.arange(101) / 100


def of_two_sites(seed: int = 0) -> tuple[Rows, np.ndarray]:
    rows = some_rows(2000, seed)
    site = np.random.default_rng(seed + 1).integers(0, 2, len(rows.labels))
    return rows._replace(weights=np.array(WEIGHTS)[site]), site


def fitting(total: float, most: int, off: float) -> list[int]:
    """Return which numbers of the second site's rows fit a sum of weights that is off by so much at most."""
    others = np.arange(most + 1)
    ones = (total - WEIGHTS[1] * others) / WEIGHTS[0]
    nearest = np.maximum(np.rint(ones), 0)
    return others[np.abs(nearest * WEIGHTS[0] + others * WEIGHTS[1] - total) <= off + 1e-9].tolist()


def test_an_exact_sum_of_weights_tells_how_many_rows_each_site_has_and_one_in_steps_does_not() -> None:
    rows, site = of_two_sites()
    counted = histogram_of(rows, EDGES)
    merged = small_cells.merge_small_cells(counted, 10)
    shown = small_cells.rounded(merged)
    found = 0
    for at in np.flatnonzero(merged.positives):
        own = (rows.scores >= merged.edges[at]) & (rows.scores < merged.edges[at + 1]) & (rows.labels == 1)
        exact = fitting(float(merged.positives[at]), 60, 0.0)
        assert int(site[own].sum()) in exact
        found += len(exact) == 1
        step = 2 * counted.squares[0].sum() / counted.positives.sum()
        told = fitting(float(shown.positives[at]), 60, step)  # each end of the bin is off by half a step
        assert told == [*range(len(told))]
        assert len(told) > 5
    assert found > merged.bins / 2  # the attack


def steps_of(histogram: Histogram, side: int) -> float:
    return float(2 * histogram.squares[side].sum() / histogram.sides[side].sum())


@given(st.integers(0, 10**6), st.sampled_from([2, 5, 10]), st.sampled_from([1.0, 30.0]))
@settings(max_examples=20)
def test_no_bin_has_few_rows_or_few_effective_rows_and_sums_are_in_steps(seed, least, heavy) -> None:
    rows = some_rows(400, seed)
    random = np.random.default_rng(seed)
    rows = rows._replace(weights=rows.weights * np.where(random.random(400) < 0.05, heavy, 1.0))
    counted = histogram_of(rows, EDGES)
    if min(counted.effective) < least:
        return
    asked = [30, 60]
    shown = small_cells.shown_at(counted, asked, least)
    merged = small_cells.merge_small_cells(counted, least, shown=shown)
    for side, own in enumerate(shown):
        edges = np.searchsorted(counted.edges, merged.edges)
        points = np.unique([*edges, *own])
        below = [np.append(0, np.cumsum(each[side])) for each in (counted.real, counted.sides, counted.spread)]
        for low, high in itertools.combinations(points, 2):
            of, sums, squares = (each[high] - each[low] for each in below)
            assert of == 0 or (of >= least and sums**2 >= least * squares * (1 - 1e-6))
        told = np.cumsum(small_cells.rounded(merged).sides[side])
        step = np.unique(np.round(np.diff(np.unique(told.round(6))), 6)).min() if len(np.unique(told)) > 1 else told[0]
        assert step >= steps_of(counted, side) * (1 - 1e-6)
        assert np.abs(told - np.cumsum(merged.sides[side])).max() <= 0.56 * steps_of(counted, side)


def test_a_label_whose_weight_few_rows_have_is_not_shown() -> None:
    rows = some_rows(400)
    first = int(np.flatnonzero(rows.labels)[0])
    weights = np.ones(400)
    weights[first] = 1e5
    with pytest.raises(EvaluationError, match="few rows have most of the weight: all positives say as much as fewer"):
        report_card(histogram_of(rows._replace(weights=weights), EDGES), min_cell=10)


def test_a_heavy_row_is_in_a_bin_with_ten_effective_rows() -> None:
    rows, weights = some_rows(4000), np.ones(4000)
    first = int(np.flatnonzero(rows.labels)[5])
    weights[first] = 60.0
    merged = small_cells.merge_small_cells(histogram_of(rows._replace(weights=weights), EDGES), 10)
    at = int(np.searchsorted(merged.edges, rows.scores[first], side="right")) - 1
    assert merged.positives[at] - 60 > 100
    assert merged.bins > 20


def test_weighted_bins_are_about_as_many_as_effective_rows_allow() -> None:
    rows, _ = of_two_sites()
    plain = some_rows(2000)._replace(weights=np.ones(2000))
    weighted, alike = (small_cells.merge_small_cells(histogram_of(each, EDGES), 10).bins for each in (rows, plain))
    assert 0.8 * alike < weighted <= alike


def test_rates_rounded_and_sums_in_steps_together_do_not_tell_how_many_rows_each_site_has() -> None:
    """Even whoever knows each site's rows by label, and works out the effective rows behind each interval.

    Of true positives sums leave open a stripe of two rows, and so does recall; other rates add unknown false ones, and
    effective rows are known up to their square root. All together leave open less than sums do, but several numbers of
    a site's rows; rates with more digits would leave one.
    """
    rows, site = of_two_sites()
    made = decision(histogram_of(rows, EDGES), "", 0.3, 0.95, min_cell=10)
    exact = decision(histogram_of(rows, EDGES), "", 0.3, 0.95)
    measures = {each.name: each for each in made.measures}
    values = {each.name: each.estimate.value for each in exact.measures}
    of_sites = [[((rows.labels == y) & (site == at)).sum() for at in (0, 1)] for y in (1, 0)]
    found = []
    for own, (_, shown) in zip(of_sites, reversed(made.confusion), strict=True):
        many = np.indices(np.array(own) + 1).reshape(2, -1)  # rows of either site above the threshold
        step = 2 * np.dot(np.square(WEIGHTS), own) / np.dot(WEIGHTS, own)
        found.append(many[:, np.abs(WEIGHTS @ many - shown) <= 0.56 * step])
    above = np.repeat(found[0], found[1].shape[1], axis=1), np.tile(found[1], found[0].shape[1])

    def cells(power: int) -> dict[str, np.ndarray]:
        by = np.power(WEIGHTS, power)
        (tp, fp), (p, n) = (by @ each for each in above), (by @ each for each in of_sites)
        return {"TP": tp, "FP": fp, "FN": p - tp, "TN": n - fp}

    fit, fit_exact = np.ones((2, above[0].shape[1]), bool)
    sums, squares = cells(1), cells(2)
    for name, (hits, among) in _RATES.items():
        parts = hits.split(), set(among.split()) - {*hits.split()}
        (hit, other), of = ([sum(each[cell] for cell in part) for part in parts] for each in (sums, squares))
        n = effective(hit, other, of)[1]
        measure, rate, coarse = measures[name], hit / (hit + other), n - n % np.floor(np.sqrt(n))
        k = measure.estimate.value * coarse
        low, high = wilson(k, coarse, 0.95)
        fit &= (np.abs(low - measure.interval.low) < 1e-9) & (np.abs(high - measure.interval.high) < 1e-9)
        fit &= (rate >= measure.estimate.low) & (rate <= measure.estimate.high)
        fit_exact &= np.abs(rate - values[name]) < 1e-9
    numbers, exactly = (np.unique(above[0][1][each]) for each in (fit, fit_exact))
    assert exactly == [((rows.labels == 1) & (site == 1) & (rows.scores >= 0.3)).sum()]  # the attack
    assert exactly in numbers
    assert len(numbers) > 5


@pytest.mark.parametrize(("seed", "rows", "cases"), [(0, 400, 1.0), (1, 900, 3.0), (2, 3000, 0.2), (3, 9000, 1.0)])
def test_ranges_of_rounded_rates_hold_scikit_learns_and_rates_without_weights_if_all_are_alike(
    seed, rows, cases
) -> None:
    drawn = some_rows(rows, seed, cases=cases)
    for of in (drawn, drawn._replace(weights=np.full(rows, 3.0))):
        card = report_card(histogram_of(of, EDGES), wanted=ReportAsked(threshold=(0.3, 0.5)), min_cell=10)
        points = [point.decision for point in card.operating_points]
        for made in filter(None, (*card.chosen, card.best, *points)):
            above = of.scores >= made.threshold - 1e-9
            given = {"sample_weight": of.weights}
            truth = {
                "precision": sk.precision_score(of.labels, above, zero_division=0, **given),
                "recall": sk.recall_score(of.labels, above, **given),
                "specificity": sk.recall_score(of.labels, above, pos_label=0, **given),
                "npv": sk.precision_score(of.labels, above, pos_label=0, zero_division=0, **given),
                "f1": sk.f1_score(of.labels, above, **given),
                "accuracy": sk.accuracy_score(of.labels, above, **given),
                "balanced_accuracy": sk.balanced_accuracy_score(of.labels, above, **given),
            }
            for each in made.measures:
                if each.estimate:
                    low, value, high = each.estimate.low, each.estimate.value, each.estimate.high
                    assert low - 1e-9 <= truth[each.name] <= high + 1e-9
                    assert low < high
                    assert value == pytest.approx(round(value, 3), abs=1e-9)
        fpr, tpr, _ = sk.roc_curve(of.labels, of.scores, sample_weight=of.weights)
        ks = next(each.estimate for each in card.measures if each.name == "ks")
        assert ks.low <= np.max(tpr - fpr) <= ks.high
        share = card.prevalence_estimate
        assert share.low <= np.average(of.labels, weights=of.weights) <= share.high

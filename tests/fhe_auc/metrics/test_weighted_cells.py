"""Small counts of rows with weights: what sums of weights tell, and to whom."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import EvaluationError
from fhe_auc.metrics import small_cells
from fhe_auc.metrics.histogram import Histogram
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

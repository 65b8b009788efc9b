"""Merged bins show no small count, lose as little as any merging can, and merging them again changes nothing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fhe_auc import metrics
from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.metrics import Histogram, merge_small_cells

counts = st.one_of(st.just(0), st.integers(0, 12), st.integers(0, 60))
cells = st.lists(st.tuples(counts, counts), min_size=1, max_size=9)


def histogram(pairs: list[tuple[int, int]]) -> Histogram:
    return Histogram(np.linspace(0, 1, len(pairs) + 1), *np.array(pairs).T)


def small(values: np.ndarray, least: int) -> bool:
    return bool(((values > 0) & (values < least)).any())


@settings(max_examples=80)
@given(pairs=cells, least=st.sampled_from([1, 2, 5, 10]), at=st.integers(0, 9))
def test_no_cell_is_small_and_totals_and_edges_are_kept_at_once(
    pairs: list[tuple[int, int]], least: int, at: int
) -> None:
    fine = histogram(pairs)
    assume(not small(np.array([fine.positives.sum(), fine.negatives.sum()]), least))
    keep = float(fine.edges[min(at, fine.bins)])
    merged = merge_small_cells(fine, least, keep=keep)
    assert not small(np.concatenate([merged.positives, merged.negatives]), least)
    assert set(merged.edges) <= set(fine.edges)
    assert (merged.edges[0], merged.edges[-1]) == (fine.edges[0], fine.edges[-1])
    for edge in merged.edges:  # every merged bin holds the rows of the bins that it covers
        for ours, theirs in ((merged.positives, fine.positives), (merged.negatives, fine.negatives)):
            assert ours[merged.edges[:-1] >= edge].sum() == theirs[fine.edges[:-1] >= edge].sum()
    sides = [side[mask].sum() for side in (fine.positives, fine.negatives) for above in (True, False)
             for mask in [(fine.edges[:-1] >= keep) == above]]  # fmt: skip
    assert (keep in merged.edges) or small(np.array(sides), least)
    assert merge_small_cells(merged, least, keep=keep).edges.tolist() == merged.edges.tolist()


@settings(max_examples=40)
@given(pairs=cells, least=st.sampled_from([3, 10]))
def test_no_other_merging_leaves_a_smaller_binning_error_or_more_bins(pairs: list[tuple[int, int]], least: int) -> None:
    """All ways to cut nine bins are tried."""
    fine = histogram(pairs)
    assume(not small(np.array([fine.positives.sum(), fine.negatives.sum()]), least))
    best = None
    for number in range(fine.bins):
        for inner in combinations(range(1, fine.bins), number):
            starts = [0, *inner]
            p, n = (np.add.reduceat(side, starts) for side in (fine.positives, fine.negatives))
            if not small(np.concatenate([p, n]), least):
                found = (p @ n, -len(starts))
                best = found if best is None else min(best, found)
    merged = merge_small_cells(fine, least)
    assert (merged.positives @ merged.negatives, -merged.bins) == best


def test_many_bins_are_merged_as_a_search_over_all_starts_would_and_no_edge_has_a_small_count() -> None:
    """With 300 bins the shortened search skips most starts; the binning error is that of the whole search."""
    generator = np.random.default_rng(3)
    fine = histogram(
        list(zip(generator.poisson(0.4, 300), generator.poisson(4, 300) * (np.arange(300) < 200), strict=True))
    )
    p, n = (np.append(0, np.cumsum(side)) for side in (fine.positives, fine.negatives))
    cost = np.full(301, np.inf)
    cost[0] = 0
    for end in range(1, 301):
        for start in range(end):
            sides = np.array([p[end] - p[start], n[end] - n[start]])
            if not small(sides, 10):
                cost[end] = min(cost[end], cost[start] + sides.prod())
    merged = merge_small_cells(fine, 10)
    assert merged.positives @ merged.negatives == cost[-1]
    assert 10 < merged.bins < 300
    generator = np.random.default_rng(5)
    fine = histogram(list(zip(generator.poisson(1, 500), generator.poisson(2, 500), strict=True)))
    merged = merge_small_cells(fine, 10)
    for edge in merged.edges[:-1]:
        assert not small(metrics.confusion_matrix(merged, float(edge)), 10)


def test_a_minimum_of_1_merges_nothing_and_no_edge_stays_with_few_rows_beyond_it() -> None:
    fine = histogram([(1, 2), (0, 3)])
    assert merge_small_cells(fine, 1).positives.tolist() == [1, 0]
    fine = histogram([(20, 20), (20, 20), (4, 0)])
    assert merge_small_cells(fine, 10, keep=float(fine.edges[2])).edges.tolist() == [0, fine.edges[1], 1]


def test_small_classes_are_refused_without_a_number_and_so_is_what_cannot_be_merged() -> None:
    with pytest.raises(EvaluationError, match=r"fewer than 10 positives.*--min-cell") as refused:
        merge_small_cells(histogram([(3, 40), (4, 40)]), 10)
    assert "7" not in str(refused.value)
    for positives, least, message in [
        ([1, 2], 0, "min_cell is 0"),
        ([1.5, 20], 10, "not all positives are integers"),
        ([-1, 20], 10, "not all positives"),
    ]:
        with pytest.raises(InputError, match=message):
            merge_small_cells(Histogram([0, 0.5, 1], positives, [20, 20]), least)

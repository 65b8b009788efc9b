"""Merged bins show no small count, lose as little as any merging can, and merging them again changes nothing."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.metrics import precision_recall, small_cells
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.small_cells import Shown, crowded, merge_small_cells

counts = st.one_of(st.just(0), st.integers(0, 12), st.integers(0, 60))
cells = st.lists(st.tuples(counts, counts), min_size=1, max_size=9)


def histogram(pairs: list[tuple[int, int]]) -> Histogram:
    return Histogram(np.linspace(0, 1, len(pairs) + 1), *np.array(pairs).T)


def small(values: np.ndarray, least: int) -> bool:
    return bool(((values > 0) & (values < least)).any())


@given(pairs=cells, least=st.sampled_from([1, 2, 5, 10]))
def test_no_cell_is_small_and_all_is_done_at_once(pairs: list[tuple[int, int]], least: int) -> None:
    fine = histogram(pairs)
    assume(not small(np.array([fine.positives.sum(), fine.negatives.sum()]), least))
    merged = merge_small_cells(fine, least)
    assert not small(np.concatenate([merged.positives, merged.negatives]), least)
    assert set(merged.edges) <= set(fine.edges)
    assert (merged.edges[0], merged.edges[-1]) == (fine.edges[0], fine.edges[-1])
    for edge in merged.edges:  # every merged bin holds the rows of the bins that it covers
        for ours, theirs in ((merged.positives, fine.positives), (merged.negatives, fine.negatives)):
            assert ours[merged.edges[:-1] >= edge].sum() == theirs[fine.edges[:-1] >= edge].sum()
    assert merged.bins == 1 or least == 1 or (merged.counts >= least).all()
    assert merge_small_cells(merged, least).edges.tolist() == merged.edges.tolist()


@given(pairs=cells, least=st.sampled_from([3, 10]))
def test_no_other_merging_leaves_a_smaller_binning_error_or_more_bins(pairs: list[tuple[int, int]], least: int) -> None:
    """All ways to cut nine bins are tried, with few rows in none."""
    fine = crowded(histogram(pairs), least)
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
    fine = crowded(fine, 10)
    p, n = (np.append(0, np.cumsum(side)) for side in (fine.positives, fine.negatives))
    cost = np.full(fine.bins + 1, np.inf)
    cost[0] = 0
    for end in range(1, fine.bins + 1):
        for start in range(end):
            sides = np.array([p[end] - p[start], n[end] - n[start]])
            if not small(sides, 10):
                cost[end] = min(cost[end], cost[start] + sides.prod())
    merged = merge_small_cells(fine, 10)
    assert merged.positives @ merged.negatives == cost[-1]
    assert 10 < merged.bins < fine.bins
    generator = np.random.default_rng(5)
    fine = histogram(list(zip(generator.poisson(1, 500), generator.poisson(2, 500), strict=True)))
    merged = merge_small_cells(fine, 10)
    for edge in merged.edges[:-1]:
        assert not small(precision_recall.confusion_matrix(merged, float(edge)), 10)


def test_a_minimum_of_1_merges_nothing_and_no_edge_stays_with_few_rows_beyond_it() -> None:
    fine = histogram([(1, 2), (0, 3)])
    assert merge_small_cells(fine, 1).positives.tolist() == [1, 0]
    fine = histogram([(20, 20), (20, 20), (4, 0)])
    assert merge_small_cells(fine, 10, keep=fine.edges[2]).edges.tolist() == [0, fine.edges[1], 1]


def halved(counts: np.ndarray, low: int, high: int, least: int, middle: int | None = None) -> tuple[list[int], list]:
    """Edges that stay between bins `low` and `high` by the definition, and the core before each and after the last."""
    if middle is None:
        middle = low + (high - low) // 2
    if high - low < 2:
        return [], [(low, high)]
    if min(counts[low:middle].sum(), counts[middle:high].sum()) < least:
        into = (low, middle) if counts[low:middle].sum() >= least else (middle, high)
        return halved(counts, *into, least) if counts[slice(*into)].sum() >= least else ([], [(low, high)])
    (left, cores), (right, more) = halved(counts, low, middle, least), halved(counts, middle, high, least)
    return [*left, middle, *right], [*cores, *more]


@given(data=st.data(), least=st.sampled_from([2, 5, 10]), bits=st.integers(1, 4))
def test_no_edge_tells_where_fewer_rows_than_are_shown_lie(data: st.DataObject, least: int, bits: int) -> None:
    """Wherever rows move inside a core, all edges stay; if all of a bin's rows are in one place, nothing changes."""
    pairs = data.draw(st.lists(st.tuples(counts, counts), min_size=2**bits, max_size=2**bits))
    fine = histogram(pairs)
    assume(fine.counts.sum() >= least)
    edges, cores = halved(fine.counts, 0, fine.bins, least)
    found = crowded(fine, least)
    assert found.edges.tolist() == fine.edges[[0, *edges, fine.bins]].tolist()
    assert (found.counts >= least).all()
    sides = np.array([fine.positives, fine.negatives])
    moved = sides.copy()
    for low, high in cores:
        for label in (0, 1):
            rows = np.repeat(np.arange(low, high), sides[label, low:high].astype(int))
            kept = data.draw(st.integers(max(0, len(rows) - least + 1), len(rows)))  # fewer than `least` rows move
            anywhere = st.lists(st.integers(low, high - 1), min_size=len(rows) - kept, max_size=len(rows) - kept)
            to = [*rows[:kept], *data.draw(anywhere)]
            moved[label, low:high] = np.bincount(np.array(to, int) - low, minlength=high - low)
    assert set(found.edges) <= set(crowded(Histogram(fine.edges, *moved), least).edges)
    heaped = np.zeros_like(sides)
    heaps = [data.draw(st.integers(low, high - 1)) for low, high in cores]
    heaped[:, heaps] = found.positives, found.negatives
    again = crowded(Histogram(fine.edges, *heaped), least)
    for ours, theirs in ((again, found), *([(merge_small_cells(again, least), merge_small_cells(found, least))]
                         if not small(sides.sum(axis=1), least) else [])):  # fmt: skip
        assert ours.edges.tolist() == theirs.edges.tolist()
        assert (ours.positives.tolist(), ours.negatives.tolist()) == (
            theirs.positives.tolist(),
            theirs.negatives.tolist(),
        )


@pytest.mark.parametrize("bins", [5, 100, 1000])
@pytest.mark.parametrize("at", [[], [1], [37], [3, 37, 90]])
def test_bins_are_halved_between_thresholds_shown_whatever_their_number(bins: int, at: list[int]) -> None:
    """As halves of a number of bins that is a power of two, with empty ones beyond."""
    fine = histogram([(3, number % 7) for number in range(bins)])
    at = [each for each in at if each < bins]
    expected = [0, bins]
    roots = [0, *(each for each in at if min(fine.counts[:each].sum(), fine.counts[each:].sum()) >= 20)]
    for low, high in zip(roots, [*roots[1:], bins], strict=True):
        counts = np.append(fine.counts[low:high], np.zeros(2**12 - (high - low)))
        expected += [low, *(low + edge for edge in halved(counts, 0, 2**12, 20)[0])]
    shown = Shown(np.array(at, np.intp), np.array([1, *at], np.intp))  # of both labels at those of `at` alone
    assert crowded(fine, 20, shown).edges.tolist() == fine.edges[sorted(set(expected))].tolist()


@given(
    pairs=st.lists(st.tuples(counts, counts), min_size=2, max_size=9), least=st.sampled_from([2, 5, 10]), data=st.data()
)
def test_nothing_that_is_shown_differs_by_few_rows_and_a_threshold_asked_for_first_goes_first(
    pairs: list[tuple[int, int]], least: int, data: st.DataObject
) -> None:
    fine = histogram(pairs)
    assume(not small(np.array([fine.positives.sum(), fine.negatives.sum()]), least))
    asked = data.draw(st.lists(st.integers(0, fine.bins - 1), max_size=4, unique=True))
    shown = small_cells.shown_at(fine, asked, least)
    merged = merge_small_cells(fine, least, shown=shown)
    assert merge_small_cells(merged, least).edges.tolist() == merged.edges.tolist()
    inside = [int(np.flatnonzero(fine.edges == edge)[0]) for edge in merged.edges]
    for side, own in zip((fine.positives, fine.negatives), shown, strict=True):
        sides = np.split(side, sorted({*own, *inside[1:-1]}))
        assert not small(np.array([each.sum() for each in sides]), least)
        kept: list[int] = []
        for each in asked:
            if not small(np.array([part.sum() for part in np.split(side, sorted([*kept, each]))]), least):
                kept.append(each)
        assert [each for each in sorted(kept) if each] == own.tolist()
        assert small_cells.clear_of(fine, np.array(inside), shown, least)
    for each in set(shown.positives) & set(shown.negatives):  # an edge, unless no rows part it from another one
        assert each in inside or any(
            not fine.counts[min(each, edge) : max(each, edge)].any() for edge in (*inside, *asked) if edge != each
        )


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

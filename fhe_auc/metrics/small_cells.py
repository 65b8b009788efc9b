"""Histograms without small counts, and without edges that tell where few rows lie: neighbouring bins are merged.

First by rows of either label, at public places (`crowded`). Then by label, so that no count is small, with the least
loss of ranking (`merge_small_cells`).
"""

from collections.abc import Collection
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.metrics.histogram import Histogram


def crowded(histogram: Histogram, least: int, *, first: float | None = None) -> Histogram:
    """Merge neighbouring bins, the empty ones too, until each holds at least `least` rows of either label.

    Places of edges are public, and form a tree: `first`, if it is an edge, then the middle of what lies on either side,
    by the number of bins (from `first`, the nearest power of two below), then the middles of the halves, and so on. An
    edge stays where both of its halves hold at least `least` rows. So of the rows between two edges that stay, there is
    a *core*, the last half with `least` rows or more, and

    - wherever in the core any of its rows lie, no edge moves or vanishes; one that appears has `least` rows in either
      half. All rows between the two edges could lie in any one bin of the core: edges and counts would be the same;
    - so nobody can place a row, such as that with the largest score, more finely than among `least` rows.

    With fewer than `least` rows there is one bin; 1 merges empty bins alone.
    """
    edges = np.arange(1, histogram.bins)
    at = np.flatnonzero(histogram.edges[:-1] == first)
    away = np.abs(edges - (at[0] if len(at) else 0))
    half = np.where(away > 0, away & -away, histogram.bins)  # a node's half, as many bins as the power of two in `away`
    below = np.append(0, np.cumsum(histogram.counts))
    left = below[edges] - below[np.maximum(edges - half, 0)]
    right = below[np.minimum(edges + half, histogram.bins)] - below[edges]
    return _merged(histogram, np.append(0, edges[np.minimum(left, right) >= least]))


def merge_small_cells(histogram: Histogram, min_cell: int, *, keep: ArrayLike = ()) -> Histogram:
    """Merge neighbouring bins until each holds, of either class, no row or at least `min_cell` rows; 1 merges nothing.

    None is empty: it starts from `crowded` bins, whose `first` edge is the first of those to `keep`. Every sum of bins
    then is 0 or at least `min_cell` too, and with it every count at an edge. Of all such mergings of crowded bins it is
    the one with the least Σ p_i·n_i, on which the binning error of the AUC rests (`roc_auc_score`), and of these the
    one with the most bins. Merging what is merged changes nothing. A reader learns of a label that there is no row
    between two edges, which one row would change; where in a crowded bin rows are, of whichever label, nobody learns.

    Thresholds to `keep` stay edges, each if it is one of a crowded bin and no sum of bins up to the next one kept is
    small. Counts with privacy noise need no merging: the noise hides small ones.

    Raises `EvaluationError` if a class has rows, but fewer than `min_cell` (the message does not say how many);
    `InputError` if `min_cell` is less than 1, or a count is no integer or negative.
    """
    if min_cell < 1:
        raise InputError(f"min_cell is {min_cell}; it must be at least 1")
    for name, counts in (("positives", histogram.positives), ("negatives", histogram.negatives)):
        if (counts < 0).any() or (counts % 1).any():
            raise InputError(
                f"histogram: not all {name} are integers of at least 0: small cells are merged in exact counts"
            )
        if 0 < counts.sum() < min_cell:
            raise EvaluationError(
                f"all bins together hold fewer than {min_cell} {name}, which is too few to show; if you may show small "
                "counts, ask for a smaller minimum (--min-cell, in Python min_cell=)"
            )
    thresholds = np.ravel(keep)
    if min_cell > 1:
        histogram = crowded(histogram, min_cell, first=thresholds[0] if len(thresholds) else None)
    sums = tuple(
        np.append(0, np.cumsum(counts.astype(np.int64))) for counts in (histogram.positives, histogram.negatives)
    )
    cut = _kept(histogram, sums, thresholds, min_cell)
    starts = [start for low, high in pairwise(cut) for start in _best_starts(sums, low, high, min_cell)]
    return _merged(histogram, np.array(starts))


def hidden_rows(
    counts: NDArray[np.int64], least: int, *, also: Collection[int] = (), zeros: bool = False
) -> frozenset[int]:
    """Return which rows of a table of counts are not shown: that have small ones, and the next smallest.

    The total, less the rows shown, is that of the hidden ones together. So these are two at least, and have together no
    count from 1 to ``least - 1``. With `zeros` 0 is small as well; `also` are rows that are hidden anyway. All rows are
    hidden where nothing else does.
    """

    def small(row: NDArray[np.int64]) -> bool:
        return bool(((row < least) & ((row > 0) | zeros)).any())

    hide = {at for at, row in enumerate(counts) if small(row)}.union(also)
    if not hide:
        return frozenset()
    ascending = sorted(range(len(counts)), key=lambda at: (at not in hide, counts[at].min()))
    together = np.cumsum(counts[ascending], axis=0)
    enough = (k for k in range(max(len(hide), 2), len(counts) + 1) if not small(together[k - 1]))
    return frozenset(ascending[: next(enough, len(counts))])


def _merged(histogram: Histogram, starts: NDArray[np.intp]) -> Histogram:
    """Return the histogram of merged bins that begin with these fine ones."""
    counts = (np.add.reduceat(side, starts) for side in (histogram.positives, histogram.negatives))
    return Histogram(histogram.edges[np.append(starts, histogram.bins)], *counts)


def _kept(
    histogram: Histogram, sums: tuple[NDArray[np.int64], ...], thresholds: NDArray[np.float64], least: int
) -> list[int]:
    """Return the edges between which bins can be merged on their own, both ends among them."""
    kept = [0, histogram.bins]
    for edge in (np.flatnonzero(histogram.edges[1:-1] == threshold) + 1 for threshold in thresholds):
        tried = sorted({*kept, *edge[:1].tolist()})
        if all(_shown(np.diff(s[tried]), least).all() for s in sums):
            kept = tried
    return kept


def _shown(count: NDArray[np.int64], least: int) -> NDArray[np.bool_]:
    return np.asarray((count == 0) | (count >= least))


def _best_starts(sums: tuple[NDArray[np.int64], ...], low: int, high: int, least: int) -> list[int]:
    """Return the first fine bin of each merged one, of the fine bins from `low` up to `high`, by dynamic programming.

    `sums` are the rows of each class below each edge. For every edge, in order, the best last merged bin that ends
    there is found among those that could start it. Not every start need be tried: a merged bin that could be parted in
    two, both without small counts, is never better than the two, since p·n is no less of a sum than of its parts.
    """
    p, n = (below[low : high + 1] - below[low] for below in sums)
    # For each edge, the nearest one below with enough rows of either class between, or the first edge.
    back = np.maximum(np.minimum(*(np.searchsorted(s, s - least, side="right") for s in (p, n))) - 1, 0)
    edges = high - low + 1
    cost, bins, start = (np.zeros(edges, np.int64) for _ in range(3))
    reached = np.zeros(edges, bool)
    reached[0] = True
    last = np.zeros(edges, np.int64)  # for each edge, the nearest one at or below it that is reached
    for end in range(1, edges):
        first = back[last[back[end]]]
        positives, negatives = p[end] - p[first:end], n[end] - n[first:end]
        fit = np.flatnonzero(reached[first:end] & _shown(positives, least) & _shown(negatives, least))
        last[end] = last[end - 1]
        if len(fit):
            costs = cost[first + fit] + positives[fit] * negatives[fit]
            fit = fit[costs == costs.min()]
            best = first + fit[np.argmax(bins[first + fit])]
            cost[end], bins[end], start[end] = costs.min(), bins[best] + 1, best
            reached[end], last[end] = True, end
    found = [high - low]
    while found[-1]:
        found.append(int(start[found[-1]]))
    return [low + edge for edge in reversed(found[1:])]

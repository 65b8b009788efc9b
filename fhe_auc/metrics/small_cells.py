"""Histograms without small counts, and without edges that tell where few rows lie: neighbouring bins are merged.

First by rows of either label, at public places (`crowded`). Then by label, so that no count is small, with the least
loss of ranking (`merge_small_cells`).

Where rows have weights, a count is small if so few rows, or *effective rows*, (Σw)²/Σw², are behind it: one row with
most of a bin's weight could be told by that. Sums of weights are shown in steps (`rounded`).

Thresholds that a reader asks for never move. Counts of a label at one are shown or not (`shown_at`): never where they,
or their differences to those at another one, are small. Edges of merged bins from which they differ by few rows go.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.metrics.histogram import Histogram

_ROUNDING = 1e-9  # of sums of weights


class Shown(NamedTuple):
    """For each label, the first bins at or above the thresholds at which its counts are shown, ascending."""

    positives: NDArray[np.intp]
    negatives: NDArray[np.intp]


NOWHERE = Shown(np.empty(0, np.intp), np.empty(0, np.intp))


def shown_at(histogram: Histogram, bins: Sequence[int], least: int) -> Shown:
    """Return at which of these lower ends of bins counts can be shown; an earlier one goes before those that follow.

    Of the label there are no rows, or at least `least`, between two that are shown, below the first, above the last.
    """
    p, n = _below(histogram)
    return Shown(*(np.array(_kept((below,), [0, histogram.bins], bins, least)[1:-1], np.intp) for below in (p, n)))


def clear_of(histogram: Histogram, edges: NDArray[np.intp], shown: Shown, least: int) -> bool:
    """Return whether no count is small between any of these edges of bins, thresholds shown, and both ends."""
    ends = (0, histogram.bins)
    points = (np.unique([*ends, *edges, *own]) for own in shown)
    return all(below.large(at, least).all() for below, at in zip(_below(histogram), points, strict=True))


def crowded(histogram: Histogram, least: int, shown: Shown = NOWHERE) -> Histogram:
    """Merge neighbouring bins, the empty ones too, until each holds at least `least` rows of either label.

    Places of edges are public, and form a tree: the middle of all, by the number of bins (the nearest power of two
    below), then the middles of the halves, and so on. An edge stays where both of its halves hold at least `least`
    rows. So of the rows between two edges that stay, there is a *core*, the last half with `least` rows or more, and

    - wherever in the core any of its rows lie, no edge moves or vanishes; one that appears has `least` rows in either
      half. All rows between the two edges could lie in any one bin of the core: edges and counts would be the same;
    - so nobody can place a row, such as that with the largest score, more finely than among `least` rows.

    A threshold at which both labels are `shown` stays, with at least `least` rows on either side; there is a tree
    between each two. With fewer than `least` rows there is one bin; 1 merges empty bins alone.
    """
    below = np.add(*(own.rows for own in _below(histogram)))
    roots = [0, histogram.bins]
    for at in np.intersect1d(*shown).tolist():
        tried = sorted((*roots, at))
        if (np.diff(below[tried]) >= least).all():
            roots = tried
    starts = [0]
    for low, high in pairwise(roots):
        edges = np.arange(1, high - low)
        half = edges & -edges  # a node's half, as many bins as the power of two in its distance
        left, right = (below[low + np.clip(edges + step, 0, high - low)] for step in (-half, half))
        middle = below[low + edges]
        stay = np.minimum(middle - left, right - middle) >= least
        starts += [*(low + edges[stay]).tolist(), *([high] if high < histogram.bins else [])]
    return histogram.merged(np.array(starts))


def merge_small_cells(
    histogram: Histogram, min_cell: int, *, keep: ArrayLike = (), shown: Shown = NOWHERE
) -> Histogram:
    """Merge neighbouring bins until each holds, of either class, no row or at least `min_cell` rows; 1 merges nothing.

    None is empty: it starts from `crowded` bins. Every sum of bins then is 0 or at least `min_cell` too, and with it
    every count at an edge. Of all such mergings of crowded bins it is the one with the least Σ p_i·n_i, on which the
    binning error of the AUC rests (`roc_auc_score`), and of these the one with the most bins. Merging what is merged
    changes nothing. A reader learns of a label that there is no row between two edges, which one row would change;
    where in a crowded bin rows are, of whichever label, nobody learns.

    Edges to `keep` stay, each if it is one of a crowded bin and no sum of bins up to the next one kept is small. Then
    those go from which counts at thresholds that are `shown` (bins of `histogram`) differ by few rows. Counts with
    privacy noise need no merging: the noise hides small ones.

    Raises `EvaluationError` if a class has rows, but fewer than `min_cell` (the message does not say how many);
    `InputError` if `min_cell` is less than 1, or a count is no integer or negative.
    """
    if min_cell < 1:
        raise InputError(f"min_cell is {min_cell}; it must be at least 1")
    for name, counts, effective in zip(("positives", "negatives"), histogram.real, histogram.effective, strict=True):
        if (counts < 0).any() or (counts % 1).any():
            raise InputError(
                f"histogram: not all {name} are integers of at least 0: small cells are merged in exact counts"
            )
        if 0 < counts.sum() < min_cell:
            raise EvaluationError(
                f"all bins together hold fewer than {min_cell} {name}, which is too few to show; if you may show small "
                "counts, ask for a smaller minimum (--min-cell, in Python min_cell=)"
            )
        if 0 < effective < min_cell * (1 - _ROUNDING):
            raise EvaluationError(
                f"few rows have most of the weight: all {name} say as much as fewer than {min_cell} rows of equal "
                "weight, which is too few to show; trim the weights, or ask for a smaller minimum (--min-cell, in "
                "Python min_cell=)"
            )
    bins = crowded(histogram, min_cell, shown) if min_cell > 1 else histogram
    sums = _below(bins)
    roots = np.intersect1d(*shown)
    wanted = [float(edge) for edge in (*histogram.edges[roots], *np.ravel(keep))]
    at = [int(at) for edge in wanted for at in np.flatnonzero(bins.edges[1:-1] == edge)[:1] + 1]
    cut = _kept(sums, [0, bins.bins], at, min_cell)
    starts = [start for low, high in pairwise(cut) for start in _best_starts(sums, low, high, min_cell)]
    edges = np.searchsorted(histogram.edges[:-1], bins.edges[starts])
    return histogram.merged(_apart(histogram, edges, shown, min_cell))


def rounded(histogram: Histogram) -> Histogram:
    """Return weighted sums below each edge, of each label, in steps of two effective rows; counts as they are.

    Where weights have few values, such as one for each site, an exact sum of them tells how many rows have each. A
    multiple of a step does not: one row more with the one weight and one less with another often leave it as it is.
    """
    if histogram.squares is None:
        return histogram
    ones, zeros = (np.diff(in_steps(each.sums, each.sums[-1], each.squares[-1])) for each in _below(histogram))
    return replace(histogram, positives=ones, negatives=zeros)


def in_steps(sums: NDArray[np.float64], total: float, squares: float) -> NDArray[np.float64]:
    """Return sums of weights in such steps, where Σw and Σw² of all rows of the label are these."""
    if not (step := 2 * float(squares) / max(float(total), 1e-300)):
        return sums
    unit = 10.0 ** (math.floor(math.log10(step)) - 1)  # two digits: the step tells little of the squares
    step = unit * math.ceil(step / unit - _ROUNDING)
    return np.asarray(np.rint(sums / step) * step)


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


def joined(histogram: Histogram, edges: Sequence[float]) -> Histogram:
    """Return the histogram without these inner edges: bins on both sides become one."""
    return histogram.merged(np.flatnonzero(~np.isin(histogram.edges[:-1], edges) | (np.arange(histogram.bins) == 0)))


def enough(least: int, rows: NDArray[Any], sums: NDArray[Any], squares: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where there is no row, or at least so many, also of effective rows: of rows, Σw and Σw²."""
    sure = np.square(np.asarray(sums, np.float64)) >= least * np.asarray(squares, np.float64) * (1 - _ROUNDING)
    return np.asarray((rows == 0) | (rows >= least) & sure)


class _Below(NamedTuple):
    """Of one label below each edge, shape (B + 1,): rows, Σw and Σw²; without weights the rows three times."""

    rows: NDArray[np.int64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]

    def large(self, edges: ArrayLike, least: int) -> NDArray[np.bool_]:
        """Return between which of these edges there are `enough`."""
        return enough(least, *(np.diff(below[np.asarray(edges, np.intp)]) for below in self))


def _below(histogram: Histogram) -> tuple[_Below, _Below]:
    """Return what there is of each label below each edge."""
    rows, *weighted = (
        np.insert(np.cumsum(each, axis=1), 0, 0, axis=1) for each in (histogram.real, histogram.sides, histogram.spread)
    )
    p, n = (_Below(own.astype(np.int64), *of) for own, *of in zip(rows, *weighted, strict=True))
    return p, n


def _kept(sums: Sequence[_Below], kept: list[int], edges: Iterable[int], least: int) -> list[int]:
    """Return edges with those of `edges`, in their order, between which no sum is small, ascending."""
    for edge in edges:
        tried = sorted({*kept, edge})
        if all(below.large(tried, least).all() for below in sums):
            kept = tried
    return kept


def _apart(histogram: Histogram, starts: NDArray[np.intp], shown: Shown, least: int) -> NDArray[np.intp]:
    """Return the merged bins' first fine ones without those from which a threshold shown is parted by few rows.

    Neither merged bins nor thresholds have small counts between themselves: of two points that do, one is an edge.
    """
    for below, own in zip(_below(histogram), shown, strict=True):
        while True:
            points = np.unique([*starts, *own, histogram.bins])
            few = np.flatnonzero(~below.large(points, least))[:1]
            if not len(few):
                break
            starts = np.setdiff1d(starts, np.setdiff1d(points[few[0] : few[0] + 2], [0, *own]))
    return starts


def _best_starts(sums: tuple[_Below, ...], low: int, high: int, least: int) -> list[int]:
    """Return the first fine bin of each merged one, of the fine bins from `low` up to `high`, by dynamic programming.

    `sums` are the rows of each class below each edge. For every edge, in order, the best last merged bin that ends
    there is found among those that could start it. Not every start need be tried: a merged bin that could be parted in
    two, both without small counts, is never better than the two, since p·n is no less of a sum than of its parts.

    With weights the fewest rows that are enough are not known: it is as many as would be where weights lie evenly, and
    the best merged bin may be missed.
    """
    own = [_Below(*(each[low : high + 1] - each[low] for each in below)) for below in sums]
    most = math.prod(int(each.rows[-1]) for each in own)  # which no sum of costs exceeds
    kind: Any = np.int64 if most < 2**63 else object
    p, n = (each.rows.astype(kind) for each in own)
    # For each edge, the nearest one below with enough rows of either class between, or the first edge.
    needed = [least * max(1.0, s[-1] * q[-1] / w[-1] ** 2) if s[-1] else least for s, w, q in own]
    starts = (np.searchsorted(s, s - rows, side="right") for s, rows in zip((p, n), needed, strict=True))
    back = np.maximum(np.minimum(*starts) - 1, 0)
    edges = high - low + 1
    cost, bins, start = (np.zeros(edges, own) for own in (kind, np.int64, np.int64))
    reached = np.zeros(edges, bool)
    reached[0] = True
    last = np.zeros(edges, np.int64)  # for each edge, the nearest one at or below it that is reached
    for end in range(1, edges):
        for first in (back[last[back[end]]], 0)[: 1 + (end == edges - 1)]:
            positives, negatives = p[end] - p[first:end], n[end] - n[first:end]
            large = (enough(least, *(each[end] - each[first:end] for each in below)) for below in own)
            if len(fit := np.flatnonzero(reached[first:end] & np.logical_and(*large))):
                break
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

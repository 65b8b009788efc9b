"""Quantile thresholds: cut [0, 1] where bins hold about equally many pooled rows, labels left out.  [FCE] §2.3.

The session's own thresholds are 2^h cells of [0, 1] (`cell_starts`): about as many in each octave of a score, or of one
minus it, so that they are narrow where scores of rare events crowd. Counts with noise are hierarchical: the lowest
level counts the cells, and each one above it two of the level below, or four. So the rows below any threshold are a sum
of few counts.

**Shares of noise** are on five levels of four, which are made consistent: of all numbers that add up from level to
level, the nearest by least squares ([Hay] Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private
histograms through consistency", PVLDB 3, 2010). One more count is the number of positives, from which follows how many
bins are best: half the root of the counts' ε, as of a row added or removed, times the rows of the rarer label. Noise
and interpolation are then about equal; docs/evidence/noise.md has the study. A row replaced changes eleven counts by
one: all have noise of the same scale, so that the number of positives costs an eleventh of the session's budget.

Scores may crowd in few cells even so. Where neighbouring cells each hold more rows than two bins should and counts are
exact, they are cut evenly (`_cut`). A cell alone that is so full holds one frequent score, most likely, and stays.

An evaluation of several models has one set of thresholds: each row counts once for each model, by its score. Who learns
what, and who checks it: docs/security/histograms.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.metrics.histogram import without_negatives
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.score_bins import bins_of
from fhe_auc.question.thresholds import CELL_HEIGHT, MIN_SIZE, TREE_HEIGHT, cell_starts, explicit
from fhe_auc.results.evaluation import QuantileThresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_protocols import result_warnings
from fhe_auc_protocols.histograms.readout import PooledCounts, PrivateReadout, Readout, all_levels
from fhe_auc_protocols.options import is_whole, shared_budget

_DROWNED = "noise is about as large as all rows, so that the edges may lie anywhere: take a larger epsilon"
_BRANCHES, _LEVELS = 4, TREE_HEIGHT // 2
_FEWEST_BINS, _MOST_BINS, _FEWEST_ROWS = 6, 100, 20  # of the rule
_TIES = "some scores have more rows than a bin should hold"
_CROWDED = (
    "scores crowd in few cells, which are cut evenly into thresholds: bins there may hold more rows than others, or "
    "fewer"
)


class _Quantiles(Readout[QuantileThresholds]):
    """What both have in common."""

    purpose = "finding thresholds"
    why_fewer: str  # why there may be fewer thresholds than were asked for
    heights: ClassVar[range] = range(1, CELL_HEIGHT + 1)  # of cells that there may be
    by_itself: ClassVar[bool] = False  # whether it knows how many thresholds are best

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return how many thresholds to find; 0: by itself."""
        bins = checked_bins(request.options, _height(len(request.thresholds)), by_itself=self.by_itself)
        return {"bins": bins, **super().agreed(request)}

    def check_manifest(self, manifest: Manifest, protocol: str) -> None:
        """Raise `InputError` where a manifest is not that protocol's, or its thresholds are not the cells of [0, 1]."""
        if manifest.protocol != protocol:
            raise InputError(f"the session's manifest is of protocol {manifest.protocol!r}, not {protocol!r}")
        height = _height(len(manifest.thresholds))
        if height not in self.heights or not np.array_equal(manifest.thresholds, cell_starts(height)):
            raise InputError(
                "the session's manifest is not one for finding thresholds: its own are not the cells of [0, 1]"
            )
        checked_bins(manifest.options, height, by_itself=self.by_itself)

    def cells(self, thresholds: int) -> int:
        """Return their number, which is that of the session's thresholds."""
        return thresholds

    def count(self, data: PartyData, grid: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count a party's rows in each cell, once for each model, shape (2^h,)."""
        counts: NDArray[np.int64] = np.zeros(len(grid), np.int64)
        for batch in data.batches():
            for scores in batch.scores:
                counts += np.bincount(bins_of(scores, grid), minlength=len(grid))
        return counts

    def _found(
        self, manifest: Manifest, pooled: PooledCounts, grid: NDArray[np.float64], *warnings: str, **settings: float
    ) -> QuantileThresholds:
        """Return the thresholds, and say so where they are fewer than were asked for."""
        bins = int(manifest.options.get("bins", 0))
        if len(grid) < bins:
            warnings = (*warnings, f"{len(grid):,} bin edges instead of {bins:,}: {self.why_fewer}")
        warnings = result_warnings.of_parties(manifest, pooled.parties) + warnings
        return pooled.said(QuantileThresholds, manifest, grid=explicit(grid), settings=settings, warnings=warnings)


class ExactQuantiles(_Quantiles):
    """Of exact counts; of several models all scores count, in half as many cells."""

    why_fewer = _TIES

    def completed(self, request: Request) -> Request:
        """Return the request with 2^14 cells as thresholds, 2^13 for several models."""
        return replace(request, thresholds=cell_starts(CELL_HEIGHT - (len(request.analysis.models) > 1)))

    def times(self, analysis: Analysis) -> int:
        """Return how many models there are."""
        return len(analysis.models)

    def count(self, data: PartyData, grid: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count them so, in as many cells as are for so many models."""
        if _height(len(grid)) != CELL_HEIGHT - (len(data.scores) > 1):
            raise InputError("the session's manifest is not one for finding thresholds of so many models")
        return super().count(data, grid)

    def outcome(self, manifest: Manifest, pooled: PooledCounts) -> QuantileThresholds:
        """Return the thresholds; raise `EvaluationError` where there is no row."""
        (counts,) = pooled.levels
        warnings = [
            f"bin edges from quantiles: every party learns how many pooled rows lie in each of {counts.size:,} cells "
            "of scores, labels left out, and so how many there are in all; the edges are public, and the aggregator "
            "learns them too"
        ]
        height, bins = _height(len(manifest.thresholds)), int(manifest.options["bins"])
        levels = all_levels(counts.astype(np.float64), height)
        grid = manifest.thresholds[equi_depth_cells(levels, bins)]
        if len(inside := _cut(levels[-1], bins)):
            grid = np.union1d(grid, inside)
            warnings.append(_CROWDED)
        return self._found(manifest, pooled, grid, *warnings, height=height)


class PrivateQuantiles(_Quantiles, PrivateReadout[QuantileThresholds]):
    """Of hierarchical counts with noise, h levels of 2^h cells; a height of 8 is best for split users ([FCE] §4.2)."""

    why_fewer = f"{_TIES}, or noise hides where the rows lie; ask for fewer, or give a larger epsilon"
    default_height: ClassVar[int] = 8

    def height(self, options: Mapping[str, Any]) -> int:
        """Return the height asked for."""
        height = options.get("height", self.default_height)
        if not is_whole(height, self.heights):
            raise InputError(f"height must be a whole number from 1 to {self.heights[-1]}, got {height!r}")
        return height

    def completed(self, request: Request) -> Request:
        """Return the request with the 2^h cells as thresholds."""
        return replace(request, thresholds=cell_starts(self.height(request.options)))

    def budget(self, options: Mapping[str, Any]) -> float:
        """Return ε, of which the session after this one has the rest if there is one."""
        total, spent = shared_budget(options)
        return total if spent is None else spent

    def levels(self, thresholds: int) -> tuple[int, ...]:
        """Return 2, 4, 8 … 2^h."""
        return tuple(2**level for level in range(1, _height(thresholds) + 1))

    def outcome(self, manifest: Manifest, pooled: PooledCounts) -> QuantileThresholds:
        """Return the thresholds; raise `EvaluationError` where noise outweighs the rows."""
        cells = equi_depth_cells(pooled.levels, int(manifest.options["bins"]))
        return self._private(manifest, pooled, cells, height=len(pooled.levels))

    def _private(
        self, manifest: Manifest, pooled: PooledCounts, cells: NDArray[np.int64], more: str = "", **found: float
    ) -> QuantileThresholds:
        said = (
            f"bin edges from quantiles, ends of {len(manifest.thresholds):,} cells: every party learns noisy counts of "
            f"all scores, labels left out{more}; the edges are public, and the aggregator learns them too"
        )
        settings = {"epsilon": self.budget(manifest.options), **found, **pooled.settings}
        return self._found(manifest, pooled, manifest.thresholds[cells], said, **settings)


class TreeQuantiles(PrivateQuantiles):
    """Of consistent counts on five levels of four, and of the number of positives."""

    heights = range(TREE_HEIGHT, TREE_HEIGHT + 1)
    default_height = TREE_HEIGHT
    by_itself = True
    sensitivity = 2 * _LEVELS + 1  # two counts of each level, and the number of positives

    def levels(self, thresholds: int) -> tuple[int, ...]:
        """Return 4, 16 … 4^5, and 1: last of all is the number of positives."""
        return (*(_BRANCHES**level for level in range(1, _LEVELS + 1)), 1)

    def counted_levels(self, data: PartyData, grid: NDArray[np.float64]) -> list[NDArray[np.int64]]:
        """Return a party's counts of each level, and of positives."""
        positives = sum(int(batch.y_true.sum()) for batch in data.batches())
        return [*all_levels(self.count(data, grid), _LEVELS, _BRANCHES), np.array([positives], np.int64)]

    def outcome(self, manifest: Manifest, pooled: PooledCounts) -> QuantileThresholds:
        """Return the thresholds, also where noise outweighs the rows: then they may lie anywhere."""
        *levels, (positives,) = pooled.levels
        whole, _ = shared_budget(manifest.options)
        cells = chosen_cells(levels, float(positives), whole, int(manifest.options.get("bins", 0)))
        more = ", and of how many rows are positive"
        if levels[0].sum() < 3 * math.sqrt(_BRANCHES) * pooled.settings["noise_deviation"]:
            more += f"; {_DROWNED}"
        return self._private(manifest, pooled, cells, more, noisy_positives=int(positives))


def chosen_cells(levels: Sequence[NDArray[Any]], positives: float, epsilon: float, bins: int = 0) -> NDArray[np.int64]:
    """Return the cells that bins begin with, as `equi_depth_cells`, of noisy counts on levels of four.

    Where noise leaves no row, bins have equally many cells. Without `bins`, there are as many as `epsilon`, of this
    session and the next one together, and the rows of the rarer label allow, of which so many are `positives`.
    """
    rows = without_negatives(consistent(levels)[-1])
    if not rows.any():
        rows += 1
    if not bins:
        rarer = max(_FEWEST_ROWS, min(positives, float(rows.sum()) - positives))
        bins = min(max(round(0.5 * math.sqrt(epsilon / 2 * rarer)), _FEWEST_BINS), _MOST_BINS)
    return equi_depth_cells(all_levels(rows, TREE_HEIGHT), bins)


def consistent(levels: Sequence[NDArray[Any]]) -> list[NDArray[np.float64]]:
    """Return levels, highest first, that add up: of all such the nearest by least squares ([Hay], section 4).

    Upwards, a count becomes the mean of itself and the sum of those below it, weighted by what they know; downwards,
    what a sum lacks is spread over its parts. Each level has so many times the counts of that above it, from two on,
    and all have noise of the same variance.
    """
    found = [levels[-1].astype(np.float64)]
    for level in reversed(levels[:-1]):
        parts = found[0].reshape(len(level), -1)
        branches, below = parts.shape[1], levels[-1].size / len(level)  # cells below each count
        own = (branches - 1) * below / (branches * below - 1)
        found.insert(0, own * level + (1 - own) * parts.sum(axis=1))
    for at, above in enumerate(found[:-1]):
        parts = found[at + 1].reshape(len(above), -1)
        found[at + 1] = (parts + ((found[at] - parts.sum(axis=1)) / parts.shape[1])[:, None]).ravel()
    return found


def equi_depth_cells(levels: Sequence[NDArray[Any]], bins: int) -> NDArray[np.int64]:
    """Return the cells that bins begin with, so that they hold about equally many rows ([FCE] section 2.3).

    From counts of each level, (2^k,) for k = 1 … h, which may have noise. Ascending, of shape (bins,): fewer than
    `bins` where one cell holds more rows than a bin should, two at least. This is a binary search for the prefixes
    whose rows are closest to each quantile, for all at once. Noisy prefixes may fall as they get longer; the search
    then ends at one of the places where they cross the number.

    Raises `EvaluationError`: the rows number 0 or, by noise, less.
    """
    if not (total := float(levels[0].sum())) > 0:
        raise EvaluationError(
            "the hierarchical counts hold no row (or privacy noise outweighs them), so there are no quantiles: more "
            "rows are needed, or a larger epsilon, or thresholds of your own, such as uniform:10"
        )
    left = np.arange(1, bins) / bins * total
    segment = np.zeros(left.shape, dtype=np.int64)
    for level in levels:
        segment *= 2
        below = level[segment]
        right = left >= below
        left = np.where(right, left - below, left)
        segment += right
    inner = segment + (np.abs(levels[-1][segment] - left) < np.abs(left))
    found = np.unique(np.concatenate(([0], inner)))
    found = found[found < 2 ** len(levels)]
    return found if len(found) >= MIN_SIZE else np.array([0, 1])  # all rows in the first cell, and two bins wanted


def _cut(counts: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Return thresholds inside cells, shape (number,): evenly, where neighbours hold more rows than two bins should.

    With the ends of its cell these are at most as many as the bins that its rows should fill.
    """
    full = np.floor(counts * bins / counts.sum()).astype(np.int64)
    crowded = full > 2
    beside = np.zeros_like(crowded)
    beside[1:] |= crowded[:-1]
    beside[:-1] |= crowded[1:]
    ends = np.append(cell_starts(counts.size.bit_length() - 1), 1.0)
    at = np.flatnonzero(crowded & beside)
    inside = (np.linspace(ends[k], ends[k + 1], full[k] - 1, endpoint=False)[1:] for k in at)
    return np.concatenate([np.empty(0), *inside])


def checked_bins(options: Mapping[str, object], height: int, *, by_itself: bool = False) -> int:
    """Return how many bins a request or manifest asks for; raise `InputError` unless they are 2 to 2^height.

    None, or 0, is for those that know `by_itself` how many are best.
    """
    bins = options.get("bins")
    if by_itself and (bins is None or is_whole(bins, range(1))):
        return 0
    if not is_whole(bins, range(MIN_SIZE, 2**height + 1)):
        raise InputError(f"quantile:SIZE takes a size from {MIN_SIZE} to 2^{height} = {2**height:,} here, not {bins!r}")
    return bins


def _height(thresholds: int) -> int:
    """Return the height h of which there are 2^h cells."""
    return thresholds.bit_length() - 1

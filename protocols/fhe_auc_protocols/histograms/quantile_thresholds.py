"""Quantile thresholds: cut [0, 1] where bins hold about equally many pooled rows, labels left out.  [FCE] §2.3.

The session's own thresholds are 2^h cells of [0, 1] (`cell_starts`): about as many in each octave of a score, or of one
minus it, so that they are narrow where scores of rare events crowd. Counts with noise are hierarchical: the lowest of h
levels counts the cells, and each one above it pairs of the level below. So the rows below any threshold are a sum of at
most one count a level, with noise of few counts in it.

Scores may crowd in few cells even so. Where neighbouring cells each hold more rows than two bins should and counts are
exact, they are cut evenly (`_cut`). A cell alone that is so full holds one frequent score, most likely, and stays.

An evaluation of several models has one set of thresholds: each row counts once for each model, by its score. Who learns
what, and who checks it: docs/security/histograms.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.score_bins import bins_of
from fhe_auc.question.thresholds import CELL_HEIGHT, MIN_SIZE, cell_starts, explicit
from fhe_auc.results.evaluation import QuantileThresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_protocols import result_warnings
from fhe_auc_protocols.histograms.readout import PooledCounts, PrivateReadout, Readout, all_levels
from fhe_auc_protocols.options import is_whole, privacy_budget

_TIES = "some scores have more rows than a bin should hold"
_CROWDED = (
    "scores crowd in few cells, which are cut evenly into thresholds: bins there may hold more rows than others, or "
    "fewer"
)


class _Quantiles(Readout[QuantileThresholds]):
    """What both have in common."""

    purpose = "finding thresholds"
    why_fewer: str  # why there may be fewer thresholds than were asked for

    def agreed(self, options: Mapping[str, Any], thresholds: int) -> dict[str, bool | int | float | str]:
        """Return how many thresholds to find."""
        return {"bins": checked_bins(options, _height(thresholds))}

    def check_manifest(self, manifest: Manifest, protocol: str) -> None:
        """Raise `InputError` where a manifest is not that protocol's, or its thresholds are not the cells of [0, 1]."""
        if manifest.protocol != protocol:
            raise InputError(f"the session's manifest is of protocol {manifest.protocol!r}, not {protocol!r}")
        height = _height(len(manifest.thresholds))
        if len(manifest.thresholds) != 2**height or (manifest.thresholds != cell_starts(height)).any():
            raise InputError(
                "the session's manifest is not one for finding thresholds: its own are not the cells of [0, 1]"
            )
        checked_bins(manifest.options, height)

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
        self,
        manifest: Manifest,
        pooled: PooledCounts,
        levels: Sequence[NDArray[Any]],
        settings: Mapping[str, float],
        warnings: tuple[str, ...],
        *,
        exact: bool = False,
    ) -> QuantileThresholds:
        """Return the thresholds; `exact`: levels are without noise, so that crowded cells can be cut."""
        bins = checked_bins(manifest.options, len(levels))
        starts = cell_starts(len(levels))
        cells = equi_depth_cells(levels, bins)
        grid = explicit(starts[cells])
        if exact and len(inside := _cut(levels[-1], bins)):
            grid = explicit(np.union1d(grid, inside))
            warnings += (_CROWDED,)
        if len(grid) < bins:
            warnings += (f"{len(grid):,} bin edges instead of {bins:,}: {self.why_fewer}",)
        warnings = result_warnings.of_parties(manifest, pooled.parties) + warnings
        return pooled.said(QuantileThresholds, manifest, grid=grid, settings=settings, warnings=warnings)


class ExactQuantiles(_Quantiles):
    """Of exact counts.

    Thresholds are for all models of the evaluation to come: of several, all models' scores count, in half as many
    cells.
    """

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
        warnings = (
            f"bin edges from quantiles: every party learns how many pooled rows lie in each of {counts.size:,} cells "
            "of scores, labels left out, and so how many there are in all; the edges are public, and the aggregator "
            "learns them too",
        )
        height = _height(len(manifest.thresholds))
        levels = all_levels(counts.astype(np.float64), height)
        return self._found(manifest, pooled, levels, {"height": height}, warnings, exact=True)


class PrivateQuantiles(_Quantiles, PrivateReadout[QuantileThresholds]):
    """Of hierarchical counts with noise; `heights` are those of the hierarchy that may be asked for."""

    why_fewer = f"{_TIES}, or noise hides where the rows lie; ask for fewer, or give a larger epsilon"

    def __init__(self, heights: range, default_height: int) -> None:
        self._heights, self._default_height = heights, default_height

    def height(self, options: Mapping[str, Any]) -> int:
        """Return the height asked for."""
        height = options.get("height", self._default_height)
        if not is_whole(height, self._heights):
            raise InputError(
                f"height must be a whole number from {self._heights[0]} to {self._heights[-1]}, got {height!r}"
            )
        return height

    def completed(self, request: Request) -> Request:
        """Return the request with the 2^h cells as thresholds."""
        return replace(request, thresholds=cell_starts(self.height(request.options)))

    def agreed(self, options: Mapping[str, Any], thresholds: int) -> dict[str, bool | int | float | str]:
        """Return the budget and how many thresholds to find."""
        return {**super().agreed(options, thresholds), "epsilon": self.budget(options)}

    def budget(self, options: Mapping[str, Any]) -> float:
        """Return ε."""
        return privacy_budget(options)

    def levels(self, thresholds: int) -> int:
        """Return the height h."""
        return _height(thresholds)

    def outcome(self, manifest: Manifest, pooled: PooledCounts) -> QuantileThresholds:
        """Return the thresholds; raise `EvaluationError` where noise outweighs the rows."""
        noise = {name: value for name, value in pooled.settings.items() if name == "noise_deviation"}
        settings = {"epsilon": self.budget(manifest.options), "height": len(pooled.levels), **noise}
        warnings = (
            f"bin edges from quantiles, ends of 2^{len(pooled.levels)} cells: every party learns noisy counts of all "
            "scores, labels left out; the edges are public, and the aggregator learns them too",
        )
        return self._found(manifest, pooled, pooled.levels, settings, warnings)


def equi_depth_cells(levels: Sequence[NDArray[Any]], bins: int) -> NDArray[np.int64]:
    """Return the cells that bins begin with, so that they hold about equally many rows ([FCE] section 2.3).

    From counts of each level, (2^k,) for k = 1 … h, which may have noise. Ascending, of shape (bins,): fewer than
    `bins` where one cell holds more rows than a bin should, two at least. This is a binary search for the prefixes
    whose rows are closest to each quantile, for all at once. Noisy prefixes may fall as they get longer; the search
    then ends at one of the places where they cross the number.

    Raises `EvaluationError`: the rows number 0 or, by noise, less.
    """
    if not (total := float(levels[0].sum())) > 0:
        raise EvaluationError("the hierarchical counts hold no row (or privacy noise outweighs them): no quantiles")
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


def checked_bins(options: Mapping[str, object], height: int) -> int:
    """Return how many bins a request or manifest asks for; raise `InputError` unless they are 2 to 2^height."""
    bins = options.get("bins")
    if not is_whole(bins, range(MIN_SIZE, 2**height + 1)):
        raise InputError(f"quantile thresholds number from {MIN_SIZE} to 2^{height} = {2**height:,} here, not {bins!r}")
    return bins


def _height(thresholds: int) -> int:
    """Return the height h of which there are 2^h cells."""
    return thresholds.bit_length() - 1

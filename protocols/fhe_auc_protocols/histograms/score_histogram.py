"""Score histograms: how many positive and negative rows all parties have in each bin of scores.  [FCE] §2.

The cells are bins between thresholds, once for each label. From the pooled counts, which parties see, follow the AUC
and, by `fhe_auc.metrics`, every other metric of a classifier. Exact counts give the exact AUC of the bins; counts with
privacy noise one that nothing bounds for certain.

**Counts by cell**, by group, or by two models at once, are a report's: each group's calibration, how many of its rows
are at or above a threshold, and on how many of these two models agree, follow from them, in few bins.

**Rows with weights** w count in six blocks of cells: Σw of either label, in units, Σw² of either label, in steps of
some units² that leave the sums their room, and rows of either label. At a horizon a seventh has the rows that were
censored before. Parties learn them all: where weights have few values, how many rows of a cell have each.

**One budget for two sessions.** A session before may find quantile thresholds. Both look at the same rows, so that
their budgets add up; ``epsilon`` is that of both together, in requests, manifests and settings. ``boundaries_epsilon``
is the part that the first spends, and that the second counts as spent. It is small: bins that hold a little more or
fewer rows cost the AUC little, noise on the counts costs it directly.

**The AUC of noisy counts** is that of the curve through few bins (`fhe_auc.metrics.private_curves`), with an interval
that contains the noise (`fhe_auc.results.noise_intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import EvaluationError, InputError, UndefinedAucError
from fhe_auc.metrics.histogram import Histogram, by_cell
from fhe_auc.metrics.private_curves import CountNoise, RocFit
from fhe_auc.metrics.ranking import roc_auc_error, roc_auc_score
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.score_bins import bins_of, of_one_number
from fhe_auc.results.delong import of_bins
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.evaluation import CellCounts, Evaluation
from fhe_auc.results.intervals import quantile
from fhe_auc.results.noise_intervals import auc_interval
from fhe_auc.rows.counts import Counts
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.protocol import Request
from fhe_auc_protocols import result_warnings
from fhe_auc_protocols.histograms.readout import INTERVAL, PooledCounts, PrivateReadout, Readout
from fhe_auc_protocols.options import SPENT, checked_epsilon, privacy_budget, shared_budget

_LABELS = 2  # positives and negatives
_MOST_CELLS = 2**21  # of a grid of 2^20 thresholds, without groups
_LOUD = 0.1  # noise above this share of the rarer class's rows is worth a warning
SHARE = 0.11  # of epsilon, for the thresholds; docs/evidence/noise.md has measurements
_HEIGHT = "height"

NO_ROWS = (
    "with privacy noise the pooled histogram holds no row of one class, so there is no AUC; more rows of both labels "
    "are needed, or a larger epsilon"
)


class Blocks(Readout[R]):
    """Of exact counts, or sums of weights: cells of each label one after the other; with weights the blocks above."""

    def __init__(self, analysis: Analysis = PLAIN, square: int = 1) -> None:
        self._analysis, self._units, self._square = analysis, analysis.units, square
        self._blocks = _LABELS if self._units is None else 3 * _LABELS + bool(analysis.at)

    def of(self, analysis: Analysis, options: Mapping[str, Any], square: int = 1) -> Blocks[R]:
        """Return the same for an analysis."""
        return type(self)(analysis, square)

    def counted(self, batch: PartyData, at: NDArray[np.int64], cells: int) -> NDArray[np.float64]:
        """Return what rows in these cells add to each block, shape (blocks, cells); Σw² in units²."""
        if (batch.weights is None) != (self._units is None):
            raise InputError(f"party {batch.name!r}: its rows are not those of the session's analysis")
        return by_cell(batch, at, cells)[: self._blocks]

    def told(self, counted: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return all blocks of a party as integers, one after the other."""
        steps = np.array([1, 1, self._square, self._square, 1, 1, 1])[: self._blocks, None]
        told: NDArray[np.int64] = np.rint(counted / steps).astype(np.int64)
        return told.ravel()

    def rows(self, cells: NDArray[np.int64]) -> int:
        """Return the rows in all cells, or Σw where that is more."""
        if self._units is None:
            return int(cells.sum())
        blocks = cells.reshape(self._blocks, -1).sum(axis=1)
        total = int(blocks[:_LABELS].sum()) * 1000
        return max(int(blocks[2 * _LABELS :].sum()), -(-total // (self._units.per * 1001)))

    def parted(self, cells: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return positives, negatives, and with weights what `Histogram` has besides, by name; weights, not units."""
        ones, zeros, *others = cells.reshape(self._blocks, -1)
        if self._units is None:
            return {"positives": ones, "negatives": zeros}
        per, squares, rows = self._units.per, np.stack(others[:2]), np.stack(others[2:4])
        found = {"positives": ones / per, "negatives": zeros / per, "squares": squares * (self._square / per**2)}
        return {**found, "rows": rows, **({"unknown": others[4]} if self._analysis.at else {})}


class ExactScoreHistogram(Blocks[Evaluation]):
    """Bins of scores."""

    purpose = "score histograms"

    def cells(self, thresholds: int) -> int:
        """Return the number of bins of both labels, or of all blocks."""
        return self._blocks * thresholds

    def count(self, data: PartyData, grid: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count a party's positives in each bin, then its negatives, shape (2m,); with weights all blocks."""
        counts = np.zeros((self._blocks, len(grid)))
        for batch in data.batches():
            counts += self.counted(batch, bins_of(batch.y_score, grid), len(grid))
        return self.told(counts)

    def outcome(self, manifest: Manifest, pooled: PooledCounts) -> Evaluation:
        """Return the AUC of the pooled histogram; errors as `pooled_counts`, and `UndefinedAucError`."""
        if self._units is None:
            bins = pooled.levels[0].reshape(_LABELS, -1)
            histogram, exact = pooled_histogram(manifest.thresholds, bins), trapezoid(pooled_counts(bins))
            mergeable = bins[:, ~of_one_number(manifest.thresholds)].prod(axis=0, dtype=object).sum()  # beyond int64
            told: dict[str, Any] = {"auc": exact.auc, "binning_error": float(Fraction(int(mergeable), exact.den))}
            _, error = of_bins(*bins[:, bins.any(axis=0)])
        else:
            histogram = Histogram(_edges(manifest.thresholds), **self.parted(pooled.levels[0]))
            auc, error = roc_auc_score(histogram), roc_auc_error(histogram)
            told = {"auc": auc.value, "binning_error": auc.half_width}
            told["settings"] = {"weights": f"steps of {1 / self._units.per:g}"}
            if (at := self._analysis.at) and histogram.rows is not None:
                rows = histogram.rows.sum(axis=1).astype(int).tolist()
                of_all = {"auc": auc.value, "binning_error": auc.half_width, "positives": rows[0], "negatives": rows[1]}
                told |= {**of_all, "estimates": (GroupEstimate(model="", group="", horizon=at.horizon, **of_all),)}
        off = told["binning_error"]
        return pooled.said(
            Evaluation,
            manifest,
            thresholds=len(manifest.thresholds),
            histogram=histogram,
            numerical_error=0.0,
            warnings=result_warnings.of_auc(manifest, pooled.parties, off, error, histogram=True),
            **told,
        )


class PrivateScoreHistogram(ExactScoreHistogram, PrivateReadout[Evaluation]):
    """Of counts with noise. A session before may have spent a part of the budget on the thresholds, a `share` of it."""

    share: ClassVar[float] = SHARE

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the budgets, and the level of the interval, if there is one."""
        level = {} if request.interval is None else {INTERVAL: request.interval}
        return {**super().agreed(request), **level}

    def budget(self, options: Mapping[str, Any]) -> float:
        """Return what a session before has left of ε, 0.000001 to 32; `InputError`: nothing, or a wrong option."""
        total, spent = shared_budget(options)
        if _HEIGHT in options:
            raise InputError("height is for quantile thresholds only: these thresholds are given")
        return total if spent is None else checked_epsilon(math.nextafter(total - spent, 0.0))

    def check_manifest(self, manifest: Manifest, protocol: str) -> None:
        """Raise `InputError` for a level that no interval has, before noise is spent."""
        if (level := manifest.options.get(INTERVAL)) is not None:
            quantile(level)

    def staged(self, request: Request, bins: int) -> tuple[Request, Request]:
        """Return the requests of both sessions, as `Protocol.staged`; errors as `budget`."""
        options = {SPENT: self.share * privacy_budget(request.options), **request.options}
        first = replace(request, interval=None, options={**options, "bins": bins})
        options.pop(_HEIGHT, None)
        self.budget(options)
        return first, replace(request, options=options)

    def outcome(self, manifest: Manifest, pooled: PooledCounts) -> Evaluation:
        """Return the AUC of the noisy histogram; `UndefinedAucError` where noise leaves a label no row."""
        histogram = pooled_histogram(manifest.thresholds, pooled.levels[0].reshape(_LABELS, -1))
        noise = CountNoise.of(pooled.settings, pooled.parties)
        error, interval, level = None, None, manifest.options.get(INTERVAL)
        try:
            auc = RocFit.fitted(histogram, noise).auc
            if level is not None:
                error, interval = auc_interval(histogram, noise, float(level))
        except UndefinedAucError:
            raise UndefinedAucError(NO_ROWS) from None
        return pooled.said(
            Evaluation,
            manifest,
            thresholds=len(manifest.thresholds),
            histogram=histogram,
            auc=auc,
            standard_error=error,
            interval=interval,
            binning_error=math.nan,
            numerical_error=math.nan,
            settings={**self.budgets(manifest.options), **pooled.settings},
            warnings=_noise_warnings(manifest, pooled, histogram),
        )


class RandomisedScoreHistogram(PrivateScoreHistogram):
    """Of rows that were each randomised, which take a larger share."""

    share = 0.25


class Cells(Blocks[CellCounts]):
    """Cells are as `CellCounts` has them. A row counts once for each variable, or once."""

    purpose = "counts of rows by group and bin"

    def times(self, analysis: Analysis) -> int:
        """Return the number of variables, or 1."""
        return max(1, len(analysis.by))

    def cells(self, thresholds: int) -> int:
        """Return the number of cells of all blocks; raise `InputError` where there are too many."""
        levels, models = sum(len(variable.levels) for variable in self._analysis.by), len(self._analysis.models)
        number: int = self._blocks * max(1, levels) * thresholds**models
        if number > _MOST_CELLS:
            raise InputError(
                f"these are {number:,} counts, {_MOST_CELLS:,} at most: take fewer thresholds, groups or models"
            )
        return number

    def count(self, data: PartyData, grid: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count a party's positives in each cell, then its negatives; `InputError`: another analysis's rows."""
        if (len(data.scores), len(data.groups)) != (len(self._analysis.models), len(self._analysis.by)):
            raise InputError(f"party {data.name!r}: its rows are not those of the session's analysis")
        cells = self.cells(len(grid)) // self._blocks
        counts = np.zeros((self._blocks, cells))
        firsts = np.cumsum([0, *(len(variable.levels) for variable in self._analysis.by)])
        for batch in data.batches():
            bins: NDArray[np.int64] = np.zeros(batch.rows, np.int64)
            for scores in batch.scores:
                bins = len(grid) * bins + bins_of(scores, grid)
            levels = [first + codes.astype(np.int64) for first, codes in zip(firsts, batch.groups, strict=False)]
            for level in levels or [np.zeros(batch.rows, np.int64)]:
                counts += self.counted(batch, len(grid) ** len(batch.scores) * level + bins, cells)
        return self.told(counts)

    def outcome(self, manifest: Manifest, pooled: PooledCounts) -> CellCounts:
        """Return the counts."""
        warnings = result_warnings.of_parties(manifest, pooled.parties)
        return pooled.said(CellCounts, manifest, warnings=warnings, **self.parted(pooled.levels[0]))


def pooled_histogram(grid: NDArray[np.float64], bins: NDArray[np.int64] | NDArray[np.float64]) -> Histogram:
    """Return positives and negatives in each bin, shape (2, m), with the bins' edges, from m ascending thresholds.

    Bin k begins at threshold k, but the first one at 0 where that is lower; the last one ends at 1, or at the last
    threshold where that is higher.
    """
    return Histogram(_edges(grid), *bins.astype(np.float64))


def _edges(grid: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate(([min(0.0, grid[0])], grid[1:], [max(1.0, grid[-1])]))


def pooled_counts(bins: NDArray[np.int64]) -> Counts:
    """Return counts at each threshold, of rows by label and bin, (2, m); `EvaluationError` for a negative one."""
    if bins.min() < 0:
        raise EvaluationError(
            "a bin of the pooled histogram has a negative count: the aggregator, or a party, has not computed what it "
            "should"
        )
    return Counts(*(row[::-1].cumsum()[::-1] for row in bins))


def _noise_warnings(manifest: Manifest, pooled: PooledCounts, histogram: Histogram) -> tuple[str, ...]:
    found = [result_warnings.BUDGETS_ADD_UP]
    if manifest.fleet is not None:
        found.append(f"{result_warnings.UNPROVED}; nor does a device prove its counts")
    total, spent = shared_budget(manifest.options)
    if spent is not None:
        found.append(f"epsilon = {total:g} is of two sessions: {spent:g} for the thresholds, the rest for the counts")
    found += result_warnings.of_parties(manifest, pooled.parties)
    rarer = max(0.0, float(min(histogram.positives.sum(), histogram.negatives.sum())))
    of_class = pooled.settings.get("noise_deviation", 0.0) * math.sqrt(histogram.bins)
    if of_class > _LOUD * rarer:
        fewer = "" if spent is not None else "fewer thresholds (or none: quantile finds as many as are best), "
        found.append(
            f"the noise on the number of rows of a class (standard deviation {of_class:,.0f}) is not small against the "
            f"rarer class (about {rarer:,.0f} rows): the AUC may be far off; take {fewer}more rows or a larger epsilon"
        )
    return tuple(found)

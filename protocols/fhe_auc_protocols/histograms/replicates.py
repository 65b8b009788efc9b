"""Replicates: counts of rows by label and bin, many times over, in which each row counts as often as chance has it.

In a replicate a row counts 0, 1, 2 … times, by Poisson's law of mean 1 (Hanley and MacGibbon, Computer Methods and
Programs in Biomedicine 83, 2006): equally often for both models, as do all rows of a patient. Weights stay as they are.
Times come from 16 bits: shares of 2^-16, of mean and variance 1 exactly, less than 2^-14 from Poisson's law.

**Times are a party's secret**, from a key that nobody else has, and that is forgotten. If all knew them, sums would be
equations about rows: 200 replicates tell in which bin each of 2,000 lies (docs/security/histograms.md).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.score_bins import bins_of
from fhe_auc.results.evaluation import LEAST_REPLICATES, MOST_REPLICATES, Replicates
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.sums.terms import MOST_ENTRIES
from fhe_auc_protocols import result_warnings
from fhe_auc_protocols.histograms.readout import PooledCounts, Readout
from fhe_auc_protocols.options import is_whole

_LABELS = 2
_SHARES = (24109, 24109, 12056, 4018, 1005, 200, 33, 5, 1)  # of 2^16, of 0 to 8 times
_TIMES = np.repeat(np.arange(len(_SHARES), dtype=np.uint8), _SHARES)
MOST_TIMES = len(_SHARES) - 1


class ReplicateCounts(Readout[Replicates]):
    """Of exact counts, or sums of weights: replicate by replicate and model by model, positives before negatives."""

    purpose = "replicates"

    def __init__(self, analysis: Analysis = PLAIN, replicates: object = LEAST_REPLICATES) -> None:
        if not is_whole(replicates, range(LEAST_REPLICATES, MOST_REPLICATES + 1)):
            raise InputError(f"replicates: {LEAST_REPLICATES} to {MOST_REPLICATES:,} are possible, got {replicates!r}")
        self._analysis, self.replicates = analysis, replicates
        self._per = analysis.units.per if analysis.units else 1

    def of(self, analysis: Analysis, options: Mapping[str, Any], square: int = 1) -> ReplicateCounts:
        """Return so many replicates of these models' counts; raise `InputError` where they are not 100 to 1,000."""
        return ReplicateCounts(analysis, options.get("replicates"))

    def times(self, analysis: Analysis) -> int:
        """Return how often a row counts in one replicate at most."""
        return MOST_TIMES

    def cells(self, thresholds: int) -> int:
        """Return the number of sums; raise `InputError` where they are too many."""
        number = self.replicates * len(self._analysis.models) * _LABELS * thresholds
        if number > MOST_ENTRIES:
            raise InputError(f"these are {number:,} sums, {MOST_ENTRIES:,} at most: take fewer replicates, or bins")
        return number

    def count(self, data: PartyData, grid: NDArray[np.float64]) -> NDArray[np.int64]:
        """Draw a party's times anew, and count with them, shape (cells,)."""
        return replicate_counts(data, grid, self.replicates, KeyStream(secrets.token_bytes(32))).ravel()

    def rows(self, cells: NDArray[np.int64]) -> int:
        """Return the most that a replicate of one model counts."""
        of_each = cells.reshape(self.replicates * len(self._analysis.models), -1)
        return int(of_each.sum(axis=1).max()) // self._per

    def outcome(self, manifest: Manifest, pooled: PooledCounts) -> Replicates:
        """Return the counts."""
        shape = self.replicates, len(self._analysis.models), _LABELS, len(manifest.thresholds)
        counts = pooled.levels[0].reshape(shape) / self._per
        warnings = result_warnings.of_parties(manifest, pooled.parties)
        return pooled.said(Replicates, manifest, warnings=warnings, grid=manifest.thresholds, counts=counts)


def replicate_counts(
    data: PartyData, grid: NDArray[np.float64], replicates: int, stream: KeyStream
) -> NDArray[np.int64]:
    """Return replicates of a party's counts, shape (replicates, models, 2, bins); in units where rows have weights.

    Of rows that lie in the same cells, and weigh the same, the times are drawn together; patients take theirs in the
    order of their indices.
    """
    (weights, *cells), rows = _alike(data, grid)
    starts, number = np.cumsum(rows) - rows, int(rows.sum())
    if data.clusters is not None:
        patients, of_row = np.unique(data.clusters, return_inverse=True)
        number = len(patients)
    found: NDArray[np.int64] = np.empty((replicates, len(cells), _LABELS, len(grid)), np.int64)
    for replicate in found:
        times = _TIMES.take(stream.words(-(-number // 4)).view(np.uint16)[:number])
        drawn = np.add.reduceat(times, starts, dtype=np.int64) if data.clusters is None else times[of_row]
        counted = drawn * weights
        for of_model, at in zip(replicate, cells, strict=True):
            sums = np.bincount(at, counted, minlength=of_model.size)  # floats, but exact: below 2^53
            of_model[:] = sums.reshape(of_model.shape)
    return found


def _alike(data: PartyData, grid: NDArray[np.float64]) -> tuple[tuple[NDArray[np.int64], ...], NDArray[np.int64]]:
    """Return weight, and cell of each model, of rows that have the same, shape (lines,) each, and how many these are.

    Where rows have patients, each is alone, in its order.
    """
    most = 1 if data.weights is None else int(data.weights.max())
    shape = (most + 1, *[_LABELS * len(grid)] * len(data.scores))
    lines: NDArray[np.int64] = np.zeros(0, np.int64)
    rows = lines
    for batch in data.batches():
        weights = np.ones(batch.rows, np.int64) if batch.weights is None else batch.weights
        of_label = np.where(batch.y_true, 0, len(grid))
        of_models = (of_label + bins_of(scores, grid) for scores in batch.scores)
        lines = np.concatenate([lines, np.ravel_multi_index((weights, *of_models), shape)])
        rows = np.concatenate([rows, np.ones(batch.rows, np.int64)])
        if data.clusters is None:
            lines, at = np.unique(lines, return_inverse=True)
            rows = np.bincount(at, rows).astype(np.int64)
    return np.unravel_index(lines, shape), rows

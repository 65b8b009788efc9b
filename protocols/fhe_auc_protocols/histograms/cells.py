"""Counts by cell: how many rows of each label all parties have in each bin, by group, or by two models at once.

A report says more of groups and of two models than AUCs: each group's calibration, how many of its rows are at or above
a threshold, and on how many of these two models agree. All of that follows from such counts, in few bins.
"""

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.score_bins import bins_of
from fhe_auc.results.evaluation import CellCounts
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc_protocols import result_warnings
from fhe_auc_protocols.histograms.readout import PooledCounts, Readout

_LABELS = 2
_MOST = 2**21  # of a grid of 2^20 thresholds, without groups


class Cells(Readout[CellCounts]):
    """Of exact counts; cells are as `CellCounts` has them. A row counts once for each variable, or once."""

    purpose = "counts of rows by group and bin"

    def __init__(self, analysis: Analysis = PLAIN) -> None:
        self._by, self._models = [len(variable.levels) for variable in analysis.by], len(analysis.models)

    def times(self, analysis: Analysis) -> int:
        """Return the number of variables, or 1."""
        return max(1, len(analysis.by))

    def cells(self, thresholds: int) -> int:
        """Return the number of cells of both labels; raise `InputError` where there are too many."""
        number: int = _LABELS * max(1, sum(self._by)) * thresholds**self._models
        if number > _MOST:
            raise InputError(f"these are {number:,} counts, {_MOST:,} at most: take fewer thresholds, groups or models")
        return number

    def count(self, data: PartyData, grid: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count a party's positives in each cell, then its negatives; `InputError`: another analysis's rows."""
        if (len(data.scores), len(data.groups)) != (self._models, len(self._by)):
            raise InputError(f"party {data.name!r}: its rows are not those of the session's analysis")
        cells = self.cells(len(grid)) // _LABELS
        counts = np.zeros((_LABELS, cells), np.int64)
        firsts = np.cumsum([0, *self._by])[: len(self._by)]
        for batch in data.batches():
            bins: NDArray[np.int64] = np.zeros(batch.rows, np.int64)
            for scores in batch.scores:
                bins = len(grid) * bins + bins_of(scores, grid)
            levels = [first + codes.astype(np.int64) for first, codes in zip(firsts, batch.groups, strict=True)]
            for level in levels or [np.zeros(batch.rows, np.int64)]:
                at = len(grid) ** self._models * level + bins
                counts += [np.bincount(at[side], minlength=cells) for side in (batch.y_true, ~batch.y_true)]
        return counts.ravel()

    def outcome(self, manifest: Manifest, pooled: PooledCounts) -> CellCounts:
        """Return the counts."""
        positives, negatives = pooled.levels[0].reshape(_LABELS, -1)
        warnings = result_warnings.of_parties(manifest, pooled.parties)
        return pooled.said(CellCounts, manifest, warnings=warnings, positives=positives, negatives=negatives)

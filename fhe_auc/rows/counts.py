"""One party's exact counts at each threshold, which add up to those of all parties.

    TP_k = #{label 1, score >= theta_k}      FP_k = #{label 0, score >= theta_k}      TP_{m+1} = FP_{m+1} = 0
    T_k = TP_k + TP_{k+1}      p_k = TP_k - TP_{k+1}      F_k = FP_k - FP_{k+1}       k = 1 ... m

The AUC of pooled counts: `fhe_auc.metrics.trapezoid`. By subgroup, rows are counted in
`fhe_auc_protocols.exact_auc.auc_sums`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question import thresholds as grids
from fhe_auc.question.score_bins import bins_of
from fhe_auc.rows.entries import frozen
from fhe_auc.rows.party_data import PartyData

# T_k = TP_k + TP_{k+1}, and the sum of two parties' counts, then stay below 2^63.
_MAX_ROWS = 2**62 - 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counts:
    """True and false positives at each of m thresholds, of one party or pooled: `tp`, `fp`, int64, shape (m,).

    For ascending thresholds, never negative, never increasing, read-only; the first counts every row. ``repr`` shows
    the number of thresholds only: the counts are the party's secret. ``==`` is identity.
    Raises `InputError` for arrays that cannot be such counts, or exceed 2^62 - 1 rows.
    """

    tp: NDArray[np.int64]
    fp: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("tp", "fp"):
            array = np.asarray(getattr(self, name))
            if array.ndim != 1 or array.size == 0 or array.dtype != np.int64:
                raise InputError(f"counts: {name} must be a one-dimensional int64 array of at least one threshold")
            if array[-1] < 0 or array[0] > _MAX_ROWS or (array[1:] > array[:-1]).any():
                raise InputError(f"counts: {name} must fall from at most 2^62 - 1 to at least 0 as the threshold rises")
            object.__setattr__(self, name, frozen(array))
        if self.tp.shape != self.fp.shape:
            raise InputError(f"counts: {len(self.tp)} true-positive but {len(self.fp)} false-positive counts")

    def __repr__(self) -> str:
        return f"Counts(thresholds={self.thresholds})"

    @property
    def thresholds(self) -> int:
        """Number of thresholds m, which is the number of bins as well."""
        return len(self.tp)

    @property
    def positives(self) -> int:
        """Rows with label 1: P = TP_1."""
        return int(self.tp[0])

    @property
    def negatives(self) -> int:
        """Rows with label 0: N = FP_1."""
        return int(self.fp[0])

    @property
    def bin_positives(self) -> NDArray[np.int64]:
        """Rows with label 1 in each bin: p_k = TP_k - TP_{k+1}, shape (m,)."""
        return -np.diff(self.tp, append=0)

    @property
    def bin_negatives(self) -> NDArray[np.int64]:
        """Rows with label 0 in each bin: F_k = FP_k - FP_{k+1}, shape (m,)."""
        return -np.diff(self.fp, append=0)

    @property
    def trapezoid_heights(self) -> NDArray[np.int64]:
        """Twice the mean height of each trapezoid: T_k = TP_k + TP_{k+1}, shape (m,)."""
        return 2 * self.tp - self.bin_positives

    def __add__(self, other: Counts) -> Counts:
        """Pool with other rows' counts; `InputError` for another number of thresholds, or more than 2^62 - 1 rows."""
        if not isinstance(other, Counts):
            return NotImplemented
        if self.thresholds != other.thresholds:
            raise InputError(f"counts at {self.thresholds} and at {other.thresholds} thresholds do not add up")
        return Counts(self.tp + other.tp, self.fp + other.fp)


def count(data: PartyData, thresholds: ArrayLike) -> Counts:
    """Count a party's true and false positives at each threshold, in O(n) time but for grids that are very uneven.

    A row at a threshold is predicted positive. Rows below the first threshold count in the first bin, so that the ROC
    curve has both its ends. Thresholds, shape (m,), are finite and strictly ascending; `InputError` for others.
    """
    grid = grids.explicit(thresholds)
    per_bin: NDArray[np.int64] = np.zeros((2, len(grid)), np.int64)
    for batch in data.batches():
        of_both = bins_of(batch.y_score, grid) + len(grid) * batch.y_true.astype(np.int32)
        per_bin = per_bin + np.bincount(of_both, minlength=per_bin.size).reshape(per_bin.shape)
    negatives, positives = per_bin[:, ::-1].cumsum(axis=1)[:, ::-1]
    return Counts(positives, negatives)

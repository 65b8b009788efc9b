"""The trapezoid in the clear: pooled counts to the AUC and its binning error, in exact integers.

    num = sum_k T_k F_k        den = 2 P N                tie = sum_k p_k F_k         AUC = num / den

[FHE] Baykara, Ünal, Akgün, "Enabling Privacy-preserving Model Evaluation in Federated Learning via Fully Homomorphic
Encryption", arXiv 2403.14428, eq. 2-3. T, F and p are those of `fhe_auc.rows.counts`.
"""

from dataclasses import dataclass
from fractions import Fraction
from operator import mul

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import UndefinedAucError
from fhe_auc.metrics.binning_error import binning_error
from fhe_auc.rows.counts import Counts


def auc_of_rows(y_true: NDArray[np.bool_], y_score: NDArray[np.float64]) -> Fraction:
    """Return the exact AUC of rows of both labels, shape (n,) both, n < 2^32: pairs ordered rightly, half of ties."""
    _, at = np.unique(y_score, return_inverse=True)
    positives, negatives = (np.bincount(at[rows], minlength=int(at.max()) + 1) for rows in (y_true, ~y_true))
    twice = positives * (2 * np.cumsum(negatives) - negatives)
    return Fraction(int(twice.sum()), 2 * int(positives.sum()) * int(negatives.sum()))


@dataclass(frozen=True, slots=True)
class Trapezoid:
    """The AUC as an exact fraction of integers ([FHE] eq. 2-3)."""

    num: int  # sum_k T_k F_k, in [0, den]
    den: int  # 2 P N, at least 2
    tie: int  # sum_k p_k F_k, in [0, den / 2]: pairs of a positive and a negative row that thresholds do not tell apart

    @property
    def fraction(self) -> Fraction:
        """The AUC as a reduced fraction."""
        return Fraction(self.num, self.den)

    @property
    def auc(self) -> float:
        """The AUC in [0, 1], correctly rounded."""
        return self.num / self.den

    @property
    def binning_error(self) -> float:
        """In [0, 1/2]: the AUC of the rows themselves (ties counted half) is at most so far from `auc`."""
        return binning_error(2 * self.tie, self.den)


def trapezoid(counts: Counts) -> Trapezoid:
    """Return the area under the ROC curve of pooled counts; `UndefinedAucError` without rows of both labels."""
    if counts.positives == 0 or counts.negatives == 0:
        missing = "positive" if counts.positives == 0 else "negative"
        raise UndefinedAucError(f"the pooled rows hold no {missing} row, so there is no AUC; add rows of both labels")
    # Python's integers: at 10^10 rows the products reach 10^20, beyond int64.
    negatives = counts.bin_negatives.tolist()
    return Trapezoid(
        num=sum(map(mul, counts.trapezoid_heights.tolist(), negatives)),
        den=2 * counts.positives * counts.negatives,
        tie=sum(map(mul, counts.bin_positives.tolist(), negatives)),
    )

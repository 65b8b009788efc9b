"""AUC and DeLong's standard error from the definition over rows: the oracle of `fhe_auc.intervals`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def of_rows(ones: NDArray[np.float64], zeros: NDArray[np.float64]) -> tuple[float, float]:
    """Scores of positive and of negative rows; a row's placement is its share of pairs ordered rightly, ties half."""
    ascending = [np.sort(side) for side in (ones, zeros)]
    of_ones, of_zeros = (
        (np.searchsorted(other, side, "left") + np.searchsorted(other, side, "right")) / (2 * len(other))
        for side, other in ((ones, ascending[1]), (zeros, ascending[0]))
    )
    variance = of_ones.var(ddof=1) / len(ones) + of_zeros.var(ddof=1) / len(zeros)
    return float(of_ones.mean()), float(np.sqrt(variance))

"""`Replicates`: the pooled counts of rows by label and bin, many times over, as chance would have them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fhe_auc.results.evaluation import Outcome

LEAST, MOST = 100, 1000  # replicates


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replicates(Outcome):
    """Counts of rows in each of which every row, or patient, counts as often as its site has drawn for it.

    Attributes
    ----------
    grid : ndarray of float64, shape (bins,)
        Where bins begin; those of all models are the same.
    counts : ndarray of float64, shape (replicates, models, 2, bins)
        Positive, then negative rows in each bin; sums of weights where rows have such.
    """

    grid: NDArray[np.float64]
    counts: NDArray[np.float64]

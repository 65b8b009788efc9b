"""Which bin a score falls into: the number of thresholds at or below it, less one."""

import numpy as np
from numpy.typing import NDArray


def bins_of(scores: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return each score's bin, shape (n,): of the last threshold at or below it, or 0; `grid` is strictly ascending."""
    return np.maximum(np.searchsorted(grid, scores, side="right") - 1, 0).astype(np.int32)

"""Statistics of pairs without noise, straight from the definition."""

import numpy as np

from fhe_auc_protocols.u_statistics import noiseless
from fhe_auc_protocols.u_statistics.kernels import Kernel


def of_rows(rows: np.ndarray, kernel: Kernel) -> float:
    """Return the average kernel over all pairs of rows of shape (n, d)."""
    points, counts = np.unique(rows, axis=0, return_counts=True)
    return noiseless.u_statistic(counts, kernel.matrix(points))


def hierarchical_histogram(leaf_counts: np.ndarray) -> list[np.ndarray]:
    """Return the users under each node, level by level from the root, of so many at each of 2^α leaves."""
    levels = [leaf_counts.astype(float)]
    while len(levels[0]) > 1:
        levels.insert(0, levels[0].reshape(-1, 2).sum(axis=1))
    return levels

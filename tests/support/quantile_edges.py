"""Edges of bins that hold about equally many rows."""

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc_protocols.histograms.quantile_thresholds import equi_depth_cells
from fhe_auc_protocols.histograms.readout import all_levels


def quantile_edges(scores: ArrayLike, bins: int, height: int = 14) -> np.ndarray:
    """Return ascending multiples of 2^-height, from 0 to 1; fewer where scores are frequent."""
    cells = np.histogram(scores, 2**height, (0, 1))[0]
    return np.append(equi_depth_cells(all_levels(cells, height), bins) / 2**height, 1.0)

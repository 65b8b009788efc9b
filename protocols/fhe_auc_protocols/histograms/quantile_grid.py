"""Quantile thresholds as a session's own: how many one may ask for, and which grid comes of the hierarchical counts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fhe_auc.errors import InputError
from fhe_auc.thresholds import MIN_SIZE, explicit
from fhe_auc_protocols.histograms.hierarchical_counts import HierarchicalCounts, cell_starts, equi_depth_edges

EXACT_HEIGHT = 14
"""h where counts are exact: 2^14 of them fill one ciphertext of the largest ring."""


def equi_depth_grid(counts: HierarchicalCounts, bins: int) -> NDArray[np.float64]:
    """Return thresholds so that bins hold about equally many rows.

    Fewer than `bins` where one cell holds more rows than a bin should, two at least.

    Raises
    ------
    InputError, EvaluationError
        As `hierarchical_counts.equi_depth_edges`.
    """
    grid = equi_depth_edges(counts, bins)[:-1]
    if len(grid) < MIN_SIZE:  # all rows in the first cell, and two bins wanted
        grid = np.array([0.0, 2.0**-counts.height])
    return explicit(grid)


def height_of(grid: NDArray[np.float64]) -> int:
    """Return the height h of which a manifest's thresholds are the 2^h cells; raise `InputError` where they are not."""
    height = len(grid).bit_length() - 1
    if len(grid) != 2**height or not np.array_equal(grid, cell_starts(height)):
        raise InputError(
            "the session's manifest is not one for finding thresholds: its own are not the cells of [0, 1]"
        )
    return height


def checked_bins(options: Mapping[str, object], height: int) -> int:
    """Return how many bins a request or manifest asks for; raise `InputError` unless they are 2 to 2^height."""
    bins = options.get("bins")
    if isinstance(bins, bool) or not isinstance(bins, int) or not MIN_SIZE <= bins <= 2**height:
        raise InputError(f"quantile thresholds number from {MIN_SIZE} to 2^{height} = {2**height:,} here, not {bins!r}")
    return bins

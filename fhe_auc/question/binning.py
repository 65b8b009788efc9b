"""Which bin a score falls into: the number of thresholds at or below it, by a table in place of a search.

The range of the grid is cut into cells of equal width. A cell knows how many thresholds lie in cells before it, and
which one lies inside. A score's cell is a multiplication away, and one comparison decides. Cells in which several
thresholds lie, and grids whose range is not a normal number, take a binary search.

Exact on any grid: the way from a number to its cell never falls where the number rises, also after rounding. So a
threshold in a later cell is above the score, and one in an earlier cell is below it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_CELLS = 2**16
_BLOCK = 2**15  # rows at a time, which stay in the processor's cache
_WORTH = 2**14  # rows for which a table is made
_NONE, _SEVERAL = np.inf, np.nan


class _Guide(NamedTuple):
    scale: float
    below: NDArray[np.int32]  # thresholds in cells before each; shape (cells + 2,), as is the next
    inside: NDArray[np.float64]  # the threshold in a cell; infinite: none; NaN: several


def bins_of(scores: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return each score's bin, shape (n,): of the last threshold at or below it, or 0; `grid` is strictly ascending."""
    guide = _guide(grid.tobytes()) if len(scores) >= _WORTH else None
    if guide is None:
        return np.maximum(np.searchsorted(grid, scores, side="right") - 1, 0).astype(np.int32)
    found = np.empty(len(scores), np.int32)
    for start in range(0, len(scores), _BLOCK):
        rows = scores[start : start + _BLOCK]
        cells = _cells(rows, grid[0], guide.scale)
        inside = guide.inside[cells]
        bins = guide.below[cells]
        bins += rows >= inside
        several = np.flatnonzero(np.isnan(inside))
        if len(several):
            bins[several] = np.searchsorted(grid, rows[several], side="right")
        np.maximum(bins - 1, 0, out=found[start : start + _BLOCK])
    return found


def _cells(numbers: NDArray[np.float64], first: np.float64, scale: float) -> NDArray[np.int32]:
    """Return the cell of each number: 0 below the grid, then 1 to cells + 1."""
    with np.errstate(over="ignore"):  # to infinity, which is beyond the grid
        cells = numbers - first
        cells *= scale
    np.clip(cells, -1, _CELLS, out=cells)
    cells += 1
    return cells.astype(np.int32)


@lru_cache(maxsize=8)
def _guide(content: bytes) -> _Guide | None:
    grid = np.frombuffer(content)
    with np.errstate(over="ignore", divide="ignore"):
        scale = float(np.float64(_CELLS) / (grid[-1] - grid[0]))
    if not 0 < scale < np.inf:  # one threshold, or a range beyond floating point
        return None
    cells = _cells(grid, grid[0], scale)
    per_cell = np.bincount(cells, minlength=_CELLS + 2)
    inside = np.full(_CELLS + 2, _NONE)
    inside[cells] = grid
    inside[per_cell > 1] = _SEVERAL
    return _Guide(scale, (np.cumsum(per_cell) - per_cell).astype(np.int32), inside)

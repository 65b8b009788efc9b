"""Hierarchical counts over [0, 1], and bin boundaries that hold about equally many rows.

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023, section 2.3. At
each level k = 1 ... h the interval is cut into 2^k segments of equal length, and rows in each are
counted. A prefix [0, r/2^h) is a union of at most one segment a level, so that noise of few counts is in its sum.

Everywhere the height h is from 1 to 20, and `InputError` is raised where it is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.rows.own_rows import check_scores
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.option_values import is_whole

_MAX_HEIGHT = 20  # counts of all levels together number 2^(h+1) - 2, about two million at this height


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HierarchicalCounts:
    """Rows in each dyadic segment of [0, 1], of one party or pooled, with or without privacy noise.

    ``repr`` shows the height only: a party's counts are its secret. ``==`` is identity. Raises `InputError`: the levels
    cannot be that.
    """

    levels: tuple[NDArray[np.float64], ...]
    """Level k = 1 ... h holds 2^k finite counts, shape (2^k,), read-only; with noise they need not be integers,
    positive, or agree between levels. Segments include their lower end; the last one of each level includes 1."""

    def __post_init__(self) -> None:
        check_height(len(self.levels))
        levels = tuple(np.array(level, dtype=np.float64) for level in self.levels)
        for k, level in enumerate(levels, start=1):
            if level.shape != (2**k,) or not np.isfinite(level).all():
                raise InputError(f"hierarchical counts: level {k} must hold {2**k} finite counts")
            level.flags.writeable = False
        object.__setattr__(self, "levels", levels)

    def __repr__(self) -> str:
        return f"HierarchicalCounts(height={self.height})"

    @classmethod
    def from_lowest(cls, counts: ArrayLike) -> HierarchicalCounts:
        """Add up counts of the lowest level, (2^h,), to all others; `InputError`: no power of two, or not finite."""
        lowest = np.asarray(counts, dtype=np.float64)
        height = lowest.size.bit_length() - 1
        if lowest.shape != (2**height,):
            raise InputError(f"hierarchical counts: the lowest level cannot have the shape {lowest.shape}")
        return cls(tuple(lowest.reshape(2**k, -1).sum(axis=1) for k in range(1, height + 1)))

    @property
    def height(self) -> int:
        """Number of levels h."""
        return len(self.levels)

    @property
    def total(self) -> float:
        """Number of rows, from the two counts of the first level."""
        return float(self.levels[0].sum())


def cell_starts(height: int) -> NDArray[np.float64]:
    """Return the lower ends r/2^h of the segments of the lowest level, shape (2^h,)."""
    check_height(height)
    return np.asarray(np.arange(2**height) / 2**height)


def cells(data: PartyData, height: int) -> NDArray[np.int64]:
    """Return each row's lowest segment, floor(score 2^h), the last for 1; `InputError` for scores beyond [0, 1]."""
    check_scores(data, cell_starts(height))
    below = (data.y_score * 2**height).astype(np.int64)  # exact: a product with a power of two
    return np.asarray(np.minimum(below, 2**height - 1))  # score 1


def count(data: PartyData, height: int) -> HierarchicalCounts:
    """Count a party's rows, of both labels together, at every level; errors as `cells`."""
    return HierarchicalCounts.from_lowest(
        np.sum([np.bincount(cells(batch, height), minlength=2**height) for batch in data.batches()], axis=0)
    )


def quantile_cells(counts: HierarchicalCounts, fractions: ArrayLike) -> NDArray[np.int64]:
    """Return the r, 0 to 2^h, whose prefix [0, r/2^h) holds the number of rows closest to each fraction of all.

    Fractions in [0, 1] and the result have the shape (q,). This is a binary search on prefix queries, for all fractions
    at once. Noisy prefixes may fall with r; the search then ends at one of the places where they cross the number.

    Raises `InputError`: a fraction is not in [0, 1]; `EvaluationError`: the rows number 0 or, by noise, less.
    """
    wanted = np.atleast_1d(np.asarray(fractions, dtype=np.float64))
    unfit = ~((wanted >= 0) & (wanted <= 1))
    if unfit.any():
        raise InputError(f"fraction {int(unfit.argmax())} is {wanted[unfit.argmax()]}; it must be in [0, 1]")
    if not counts.total > 0:
        raise EvaluationError("the hierarchical counts hold no row (or privacy noise outweighs them): no quantiles")
    left = wanted * counts.total
    segment = np.zeros(left.shape, dtype=np.int64)
    for level in counts.levels:
        segment *= 2
        below = level[segment]
        right = left >= below
        left = np.where(right, left - below, left)
        segment += right
    return segment + (np.abs(counts.levels[-1][segment] - left) < np.abs(left))


def equi_depth_edges(counts: HierarchicalCounts, bins: int) -> NDArray[np.float64]:
    """Return the edges, strictly ascending multiples of 2^-h, of 1 to 2^h bins of [0, 1] with about equally many rows.

    There are bins + 1, or fewer where a single segment holds more rows than a bin should. Errors as `quantile_cells`,
    and `InputError` for another number of bins.
    """
    size = 2**counts.height
    if not is_whole(bins, range(1, size + 1)):
        raise InputError(f"the number of bins must be from 1 to 2^{counts.height} = {size}, not {bins!r}")
    inner = quantile_cells(counts, np.arange(1, bins) / bins)
    return np.asarray(np.unique(np.concatenate(([0], inner, [size]))) / size)


def check_height(height: int) -> None:
    """Raise `InputError` where a hierarchy cannot have that height: it is 1 to 20."""
    if not is_whole(height, range(1, _MAX_HEIGHT + 1)):
        raise InputError(f"the height of a hierarchy must be from 1 to {_MAX_HEIGHT}, not {height!r}")

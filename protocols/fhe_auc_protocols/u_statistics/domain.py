"""Public domains: which values records may have, and how a device rounds its own to one of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.base.errors import InputError
from fhe_auc_protocols.u_statistics.kernels import Floats, Integers


@dataclass(frozen=True, eq=False)
class Axis:
    """The public values of one column, not from the data; `InputError` unless two or more, finite, ascending."""

    points: Floats
    """Strictly ascending, shape (k,), k >= 2. A device rounds to the nearest (the π of [USTAT] Algorithm 1)."""

    def __post_init__(self) -> None:
        points = np.asarray(self.points, float)
        if points.ndim != 1 or len(points) < 2 or not np.isfinite(points).all() or not (np.diff(points) > 0).all():
            raise InputError("the values of a column must be at least two finite numbers in ascending order")
        object.__setattr__(self, "points", points)

    @classmethod
    def bins(cls, low: float, high: float, k: int) -> Axis:
        """Return the middles of k >= 2 equal bins on [low, high]; `InputError` for fewer, or what is no range."""
        if not (np.isfinite([low, high]).all() and low < high):
            raise InputError(f"a range needs two numbers, the lower one first, got {low:g} and {high:g}")
        if k < 2:
            raise InputError(f"a range needs at least 2 bins, got {k}")
        return cls(low + (high - low) * (np.arange(k) + 0.5) / k)

    def index(self, values: ArrayLike) -> Integers:
        """Return the index of the nearest point to each value, 0 to k - 1; the upper one where two are equally near."""
        middles = (self.points[1:] + self.points[:-1]) / 2
        return np.searchsorted(middles, np.asarray(values, float), side="right").astype(np.int64)

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class Domain:
    """The values of a whole record: every combination of its columns' values."""

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        return int(np.prod([len(axis) for axis in self.axes]))

    @property
    def points(self) -> Floats:
        """All records that there can be, shape (k, d); the last column varies fastest."""
        grid = np.meshgrid(*(axis.points for axis in self.axes), indexing="ij")
        return np.stack([column.ravel() for column in grid], axis=-1)

    def index(self, rows: ArrayLike) -> Integers:
        """Return where in `points` each row is rounded to, shape (n,); `InputError` unless rows are of shape (n, d)."""
        columns = np.asarray(rows, float).T
        if len(columns) != len(self.axes):
            raise InputError(f"records have {len(columns)} columns, but the domain has {len(self.axes)}")
        indices = tuple(axis.index(column) for axis, column in zip(self.axes, columns, strict=True))
        return np.asarray(np.ravel_multi_index(indices, tuple(map(len, self.axes))), np.int64)

"""Kernels: the symmetric functions of two records whose average over all pairs is a U-statistic ([USTAT] §2.1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
ROUNDING = 1e-9  # kernel values that differ by no more than this share of the range are taken as equal


@dataclass(frozen=True)
class Kernel:
    """A symmetric function f of two records, and the range [low, high] that its values are promised to lie in.

    `function` takes two arrays of shape (..., d) that broadcast, d the columns of a record, and returns one of shape
    (...). The noise of `pairs` is scaled to the range's width, so that a value outside would not be protected: of
    public points it is refused, of users it is moved to the range's end. `lipschitz` is L of theorem 2 with
    |f(x, y) - f(x', y)| <= L·|x - x'|, if there is one.

    Raises `InputError`: the range is not two finite numbers, the lower one first.
    """

    name: str
    function: Callable[[Floats, Floats], Floats]
    low: float
    high: float
    lipschitz: float | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite([self.low, self.high]).all() and self.low < self.high):
            raise InputError(f"kernel {self.name!r}: the range [{self.low}, {self.high}] is not one")

    @property
    def width(self) -> float:
        """Length of the range."""
        return self.high - self.low

    def __call__(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """Return f of public records, (..., d); `InputError` names a value that is not finite or outside the range."""
        values = self._values(x, y)
        wrong = ~((values >= self.low) & (values <= self.high))
        if wrong.any():
            raise InputError(
                f"kernel {self.name!r} has the value {values[wrong][0]:g}, outside its range [{self.low}, {self.high}]"
            )
        return values

    def clipped(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """Return f of users' records, (..., d), moved into the range (NaN to its high end): no error tells a value."""
        return np.asarray(np.fmax(np.fmin(self._values(x, y), self.high), self.low))

    def check_symmetry(self, points: ArrayLike) -> None:
        """Raise `InputError` unless f is symmetric on (k, d) records and keeps shapes; it tells no value of users."""
        rows = np.asarray(points, float)
        values = self.clipped(rows[:, None, :], rows[None, :, :])
        if values.shape != (len(rows), len(rows)):
            raise InputError(f"kernel {self.name!r} turns records of shape (..., d) into {values.shape}, not (...)")
        if not np.allclose(values, values.T, rtol=0, atol=ROUNDING * self.width):
            raise InputError(f"kernel {self.name!r} is not symmetric")

    def _values(self, x: ArrayLike, y: ArrayLike) -> Floats:
        return np.asarray(self.function(np.asarray(x, float), np.asarray(y, float)), float)

    def matrix(self, points: ArrayLike) -> Floats:
        """Return A with A_ij = f(point i, point j), (k, k), of public points (k, d); errors as a call and symmetry."""
        rows = np.asarray(points, float)
        values = self(rows[:, None, :], rows[None, :, :])
        self.check_symmetry(rows)
        return (values + values.T) / 2


def gini(width: float) -> Kernel:
    """Return |x - y| on an interval of that width: Gini's mean difference ([USTAT] eq. 4)."""
    return Kernel("gini", lambda x, y: np.abs(x[..., 0] - y[..., 0]), 0.0, width, lipschitz=1.0)


KENDALL = Kernel("kendall", lambda x, y: np.sign(x[..., 0] - y[..., 0]) * np.sign(x[..., 1] - y[..., 1]), -1.0, 1.0)
"""Concordant 1, discordant -1, a tie in either column 0: Kendall's tau-a ([USTAT] eq. 6)."""

COLLISION = Kernel("renyi2", lambda x, y: np.all(x == y, axis=-1).astype(float), 0.0, 1.0)
"""Whether two records are equal: the collision probability, exp(-H2) of Rényi's entropy H2 ([USTAT] eq. 5)."""


def _order(x: Floats, y: Floats) -> Floats:
    """Return 1 where the score of the positive of two records is higher, ½ where equal, 0 where lower or no pair."""
    above = (np.sign(x[..., 0] - y[..., 0]) * np.sign(x[..., 1] - y[..., 1]) + 1) / 2
    return np.where(x[..., 1] == y[..., 1], 0.0, above)


AUC = Kernel("auc", _order, 0.0, 1.0)
"""On records (score, label): the AUC times n⁺n⁻ / (n(n-1)/2), ties counted half ([USTAT] §2.1.2)."""


def between_classes(points: ArrayLike) -> Floats:
    """Return A of points of shape (k,), A_ij = 1 where point i is above point j, ½ where equal: the AUC is p⁺ᵀ A p⁻."""
    values = np.asarray(points, float)
    return np.asarray((np.sign(values[:, None] - values[None, :]) + 1) / 2)

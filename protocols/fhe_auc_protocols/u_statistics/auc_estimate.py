"""The AUC of binned scores, by either randomiser: the estimate, its noise, and what the bins leave undecided."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc_protocols.exact_sampling import Source

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class AucEstimate:
    """What tallies of both classes say of the AUC of the rows; it is not clipped to [0, 1]."""

    auc: float

    noise_bound: float
    """Bound on the mean squared error from noise: theorem 1, or theorem 3's formula; NaN where that fails."""
    noise_error: float
    """Standard error from noise, estimated from the same reports; much smaller where the bound is loose."""
    ties: float
    """Estimate, which may be negative, of half the share of pairs inside one bin: the rows' own AUC is not farther from
    that of the bins."""
    ties_error: float  # its standard error

    @property
    def undecided(self) -> float:
        """What bins leave undecided, in [0, 1/2]; 0 where its estimate does not stand out of its own noise."""
        return min(self.ties, 0.5) if self.ties > self.ties_error else 0.0

    @property
    def coarse(self) -> bool:
        """Whether bins leave more undecided than noise does."""
        return self.undecided > self.noise_error

    @property
    def standard_error(self) -> float:
        """How far the estimate may lie from the rows' own AUC: noise and bins together."""
        return math.hypot(self.noise_error, self.undecided)

    @property
    def squared_error(self) -> float:
        """Bound on the mean squared error: of noise whatever the data, of bins up to four standard errors of `ties`."""
        return self.noise_bound + min(max(self.ties, 0.0) + 4 * self.ties_error, 0.5) ** 2


class Mechanism(ABC):
    """How a class's rows, in `bins` bins of scores, turn into `size` counts of reports, and those into an estimate."""

    bins: int
    size: int

    @abstractmethod
    def tally(self, bins: Integers, source: Source) -> Integers:
        """Randomise n rows in these bins, shape (n,), 0 to bins - 1; return the counts of reports, shape (size,)."""

    @abstractmethod
    def estimate(self, positives: Integers, negatives: Integers) -> AucEstimate:
        """Return what the pooled tallies of both classes, shape (size,), say; neither is empty."""

"""The AUC of binned scores, by either randomiser: the estimate, its noise, and what the bins leave undecided."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from fhe_auc_protocols.exact_sampling import Source
from fhe_auc_protocols.u_statistics.hadamard import HadamardTree
from fhe_auc_protocols.u_statistics.hierarchy import HierarchicalAuc, HierarchyEstimate
from fhe_auc_protocols.u_statistics.kernels import Integers, between_classes
from fhe_auc_protocols.u_statistics.krr import RandomisedResponse


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
    ties_error: float
    """Its standard error."""

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

    def __init__(self, oracle: RandomisedResponse | HadamardTree, bins: int, size: int) -> None:
        self._oracle, self.bins, self.size = oracle, bins, size

    def tally(self, bins: Integers, source: Source) -> Integers:
        """Randomise n rows in these bins, shape (n,), 0 to bins - 1; return the counts of reports, shape (size,)."""
        reports: Any = self._oracle.randomise(bins, source)
        return self._oracle.tally(reports).ravel()

    @abstractmethod
    def estimate(self, positives: Integers, negatives: Integers) -> AucEstimate:
        """Return what the pooled tallies of both classes, shape (size,), say; neither is empty."""


class KrrMechanism(Mechanism):
    """k-ary randomised response on the bin; errors as `RandomisedResponse`."""

    def __init__(self, bins: int, epsilon: float) -> None:
        self.response = RandomisedResponse(bins, epsilon)
        super().__init__(self.response, bins, size=bins)

    def estimate(self, positives: Integers, negatives: Integers) -> AucEstimate:
        """Return the unbiased estimate of the binned AUC, and of its binning error from the same reports."""
        response, tallies = self.response, (positives, negatives)
        order, same = between_classes(np.arange(response.k)), np.eye(response.k) / 2
        return AucEstimate(
            response.estimate_between(*tallies, order),
            response.variance_bound_between(int(positives.sum()), int(negatives.sum())),
            response.standard_error_between(*tallies, order),
            response.estimate_between(*tallies, same),
            response.standard_error_between(*tallies, same),
        )


class HierarchyMechanism(Mechanism):
    """One-bit reports on a tree of that depth, whose first leaves, or all, are the bins; errors as `HadamardTree`."""

    def __init__(self, depth: int, epsilon: float, bins: int | None = None) -> None:
        self.tree = HadamardTree(depth, epsilon)
        super().__init__(self.tree, 2**depth if bins is None else bins, size=math.prod(self.tree.tally_shape))

    def estimate(self, positives: Integers, negatives: Integers) -> AucEstimate:
        """Return the recursive estimate, and the binning error of pairs that reach a leaf together."""
        return self.recursion(positives, negatives)[0]

    def recursion(
        self, positives: Integers, negatives: Integers
    ) -> tuple[AucEstimate, HierarchicalAuc, HierarchyEstimate]:
        """Return the estimate, and what it comes from."""
        method = HierarchicalAuc(self.tree, *(int(tally.sum()) for tally in (positives, negatives)))
        found = method.estimate(*(tally.reshape(self.tree.tally_shape) for tally in (positives, negatives)))
        bound, ties = method.error_bound(), (found.tied / 2, found.tied_error / 2)
        return AucEstimate(found.auc, bound, found.standard_error, *ties), method, found

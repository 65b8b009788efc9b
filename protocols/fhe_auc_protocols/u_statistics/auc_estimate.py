"""The AUC of binned scores: what noise may have moved it by, and what the bins leave undecided."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

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


def of_responses(response: RandomisedResponse, positives: Integers, negatives: Integers) -> AucEstimate:
    """Return the unbiased estimate of the bins' AUC from both classes' counts of reports, and of ties likewise."""
    order, same = between_classes(np.arange(response.k)), np.eye(response.k) / 2
    return AucEstimate(
        response.estimate_between(positives, negatives, order),
        response.variance_bound_between(int(positives.sum()), int(negatives.sum())),
        response.standard_error_between(positives, negatives, order),
        response.estimate_between(positives, negatives, same),
        response.standard_error_between(positives, negatives, same),
    )


def of_tree(method: HierarchicalAuc, found: HierarchyEstimate) -> AucEstimate:
    """Return what the recursion has found."""
    return AucEstimate(found.auc, method.error_bound(), found.standard_error, found.tied / 2, found.tied_error / 2)

"""Quantise, then k-ary randomised response: an AUC from one symbol per user ([USTAT] §3, Algorithm 1).

    β = k / (k + e^ε - 1)        with probability β a user reports a uniform one of the k values, else the own one

so that the own value is reported with probability e^ε / (k + e^ε - 1), any other one with 1 / (k + e^ε - 1): their
ratio is e^ε, and a report is ε-locally differentially private. ([USTAT] eq. 9 prints 1 - β for the own value; the
estimator is that of 1 - β + β/k.) With e_r the report as a unit vector and b = (β/k, …, β/k),

    E[e_r] = (1 - β)·e_x + b,   so that   (1 - β)^-2 (e_r - b)ᵀ A (e_s - b)

is an unbiased estimate of A_xy from the reports r, s of two users. Its average over pairs of a positive and a negative
user needs only each class's counts of reports; labels are public. A_xy = 1 where x is above y, ½ where equal: the AUC.

Privacy unit: one user's score. Budget: ε, spent once by the one report.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.base.errors import InputError
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.exact_sampling import Source
from fhe_auc_protocols.option_values import checked_epsilon
from fhe_auc_protocols.u_statistics.auc_estimate import AucEstimate, Floats, Integers, Mechanism

MAX_VALUES = 4096  # the estimate multiplies by a k × k matrix


class RandomisedResponse(Mechanism):
    """k-ary randomised response on 2 to 4,096 bins, ε from 0.000001 to 32; raises `InputError` for others."""

    def __init__(self, k: int, epsilon: float) -> None:
        if not 2 <= k <= MAX_VALUES:
            raise InputError(f"randomised response needs 2 to {MAX_VALUES:,} values, got {k:,}")
        self.k = self.bins = self.size = k
        self._replaced_below = exact_sampling.threshold(k, k - 1, checked_epsilon(epsilon))
        self.beta = exact_sampling.probability(self._replaced_below)
        self.kept = (2**64 - self._replaced_below) / 2**64  # 1 - β, without cancellation where ε is small

    def tally(self, bins: Integers, source: Source) -> Integers:
        """Randomise a report for each of n users in these bins, shape (n,), as each does on its own device.

        Returns the counts of reports, shape (k,): all that the aggregator needs. The source is `exact_sampling.secure`
        where it protects someone. Raises `InputError`: a bin is out of range.
        """
        if len(bins) and not 0 <= bins.min() <= bins.max() < self.k:
            raise InputError(f"values must lie in [0, {self.k})")
        replaced = exact_sampling.choose(source, self._replaced_below, len(bins))
        reports = np.where(replaced, exact_sampling.integers(source, self.k, len(bins)), bins)
        return np.bincount(reports, minlength=self.k).astype(np.int64)

    def estimate(self, positives: Integers, negatives: Integers) -> AucEstimate:
        """Return the unbiased estimate of the binned AUC, and of its binning error from the same reports."""
        above, equal = np.tri(self.k, k=-1), np.eye(self.k) / 2
        auc, noise_error = self.average(positives, negatives, above + equal)
        ties, ties_error = self.average(positives, negatives, equal)
        return AucEstimate(
            auc, self.variance_bound(int(positives.sum()), int(negatives.sum())), noise_error, ties, ties_error
        )

    def average(self, first: ArrayLike, second: ArrayLike, matrix: Floats) -> tuple[float, float]:
        """Return the unbiased average of a matrix over pairs of two groups, by counts of reports; and its error.

        That is the estimated root of its variance given the users, to first order: √(V₁₀/n⁺ + V₀₁/n⁻), with V₁₀ =
        Var[(A p̂⁻)_r] / (1 - β)² over reports, less Var[(A p̂⁻)_x] over users, which is there without noise too.
        """
        of_first, of_second = self.shares(first), self.shares(second)
        error = math.hypot(self._deviation(first, matrix @ of_second), self._deviation(second, of_first @ matrix))
        return float(of_first @ matrix @ of_second), error

    def shares(self, reported: ArrayLike) -> Floats:
        """Return unbiased shares of users with each value, which may be negative, from some reports; both (k,)."""
        counts = np.asarray(reported, float)
        return np.asarray((counts / counts.sum() - self.beta / self.k) / self.kept)

    def _deviation(self, reported: ArrayLike, values: Floats) -> float:
        counts = np.asarray(reported, float)
        of_reports, of_users = (
            float(weights @ values**2 - (weights @ values) ** 2)
            for weights in (counts / counts.sum(), self.shares(reported))
        )
        return math.sqrt(max(of_reports / self.kept**2 - of_users, 0.0) / counts.sum())

    def variance_bound(self, first: int, second: int) -> float:
        """Return theorem 1's bound for two groups of n⁺ and n⁻ users, drawn independently from any distributions.

        Hoeffding's decomposition shows it: Var = V₁₀ / n⁺ + V₀₁ / n⁻ + V₁₁ / (n⁺n⁻). A has entries in [0, 1], so that
        (1 - β)² V₁₀ = Var[(A μ⁻)_r] ≤ ¼, likewise (1 - β)² V₀₁ ≤ ¼, and (1 - β)⁴ V₁₁ ≤ Var[A_rs] ≤ ¼.
        """
        kept = self.kept
        return ((1 / first + 1 / second) / kept**2 + 1 / (first * second * kept**4)) / 4


def bins_by_rule(users: int, epsilon: float) -> int:
    """Return the bins that balance noise and quantisation (corollary 1, for ε <= 1): k = n^¼ √ε, 2 to 4,096."""
    return min(max(2, round(math.sqrt(math.sqrt(users) * epsilon))), MAX_VALUES)

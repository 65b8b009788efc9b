"""Quantise, then k-ary randomised response: any U-statistic from one symbol per user ([USTAT] §3, Algorithm 1).

    β = k / (k + e^ε - 1)        with probability β a user reports a uniform one of the k values, else the own one

so that the own value is reported with probability e^ε / (k + e^ε - 1), any other one with 1 / (k + e^ε - 1): their
ratio is e^ε, and a report is ε-locally differentially private. ([USTAT] eq. 9 prints 1 - β for the own value; the
estimator is that of 1 - β + β/k.) With e_r the report as a unit vector and b = (β/k, …, β/k),

    E[e_r] = (1 - β)·e_x + b,   so that   (1 - β)^-2 (e_r - b)ᵀ A (e_s - b)

is an unbiased estimate of f(x, y) from two reports r, s. Its average over pairs of different users needs only the
counts c of reports:

    Û = (1 - β)^-2 [ (c - n·b)ᵀ A (c - n·b) - Σ_i c_i (e_i - b)ᵀ A (e_i - b) ] / (n (n - 1))

Privacy unit: one user's record. Budget: ε, spent once by the one report.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.base.errors import InputError
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.exact_sampling import Source
from fhe_auc_protocols.option_values import checked_epsilon
from fhe_auc_protocols.u_statistics.kernels import Floats, Integers
from fhe_auc_protocols.u_statistics.noiseless import checked_users

MAX_VALUES = 4096  # the estimate multiplies by a k × k matrix


class RandomisedResponse:
    """k-ary randomised response on 2 to 4,096 values, ε from 0.000001 to 32; raises `InputError` for others."""

    def __init__(self, k: int, epsilon: float) -> None:
        if not 2 <= k <= MAX_VALUES:
            raise InputError(f"randomised response needs 2 to {MAX_VALUES:,} values, got {k:,}")
        self.k = k
        self.epsilon = checked_epsilon(epsilon)
        self._replaced_below = exact_sampling.threshold(k, k - 1, self.epsilon)
        self.beta = exact_sampling.probability(self._replaced_below)
        self.kept = exact_sampling.complement(self._replaced_below)  # 1 - β, without cancellation where ε is small

    def randomise(self, values: Integers, source: Source) -> Integers:
        """Return what users with these values in [0, k) report, shape (n,): what each does on its own device.

        The source is `exact_sampling.secure` where it protects someone. Raises `InputError`: a value is out of range.
        """
        if len(values) and not 0 <= values.min() <= values.max() < self.k:
            raise InputError(f"values must lie in [0, {self.k})")
        replaced = exact_sampling.choose(source, self._replaced_below, len(values))
        return np.where(replaced, exact_sampling.integers(source, self.k, len(values)), values)

    def tally(self, reports: Integers) -> Integers:
        """Return the counts of reports, shape (k,): all that the aggregator needs."""
        return np.bincount(reports, minlength=self.k).astype(np.int64)

    def estimate(self, reported: ArrayLike, matrix: Floats) -> float:
        """Return the unbiased U-statistic of reports, (k,), and matrix, (k, k); `InputError` for fewer than two."""
        counts = np.asarray(reported, float)
        n = checked_users(counts.sum())
        centred = counts - n * self.beta / self.k
        # (e_i - b)ᵀ A (e_i - b), for every i.
        share = self.beta / self.k
        own = np.diag(matrix) - 2 * share * matrix.sum(axis=0) + share**2 * matrix.sum()
        return float((centred @ matrix @ centred - counts @ own) / (n * (n - 1) * self.kept**2))

    def shares(self, reported: ArrayLike) -> Floats:
        """Return unbiased shares of users with each value, maybe negative, both (k,); `InputError`: no report."""
        counts = np.asarray(reported, float)
        if counts.sum() < 1:
            raise InputError("there are no reports")
        return np.asarray((counts / counts.sum() - self.beta / self.k) / self.kept)

    def estimate_between(self, first: ArrayLike, second: ArrayLike, matrix: Floats) -> float:
        """Return the unbiased average kernel between two public groups, as classes of an AUC; errors as `shares`."""
        return float(self.shares(first) @ matrix @ self.shares(second))

    def standard_error(self, reported: ArrayLike, matrix: Floats) -> float:
        """Return the estimated root of `estimate`'s variance given the users, to first order: 2 √(V/n).

        V = Var[(A p̂)_r] / (1 - β)² over reports, less Var[(A p̂)_x] over users, which is there without noise too.
        """
        return 2 * self._deviation(reported, matrix @ self.shares(reported))

    def standard_error_between(self, first: ArrayLike, second: ArrayLike, matrix: Floats) -> float:
        """Return the same for `estimate_between`: √(V₁₀/n⁺ + V₀₁/n⁻)."""
        of_first, of_second = matrix @ self.shares(second), self.shares(first) @ matrix
        return math.hypot(self._deviation(first, of_first), self._deviation(second, of_second))

    def _deviation(self, reported: ArrayLike, values: Floats) -> float:
        counts = np.asarray(reported, float)
        of_reports, of_users = (
            float(weights @ values**2 - (weights @ values) ** 2)
            for weights in (counts / counts.sum(), self.shares(reported))
        )
        return math.sqrt(max(of_reports / self.kept**2 - of_users, 0.0) / counts.sum())

    def variance_bound(self, users: int, width: float = 1.0) -> float:
        """Return theorem 1's bound on the variance, users drawn independently from any distribution.

        1 / (n (1 - β)²) + (1 + β)² / (2 n (n - 1) (1 - β)⁴), times the squared width of the kernel's range.
        Hoeffding's decomposition shows that it holds, with room in the second term: Var = 4 V₁ / n + 2 V₂ / (n(n-1)),
        where (1 - β)² V₁ = Var[(A μ)_r] ≤ ¼ as A μ has entries in [0, 1], and (1 - β)⁴ V₂ ≤ Var[A_rs] ≤ ¼.
        """
        n, kept = users, self.kept
        return width**2 * (1 / (n * kept**2) + (1 + self.beta) ** 2 / (2 * n * (n - 1) * kept**4))

    def variance_bound_between(self, first: int, second: int) -> float:
        """Return the same for two groups of public membership, n⁺ and n⁻ users, and kernels on [0, 1].

        Var = V₁₀ / n⁺ + V₀₁ / n⁻ + V₁₁ / (n⁺n⁻) with (1 - β)² V₁₀, (1 - β)² V₀₁ and (1 - β)⁴ V₁₁ at most ¼, as above.
        """
        kept = self.kept
        return ((1 / first + 1 / second) / kept**2 + 1 / (first * second * kept**4)) / 4


def quantisation_bound(k: int, lipschitz: float, length: float = 1.0) -> float:
    """Return a bound on the squared bias of k bins of equal width on an interval of that length: (L·length/k)².

    Both arguments move by at most length/2k. [USTAT] theorem 2 states half of that, L²/2k²; but where f(x, y) =
    L·(x + y) and all users sit on one bin's edge, the bias is L/k.
    """
    return (lipschitz * length / k) ** 2


def bins_by_rule(users: int, epsilon: float, lipschitz: float = 1.0) -> int:
    """Return the bins that balance noise and quantisation (corollary 1, for ε <= 1): k = n^¼ √(L ε), 2 to 4,096."""
    return min(max(2, round(math.sqrt(math.sqrt(users) * lipschitz * epsilon))), MAX_VALUES)

"""Randomisers of scores, and the AUC that their reports say: the estimate, its noise, what bins leave undecided.

**Quantise, then k-ary randomised response**: one symbol per user ([USTAT] §3, Algorithm 1).

    β = k / (k + e^ε - 1)        with probability β a user reports a uniform one of the k values, else the own one

so that the own value is reported with probability e^ε / (k + e^ε - 1), any other one with 1 / (k + e^ε - 1): their
ratio is e^ε, and a report is ε-locally differentially private. ([USTAT] eq. 9 prints 1 - β for the own value; the
estimator is that of 1 - β + β/k.) With e_r the report as a unit vector and b = (β/k, …, β/k),

    E[e_r] = (1 - β)·e_x + b,   so that   (1 - β)^-2 (e_r - b)ᵀ A (e_s - b)

is an unbiased estimate of A_xy from the reports r, s of two users. Its average over pairs of a positive and a negative
user needs only each class's counts of reports; labels are public. A_xy = 1 where x is above y, ½ where equal: the AUC.

Privacy unit: one user's score. Budget: ε, spent once by the one report.

**Two noisy hierarchical histograms**, one for each class ([USTAT] §4).

Scores are leaves s in [0, 2^α), classes are public. h_p counts a class's users under node p. Without noise

    UAUC(p) = h⁺_{p1}·h⁻_{p0} + UAUC(p0) + UAUC(p1)          AUC = UAUC(root) / (n⁺ n⁻)

With unbiased estimates ĥ of variance at most v = C n α, a > 1, h̃ = max(ĥ, √(a·v)/2) and τ = a √(v⁺v⁻), a node with
h̃⁺h̃⁻ < τ is discarded: what lies under it is taken as ½ (Σ ĥ⁺ of its children)(Σ ĥ⁻ of its children), as if half of
its pairs were in order. Any other node is recursed on.

At a leaf the paper has 0, which counts ties as lost. Here it is ½ ĥ⁺ĥ⁻, the treatment of a discarded node: ties then
count half, as everywhere in this project. The products are of estimates from different users, hence unbiased; what is
biased is discarding. Epsilon, of scores alone, is spent once: classes report into different histograms.

**The oracle**: a one-bit frequency oracle for the nodes of a binary tree: level sampling, then Hadamard response.

A user with leaf s in [0, 2^α) draws a level l uniformly from 1 … α and a row j uniformly from [0, 2^l), computes the
entry H[j, q] = (-1)^popcount(j & q) of the Hadamard matrix at the node q = s >> (α - l) that s lies under, flips its
sign with probability 1 / (e^ε + 1), and reports (l, j, sign). l and j do not depend on the data, and the signs'
probabilities have a ratio of at most e^ε: a report is ε-locally differentially private ([USTAT] §4, after Bassily et
al. 2017 and Kulkarni et al. 2019).

With c = (e^ε + 1) / (e^ε - 1), the aggregator estimates how many of its n users are under node p of level l by

    ĥ_p = α·c · Σ_{users at level l} sign · H[j, p]

Each user adds to it a term with mean [q = p], as E_j H[j, q]·H[j, p] = [q = p], and second moment (α c)²/α = α c². So

    E[ĥ_p] = h_p        Var[ĥ_p] = n·α·c² - h_p <= C·n·α     with     C = c² = ((e^ε + 1) / (e^ε - 1))²

which is the constant of theorem 3 (C → 4/ε² as ε → 0, C → 1 as ε grows: sampling levels is what remains). Conditions of
the theorem, from E[X_p·X_q] over one user: at one level E_j H[j, p]·H[j, q] = 0, so that nodes are uncorrelated, and
given who reports on that level pairwise independent; at different levels a user reports on one of them at most, which
leaves Cov[ĥ_p, ĥ_q] = -(users under both), at most 1 / (α c²) of the variance bound.

With C = c² theorem 3's expression is of order α²/(n ε²), where theorem 4 states α³ for ε-LDP. Theorem 3 asks for
independent levels, which level sampling meets only up to a covariance of -h; so for us it is a formula that was
measured to hold, not a proof. How appendix B.2 gets α³ we did not check.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.special_functions import root
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.exact_sampling import Source
from fhe_auc_protocols.options import checked_epsilon

MAX_VALUES = 4096  # the estimate multiplies by a k × k matrix
MAX_DEPTH = 20
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
        """What bins leave undecided, in [0, 1/2]; 0 where its estimate is within two of its own standard errors."""
        return min(self.ties, 0.5) if self.ties > 2 * self.ties_error else 0.0

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
    """How a class's rows, in `bins` bins of scores, turn into counts of reports, of `shape`, and those into an AUC."""

    bins: int
    shape: tuple[int, ...]

    @abstractmethod
    def tally(self, bins: Integers, source: Source) -> Integers:
        """Randomise n rows in these bins, shape (n,), as each device would; return the counts of reports.

        The source is `exact_sampling.secure` where it protects someone.
        """

    @abstractmethod
    def auc(self, positives: Integers, negatives: Integers) -> AucEstimate:
        """Return what the pooled tallies of both classes say; neither is empty."""


class RandomisedResponse(Mechanism):
    """k-ary randomised response on 2 to 4,096 bins, ε from 0.000001 to 32; raises `InputError` for others."""

    def __init__(self, k: int, epsilon: float) -> None:
        if not 2 <= k <= MAX_VALUES:
            raise InputError(f"randomised response needs 2 to {MAX_VALUES:,} values, got {k:,}")
        self.k = self.bins = k
        self.shape = (k,)
        self._replaced_below = exact_sampling.threshold(k, k - 1, checked_epsilon(epsilon))
        self.beta = exact_sampling.probability(self._replaced_below)
        self.kept = (2**64 - self._replaced_below) / 2**64  # 1 - β, without cancellation where ε is small

    def tally(self, bins: Integers, source: Source) -> Integers:
        """Return how many of n users in these bins report each of k values: all that the aggregator needs."""
        replaced = exact_sampling.choose(source, self._replaced_below, len(bins))
        reports = np.where(replaced, exact_sampling.integers(source, self.k, len(bins)), bins)
        return np.bincount(reports, minlength=self.k).astype(np.int64)

    def auc(self, positives: Integers, negatives: Integers) -> AucEstimate:
        """Return the unbiased estimate of the binned AUC, and of its binning error from the same reports."""
        above, equal = np.tri(self.k, k=-1), np.eye(self.k) / 2
        of_all, noise_error = self.average(positives, negatives, above + equal)
        ties, ties_error = self.average(positives, negatives, equal)
        return AucEstimate(
            of_all, self.variance_bound(int(positives.sum()), int(negatives.sum())), noise_error, ties, ties_error
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


class HadamardTree(Mechanism):
    """The oracle of depth α, 1 to 20, leaves [0, 2^α), ε from 0.000001 to 32; else it raises `InputError`.

    Its first leaves are the `bins`; all are, if not given. A tally has how many plus, then minus signs there are at
    2^level + row, shape (2, 2^(α+1)).
    """

    def __init__(self, depth: int, epsilon: float, bins: int | None = None) -> None:
        if not 1 <= depth <= MAX_DEPTH:
            raise InputError(f"alpha, the depth of the tree, must lie between 1 and {MAX_DEPTH}, got {depth}")
        self.depth = depth
        self.bins, self.shape = bins or 2**depth, (2, 2 << depth)
        self._flipped_below = exact_sampling.threshold(1, 1, checked_epsilon(epsilon))
        # 1 / (1 - 2 P[flip]), from the probability that is really used, 2^-64 · below, and without cancellation.
        self.scale = 2**63 / (2**63 - self._flipped_below)

    @property
    def constant(self) -> float:
        """C of theorem 3: Var[ĥ_p] <= C·n·α."""
        return self.scale**2

    def variance_bound(self, users: float) -> float:
        """Return v = C·n·α."""
        return self.constant * users * self.depth

    def tally(self, bins: Integers, source: Source) -> Integers:
        """Return the tally of one report for each of n users with these leaves; tallies add up."""
        level = 1 + exact_sampling.integers(source, self.depth, len(bins))
        # A power of two: masking a uniform integer leaves it uniform.
        row = exact_sampling.integers(source, 2**MAX_DEPTH, len(bins)) & ((1 << level) - 1)
        flipped = exact_sampling.choose(source, self._flipped_below, len(bins))
        parity = row & (bins >> (self.depth - level))
        for shift in (16, 8, 4, 2, 1):  # the lowest bit: whether the number of ones is odd
            parity = parity ^ (parity >> shift)
        minus = (parity & 1).astype(bool) ^ flipped
        size = self.shape[1]
        position = minus * size + (1 << level) + row
        return np.bincount(position, minlength=2 * size).reshape(2, size).astype(np.int64)

    def estimate(self, tally: Integers) -> list[Floats]:
        """Return the unbiased node estimates ĥ, for levels 0 … α, of shape (2^level,); level 0 is n, exactly."""
        signs = (tally[0] - tally[1]).astype(float)
        levels = [np.array([float(tally.sum())])]
        for level in range(1, self.depth + 1):
            levels.append(self.depth * self.scale * _transform(signs[1 << level : 2 << level]))
        return levels

    def auc(self, positives: Integers, negatives: Integers) -> AucEstimate:
        """Return the recursive estimate, and the binning error of pairs that reach a leaf together."""
        return self.recurse(self.estimate(positives), self.estimate(negatives))

    def discarding(self, positives: float, negatives: float) -> float:
        """Return a, above 1, which says where to discard: for so many users it makes theorem 3's bound smallest."""
        # Of the expression a is in 4a·min(n⁺, n⁻) + 21 √(2nC) s/(s - 1), s = √a: smallest at s (s - 1)² = c.
        c = 21 * math.sqrt(2 * (positives + negatives) * self.constant) / (8 * min(positives, negatives))
        return root(lambda s: s * (s - 1) ** 2 - c, 1.0, 1 + math.sqrt(c)) ** 2

    def error_bound(self, positives: float, negatives: float) -> float:
        """Return theorem 3's expression for the mean squared error of the AUC, given the scores of so many users.

        C n⁺n⁻ α² (2n + (4a + 1) min(n⁺, n⁻) + 21 √(2nCa) / (√a - 1)) / (n⁺n⁻)²; NaN where its condition α <= √n fails.
        The theorem's levels are independent, ours nearly so: a formula that measured errors stay below, not a proof.
        """
        n, c, a = positives + negatives, self.constant, self.discarding(positives, negatives)
        if self.depth**2 > n:
            return math.nan
        discarded = (4 * a + 1) * min(positives, negatives)
        terms = 2 * n + discarded + 21 * math.sqrt(2 * n * c * a) / (math.sqrt(a) - 1)
        return c * self.depth**2 * terms / (positives * negatives)

    def recurse(self, plus: Sequence[Floats], minus: Sequence[Floats], *, discard: bool = True) -> AucEstimate:
        """Return the AUC from two histograms, (2^level,) at each level 0 … α; `discard=False` recurses on all nodes.

        Standard errors are roots of Σ v⁺(h⁻)² + v⁻(h⁺)² + v⁺v⁻ over the products added up, which are of uncorrelated
        factors, with max(ĥ² - v, 0) for h²; what discarding shifts is not in them.
        """
        positives, negatives = float(plus[0][0]), float(minus[0][0])  # at least one of each
        a, pairs = self.discarding(positives, negatives), positives * negatives
        v_plus, v_minus = self.variance_bound(positives), self.variance_bound(negatives)
        threshold = a * math.sqrt(v_plus * v_minus) if discard else -math.inf
        total = variance = 0.0

        def product(left: Floats, right: Floats, nodes: int, weight: float) -> None:
            """Add left·right to the total; each is a sum of estimates of so many nodes."""
            nonlocal total, variance
            v, w = nodes * v_plus, nodes * v_minus
            total += weight * float(left @ right)
            spread = v * np.maximum(right**2 - w, 0) + w * np.maximum(left**2 - v, 0) + v * w
            variance += weight**2 * float(spread.sum())

        # Nodes of this level that have not been discarded, nor have their ancestors.
        active: NDArray[np.bool_] = np.ones(1, bool)
        for level in range(self.depth):
            h_plus, h_minus = plus[level], minus[level]
            least_plus, least_minus = (math.sqrt(a * v) / 2 for v in (v_plus, v_minus))
            floored = np.maximum(h_plus, least_plus) * np.maximum(h_minus, least_minus)
            below_plus, below_minus = (side[level + 1].reshape(-1, 2) for side in (plus, minus))
            stop = active & (floored < threshold)
            go = active & ~stop
            product(below_plus[stop].sum(axis=1), below_minus[stop].sum(axis=1), 2, 0.5)
            product(below_plus[go, 1], below_minus[go, 0], 1, 1.0)
            active = np.repeat(go, 2)
        above = variance
        product(plus[-1][active], minus[-1][active], 1, 0.5)
        return AucEstimate(
            total / pairs,
            self.error_bound(positives, negatives),
            math.sqrt(variance) / pairs,
            float(plus[-1][active] @ minus[-1][active]) / pairs / 2,
            math.sqrt(variance - above) / pairs,
        )


def _transform(values: Floats) -> Floats:
    """Return Σ_j values_j·H[j, p] for every p: the fast Walsh-Hadamard transform, O(m log m)."""
    size = len(values)
    half = 1
    while half < size:
        pairs = values.reshape(-1, 2, half)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(size)
        half *= 2
    return values

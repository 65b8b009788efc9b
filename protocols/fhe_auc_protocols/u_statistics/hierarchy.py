"""The AUC from two noisy hierarchical histograms, one for each class ([USTAT] §4).

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

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.special_functions import root
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.exact_sampling import Source
from fhe_auc_protocols.option_values import checked_epsilon
from fhe_auc_protocols.u_statistics.auc_estimate import AucEstimate, Floats, Integers, Mechanism

MAX_DEPTH = 20


class HadamardTree:
    """The oracle of depth α, 1 to 20, leaves [0, 2^α), ε from 0.000001 to 32; else it raises `InputError`."""

    def __init__(self, depth: int, epsilon: float) -> None:
        if not 1 <= depth <= MAX_DEPTH:
            raise InputError(f"alpha, the depth of the tree, must lie between 1 and {MAX_DEPTH}, got {depth}")
        self.depth = depth
        self._flipped_below = exact_sampling.threshold(1, 1, checked_epsilon(epsilon))
        # 1 / (1 - 2 P[flip]), from the probability that is really used, 2^-64 · below, and without cancellation.
        self.scale = 2**63 / (2**63 - self._flipped_below)

    @property
    def constant(self) -> float:
        """C of theorem 3: Var[ĥ_p] <= C·n·α."""
        return self.scale**2

    def variance_bound(self, users: int) -> float:
        """Return v = C·n·α."""
        return self.constant * users * self.depth

    @property
    def tally_shape(self) -> tuple[int, int]:
        """Shape of a tally: (2, 2^(α+1))."""
        return 2, 2 << self.depth

    def tally(self, leaves: Integers, source: Source) -> Integers:
        """Randomise a report for each of n users with these leaves, shape (n,), as each does on its own device.

        Returns how many plus, then minus signs there are at 2^level + row, shape `tally_shape`; tallies add up. The
        source is `exact_sampling.secure` where it protects someone. Raises `InputError` for a leaf out of range.
        """
        if len(leaves) and not 0 <= leaves.min() <= leaves.max() < 2**self.depth:
            raise InputError(f"leaves must lie in [0, 2^{self.depth})")
        level = 1 + exact_sampling.integers(source, self.depth, len(leaves))
        # A power of two: masking a uniform integer leaves it uniform.
        row = exact_sampling.integers(source, 2**MAX_DEPTH, len(leaves)) & ((1 << level) - 1)
        flipped = exact_sampling.choose(source, self._flipped_below, len(leaves))
        minus = _odd(row & (leaves >> (self.depth - level))) ^ flipped
        size = self.tally_shape[1]
        position = minus * size + (1 << level) + row
        return np.bincount(position, minlength=2 * size).reshape(2, size).astype(np.int64)

    def estimate(self, tally: Integers) -> list[Floats]:
        """Return the unbiased node estimates ĥ, for levels 0 … α, of shape (2^level,); level 0 is n, exactly."""
        signs = (tally[0] - tally[1]).astype(float)
        levels = [np.array([float(tally.sum())])]
        for level in range(1, self.depth + 1):
            levels.append(self.depth * self.scale * _transform(signs[1 << level : 2 << level]))
        return levels


def _odd(values: Integers) -> NDArray[np.bool_]:
    """Return whether the number of ones in each value below 2^32 is odd."""
    folded = values
    for shift in (16, 8, 4, 2, 1):
        folded = folded ^ (folded >> shift)
    return (folded & 1).astype(bool)


def _transform(values: Floats) -> Floats:
    """Return Σ_j values_j·H[j, p] for every p: the fast Walsh-Hadamard transform, O(m log m)."""
    size = len(values)
    half = 1
    while half < size:
        pairs = values.reshape(-1, 2, half)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(size)
        half *= 2
    return values


class HierarchyMechanism(Mechanism):
    """One-bit reports on a tree of that depth, whose first leaves are the bins; errors as `HadamardTree`."""

    def __init__(self, depth: int, epsilon: float, bins: int) -> None:
        self.tree, self.bins = HadamardTree(depth, epsilon), bins
        self.size = math.prod(self.tree.tally_shape)

    def tally(self, bins: Integers, source: Source) -> Integers:
        """Return the counts of what users in these bins report, shape (size,)."""
        return self.tree.tally(bins, source).ravel()

    def estimate(self, positives: Integers, negatives: Integers) -> AucEstimate:
        """Return the recursive estimate, and the binning error of pairs that reach a leaf together."""
        method = HierarchicalAuc(self.tree, *(int(tally.sum()) for tally in (positives, negatives)))
        return method.estimate(*(tally.reshape(self.tree.tally_shape) for tally in (positives, negatives)))


class HierarchicalAuc:
    """The protocol for n⁺ and n⁻ users, which are public, at least one of each class.

    `a`, above 1, which says where to discard, makes theorem 3's bound smallest.
    """

    def __init__(self, tree: HadamardTree, positives: int, negatives: int) -> None:
        self.tree = tree
        self.positives, self.negatives = positives, negatives
        # Of theorem 3's expression a is in 4a·min(n⁺, n⁻) + 21 √(2nC) s/(s - 1), s = √a: smallest at s (s - 1)² = c.
        c = 21 * math.sqrt(2 * (positives + negatives) * tree.constant) / (8 * min(positives, negatives))
        self.a = root(lambda s: s * (s - 1) ** 2 - c, 1.0, 1 + math.sqrt(c)) ** 2

    def error_bound(self) -> float:
        """Return `theorem_3` with this `a`, a mean squared error; NaN where the theorem's condition α <= √n fails."""
        if self.tree.depth**2 > self.positives + self.negatives:
            return math.nan
        return self.theorem_3(self.a)

    def theorem_3(self, a: float) -> float:
        """Return theorem 3's expression for the mean squared error of the AUC, given the users' scores; a > 1.

        C n⁺n⁻ α² (2n + (4a + 1) min(n⁺, n⁻) + 21 √(2nCa) / (√a - 1)) / (n⁺n⁻)², with the C of `HadamardTree`. The
        theorem's levels are independent, those of `HadamardTree` nearly so: a formula that measured errors stay below,
        not a proof.
        """
        n, c = self.positives + self.negatives, self.tree.constant
        discarded = (4 * a + 1) * min(self.positives, self.negatives)
        terms = 2 * n + discarded + 21 * math.sqrt(2 * n * c * a) / (math.sqrt(a) - 1)
        return c * self.tree.depth**2 * terms / (self.positives * self.negatives)

    def estimate(self, positive_tally: Integers, negative_tally: Integers) -> AucEstimate:
        """Return the AUC from the sums of both classes' tallies, each of shape `HadamardTree.tally_shape`."""
        return self.recurse(self.tree.estimate(positive_tally), self.tree.estimate(negative_tally))

    def recurse(self, plus: Sequence[Floats], minus: Sequence[Floats], *, discard: bool = True) -> AucEstimate:
        """Return the AUC from two histograms, (2^level,) at each level 0 … α; `discard=False` recurses on all nodes.

        Standard errors are roots of Σ v⁺(h⁻)² + v⁻(h⁺)² + v⁺v⁻ over the products added up, which are of uncorrelated
        factors, with max(ĥ² - v, 0) for h²; what discarding shifts is not in them.
        """
        v_plus, v_minus = (self.tree.variance_bound(n) for n in (self.positives, self.negatives))
        threshold = self.a * math.sqrt(v_plus * v_minus) if discard else -math.inf
        total = variance = 0.0
        pairs = self.positives * self.negatives

        def product(left: Floats, right: Floats, nodes: int, weight: float) -> None:
            """Add left·right to the total; each is a sum of estimates of so many nodes."""
            nonlocal total, variance
            v, w = nodes * v_plus, nodes * v_minus
            total += weight * float(left @ right)
            spread = v * np.maximum(right**2 - w, 0) + w * np.maximum(left**2 - v, 0) + v * w
            variance += weight**2 * float(spread.sum())

        # Nodes of this level that have not been discarded, nor have their ancestors.
        active: NDArray[np.bool_] = np.ones(1, bool)
        for level in range(self.tree.depth):
            h_plus, h_minus = plus[level], minus[level]
            least_plus, least_minus = (math.sqrt(self.a * v) / 2 for v in (v_plus, v_minus))
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
            self.error_bound(),
            math.sqrt(variance) / pairs,
            float(plus[-1][active] @ minus[-1][active]) / pairs / 2,
            math.sqrt(variance - above) / pairs,
        )

"""The AUC from two noisy hierarchical histograms, one for each class ([USTAT] §4).

Scores are leaves s in [0, 2^α), classes are public. h_p counts a class's users under node p. Without noise

    UAUC(p) = h⁺_{p1}·h⁻_{p0} + UAUC(p0) + UAUC(p1)          AUC = UAUC(root) / (n⁺ n⁻)

With unbiased estimates ĥ of variance at most v = C n α, a > 1, h̃ = max(ĥ, √(a·v)/2) and τ = a √(v⁺v⁻), a node with
h̃⁺h̃⁻ < τ is discarded: what lies under it is taken as ½ (Σ ĥ⁺ of its children)(Σ ĥ⁻ of its children), as if half of
its pairs were in order. Any other node is recursed on.

At a leaf the paper has 0, which counts ties as lost. Here it is ½ ĥ⁺ĥ⁻, the treatment of a discarded node: ties then
count half, as everywhere in this project. The products are of estimates from different users, hence unbiased; what is
biased is discarding. Epsilon, of scores alone, is spent once: classes report into different histograms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import UndefinedAucError
from fhe_auc.base.numerics import root
from fhe_auc_protocols.exact_sampling import Source
from fhe_auc_protocols.u_statistics.auc_estimate import AucEstimate, Floats, Integers, Mechanism
from fhe_auc_protocols.u_statistics.hadamard import HadamardTree


class HierarchyMechanism(Mechanism):
    """One-bit reports on a tree of that depth, whose first leaves are the bins; errors as `HadamardTree`."""

    def __init__(self, depth: int, epsilon: float, bins: int) -> None:
        self.tree, self.bins = HadamardTree(depth, epsilon), bins
        self.size = math.prod(self.tree.tally_shape)

    def tally(self, bins: Integers, source: Source) -> Integers:
        """Return the counts of what users in these bins report, shape (size,)."""
        return self.tree.tally(self.tree.randomise(bins, source)).ravel()

    def estimate(self, positives: Integers, negatives: Integers) -> AucEstimate:
        """Return the recursive estimate, and the binning error of pairs that reach a leaf together."""
        method = HierarchicalAuc(self.tree, *(int(tally.sum()) for tally in (positives, negatives)))
        return method.estimate(*(tally.reshape(self.tree.tally_shape) for tally in (positives, negatives)))


class HierarchicalAuc:
    """The protocol for n⁺ and n⁻ users, which are public, at least one of each class.

    `a`, above 1, which says where to discard, makes theorem 3's bound smallest.

    Raises `UndefinedAucError`: a class is empty.
    """

    def __init__(self, tree: HadamardTree, positives: int, negatives: int) -> None:
        if positives < 1 or negatives < 1:
            missing = "positive" if positives < 1 else "negative"
            raise UndefinedAucError(f"there is no {missing} user, so there is no AUC")
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

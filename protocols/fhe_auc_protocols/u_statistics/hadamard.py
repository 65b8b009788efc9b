"""A one-bit frequency oracle for the nodes of a binary tree: level sampling, then Hadamard response.

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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.exact_sampling import Source
from fhe_auc_protocols.option_values import checked_epsilon
from fhe_auc_protocols.u_statistics.auc_estimate import Floats, Integers

MAX_DEPTH = 20


class Reports(NamedTuple):
    """What users send, each of shape (n,): level 1 … α, row in [0, 2^level), and whether the sign is minus."""

    level: Integers
    row: Integers
    minus: NDArray[np.bool_]


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

    def randomise(self, leaves: Integers, source: Source) -> Reports:
        """Return what n users with these leaves, shape (n,), report: what each does on its own device.

        The source is `exact_sampling.secure` where it protects someone. Raise `InputError` for a leaf out of range.
        """
        if len(leaves) and not 0 <= leaves.min() <= leaves.max() < 2**self.depth:
            raise InputError(f"leaves must lie in [0, 2^{self.depth})")
        level = 1 + exact_sampling.integers(source, self.depth, len(leaves))
        # A power of two: masking a uniform integer leaves it uniform.
        row = exact_sampling.integers(source, 2**MAX_DEPTH, len(leaves)) & ((1 << level) - 1)
        flipped = exact_sampling.choose(source, self._flipped_below, len(leaves))
        return Reports(level, row, _odd(row & (leaves >> (self.depth - level))) ^ flipped)

    @property
    def tally_shape(self) -> tuple[int, int]:
        """Shape of a tally: (2, 2^(α+1))."""
        return 2, 2 << self.depth

    def tally(self, reports: Reports) -> Integers:
        """Return how many plus, then minus signs there are at 2^level + row, shape `tally_shape`; tallies add up."""
        size = self.tally_shape[1]
        position = reports.minus * size + (1 << reports.level) + reports.row
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

"""Hierarchical counts under local differential privacy: users split over levels.  [FCE] §2.3.

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023.

Each user picks one of h levels at random, whatever its value, and sends one report there: optimised unary encoding over
the 2^k segments of level k (`fhe_auc_protocols.histograms.unary_encoding`), with the whole of ε. A level's n_k reports are of a random
sample of the n users, so n/n_k times their estimate is unbiased, given n_k, for the rows of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.errors import EvaluationError, InputError
from fhe_auc_protocols.histograms.hierarchical_counts import MAX_HEIGHT, HierarchicalCounts
from fhe_auc_protocols.histograms.unary_encoding import NO_VALUE, UnaryEncoding
from fhe_auc_protocols.u_statistics import randomness
from fhe_auc_protocols.u_statistics.randomness import Source

__all__ = ["LevelTally", "UnaryHierarchy"]


class LevelTally(NamedTuple):
    """Reports on one level: how many, and with each bit set, shape (2^k,). Those of several parties add up."""

    reports: int
    ones: NDArray[np.int64]


class UnaryHierarchy:
    """One report a user, on a level of its own choice.

    Parameters
    ----------
    height : int
        Number of levels h, 1 to 20.
    epsilon : float
        Budget of one user's report, in (0, 32].

    Raises
    ------
    InputError
        The height or the budget is out of range.
    """

    def __init__(self, height: int, epsilon: float) -> None:
        if not 1 <= height <= MAX_HEIGHT:
            raise InputError(f"the height of a hierarchy must be from 1 to {MAX_HEIGHT}, not {height}")
        self._levels = tuple(UnaryEncoding(2**k, epsilon) for k in range(1, height + 1))

    def tallies(self, cells: NDArray[np.int64], source: Source) -> list[LevelTally]:
        """Randomise users in these segments of the lowest level (`fhe_auc_protocols.histograms.hierarchical_counts.cells`), or with `NO_VALUE`."""
        chosen = randomness.integers(source, len(self._levels), len(cells))
        found = []
        for level, encoding in enumerate(self._levels):
            mine = cells[chosen == level]
            segments = np.where(mine == NO_VALUE, NO_VALUE, mine >> (len(self._levels) - 1 - level))
            found.append(LevelTally(len(mine), encoding.tally(segments, source)))
        return found

    def estimate(self, pooled: Sequence[LevelTally]) -> HierarchicalCounts:
        """Return unbiased estimates of all users' counts on every level; they do not agree between levels.

        Raises
        ------
        EvaluationError
            Nobody has reported on some level.
        """
        users = sum(tally.reports for tally in pooled)
        if not all(tally.reports for tally in pooled):
            raise EvaluationError("no user has reported on some level; there are too few users for so many levels")
        return HierarchicalCounts(
            tuple(
                encoding.estimate(tally.ones, tally.reports) * (users / tally.reports)
                for encoding, tally in zip(self._levels, pooled, strict=True)
            )
        )

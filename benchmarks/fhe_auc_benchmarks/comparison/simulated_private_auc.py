"""SIMULATED releases of the private AUC of `verified`, for experiments: with seeds, so that they protect nobody.

Shares are drawn as parties draw them (`Privacy.noise`), from a seeded source, and added up; what is released is read as
parties read it. Pads, authenticators and encryption take nothing off and add nothing, so they are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fhe_auc.question.binning import bins_of
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy
from fhe_auc_protocols.exact_auc.epsilon_sums import PrivateReading
from fhe_auc_protocols.exact_sampling import SeededExperiment


class NoiselessRelease(NamedTuple):
    """What is released of a pool, without noise: D, P and T; and how many rows there are."""

    difference: int
    positives: int
    rows: int
    ties: int = 0

    @property
    def auc(self) -> float:
        """The AUC over the thresholds."""
        return 0.5 + self.difference / (2 * self.positives * (self.rows - self.positives))


def pool_of(
    labels: NDArray[np.bool_], scores: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> NoiselessRelease:
    """Return that of rows, by scikit-learn's AUC of the bins: independent of the engine."""
    positives = int(labels.sum())
    bins = bins_of(scores, thresholds)
    difference = round(2 * (roc_auc_score(labels, bins) - 0.5) * positives * (len(labels) - positives))
    p, n = (np.bincount(bins[side], minlength=len(thresholds)) for side in (labels, ~labels))
    return NoiselessRelease(difference, positives, len(labels), int(p @ n))


def budget(rows: int, parties: int, epsilon: float, unit: str) -> Privacy:
    """Return the budget of a session in which all of so many parties, with about equally many rows, must take part."""
    sizes = tuple(len(part) for part in np.array_split(np.empty(rows), parties))
    return Privacy(epsilon=epsilon, unit=unit, rows=sizes, models=1, shares=max(1, parties - 1))  # type: ignore[arg-type]


def exact(pool: NoiselessRelease, privacy: Privacy) -> NDArray[np.int64]:
    """Return what would be released without noise, shape (channels,)."""
    of_pairs = ((0 if each.model is None else pool.ties if each.ties else pool.difference) for each in privacy.channels)
    return np.array([own + each.weight * pool.positives for own, each in zip(of_pairs, privacy.channels, strict=True)])


def releases(
    pool: NoiselessRelease, privacy: Privacy, *, runs: int, random: np.random.Generator, parties: int | None = None
) -> NDArray[np.int64]:
    """Return what so many sessions release, shape (runs, channels); with shares of all parties, or of only so many."""
    present = len(privacy.rows) if parties is None else parties
    shares = privacy.noise(runs * present, SeededExperiment(random)).reshape(runs, present, -1)
    return np.asarray(shares.sum(axis=1) + exact(pool, privacy))


def aucs(released: NDArray[np.int64], privacy: Privacy) -> NDArray[np.float64]:
    """Return AUC' of each release, shape (runs,), as parties read it."""
    return np.array([read(each, privacy).headline().auc for each in released.tolist()])


def read(released: Sequence[int], privacy: Privacy, level: float | None = None) -> PrivateReading:
    """Return what a party makes of one release."""
    return PrivateReading(privacy, ("model",), released, privacy.rows, level)

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
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy, PrivateReading
from fhe_auc_protocols.exact_sampling import SeededExperiment


class NoiselessRelease(NamedTuple):
    """What is released of a pool, without noise: D and P; and how many rows there are."""

    difference: int
    positives: int
    rows: int

    @property
    def auc(self) -> float:
        """The AUC over the thresholds."""
        return 0.5 + self.difference / (2 * self.positives * (self.rows - self.positives))


def pool_of(
    labels: NDArray[np.bool_], scores: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> NoiselessRelease:
    """Return that of rows, by scikit-learn's AUC of the bins: independent of the engine."""
    positives = int(labels.sum())
    auc = roc_auc_score(labels, bins_of(scores, thresholds))
    return NoiselessRelease(round(2 * (auc - 0.5) * positives * (len(labels) - positives)), positives, len(labels))


def budget(rows: int, parties: int, epsilon: float, unit: str) -> Privacy:
    """Return the budget of a session in which all of so many parties, with about equally many rows, must take part."""
    sizes = tuple(len(part) for part in np.array_split(np.empty(rows), parties))
    return Privacy(epsilon=epsilon, unit=unit, rows=sizes, models=1, shares=max(1, parties - 1))  # type: ignore[arg-type]


def exact(pool: NoiselessRelease, privacy: Privacy) -> NDArray[np.int64]:
    """Return what would be released without noise, shape (channels,)."""
    return np.array(
        [(0 if each.model is None else pool.difference) + each.weight * pool.positives for each in privacy.channels]
    )


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

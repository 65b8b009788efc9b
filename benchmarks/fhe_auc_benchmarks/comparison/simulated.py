"""SIMULATED noise for experiments: fast, seeded, protecting nobody. Sessions use `fhe_auc_protocols.opendp_samplers`.

**[DPAUC]**: the sums of many runs at once, from the pooled exact counts. That is enough, because noise does not depend
on what it is added to: only the sum over the K parties matters, and its law is known.

    Laplace    a Laplace variable is the difference of two exponentials, and K exponentials add up to a Gamma(K):
               the sum of K parties' noise is scale · (Gamma(K) − Gamma(K))
    Gaussian   σ √K times a standard Gaussian
    flips      of the rows in a bin, Binomial(rows, ρ) change their label, whoever has them

numpy draws continuous noise; the real Laplace noise is discrete, and the real Gaussian noise rounded to integers. For
scales above 1 that changes a variance by less than 1/6: by 0.3 % at most in the settings of the paper.

**The private AUC of `verified`**: shares are drawn as parties draw them (`Privacy.noise`), and added up; what is
released is read as parties read it. Pads, authenticators and encryption change nothing, and are left out.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fhe_auc.question.score_bins import bins_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.dpauc.budget import LAPLACE, Budget
from fhe_auc_protocols.dpauc.roc import estimate, statistics_of_bins
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy
from fhe_auc_protocols.exact_auc.epsilon_sums import PrivateReading
from fhe_auc_protocols.exact_sampling import SeededExperiment
from fhe_auc_protocols.u_statistics.mechanisms import Mechanism
from fhe_auc_protocols.u_statistics.pairs import matched
from fhe_auc_protocols.u_statistics.sessions import PrivateScores, merged_bins


def dpauc_sums(
    counts: NDArray[np.int64], budget: Budget, *, parties: int, runs: int, random: np.random.Generator
) -> NDArray[np.float64] | NDArray[np.int64]:
    """Return the noisy sums of so many sessions, shape (runs, 4, m).

    From exact counts of all rows together, shape (4, m) (`dpauc.roc.statistics`), for a budget without `score_epsilon`.
    So many parties hold the rows, however these are dealt out.
    """
    shape = (runs, *counts.shape)
    if budget.flips:
        with_rest = np.concatenate([counts[2:], counts[:2, :1] + counts[2:, :1]], axis=-1)
        bins = np.diff(with_rest, axis=-1, prepend=0)  # of rows of either label
        leaving = random.binomial(bins, budget.flip_probability, (runs, *bins.shape))
        return statistics_of_bins(bins - leaving + leaving[:, ::-1])
    if budget.mechanism == LAPLACE:
        noise = random.standard_gamma(parties, shape) - random.standard_gamma(parties, shape)
    else:
        noise = np.sqrt(parties) * random.standard_normal(shape)
    return np.asarray(counts + budget.noise_scale * noise)


def estimated(sums: NDArray[np.float64] | NDArray[np.int64], budget: Budget) -> NDArray[np.float64]:
    """Return the AUCs of noisy sums, shape (..., 4, m), of a session with this budget."""
    flipped = budget.flip_probability if budget.flips else None
    return np.clip(estimate(sums.astype(np.float64), budget.curve, flip_probability=flipped), 0.0, 1.0)


class Pool(NamedTuple):
    """What `verified` releases of all rows, without noise: D and P; and how many rows there are."""

    difference: int
    positives: int
    rows: int
    ties: int

    @classmethod
    def of(cls, labels: NDArray[np.bool_], scores: NDArray[np.float64], thresholds: NDArray[np.float64]) -> "Pool":
        """Return that of rows, by scikit-learn's AUC of the bins: independent of the engine."""
        positives, bins = int(labels.sum()), bins_of(scores, thresholds)
        difference = round(2 * (roc_auc_score(labels, bins) - 0.5) * positives * (len(labels) - positives))
        p, n = (np.bincount(bins[side], minlength=len(thresholds)) for side in (labels, ~labels))
        return cls(difference, positives, len(labels), int(p @ n))

    @property
    def auc(self) -> float:
        """The AUC over the thresholds."""
        return 0.5 + self.difference / (2 * self.positives * (self.rows - self.positives))

    def released(self, privacy: Privacy) -> NDArray[np.int64]:
        """Return what would be released without noise, shape (channels,)."""
        sums = [0 if own.model is None else self.ties if own.ties else self.difference for own in privacy.channels]
        return np.array([own + each.weight * self.positives for own, each in zip(sums, privacy.channels, strict=True)])


def private_budget(rows: int, parties: int, epsilon: float, unit: str) -> Privacy:
    """Return the budget of a session in which all of so many parties, with about equally many rows, must take part."""
    sizes = tuple(len(part) for part in np.array_split(np.empty(rows), parties))
    return Privacy(epsilon=epsilon, unit=unit, rows=sizes, models=1, shares=max(1, parties - 1))  # type: ignore[arg-type]


def private_aucs(pool: Pool, privacy: Privacy, *, runs: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return AUC' of so many sessions, shape (runs,), as parties read it."""
    parties = len(privacy.rows)
    shares = privacy.noise(runs * parties, SeededExperiment(random)).reshape(runs, parties, -1)
    return read_aucs(shares.sum(axis=1) + pool.released(privacy), privacy)


def read_aucs(released: NDArray[np.int64], privacy: Privacy) -> NDArray[np.float64]:
    """Return AUC' of each release, shape (runs, channels), as parties read it."""
    return np.array(
        [
            PrivateReading(privacy, ("model",), own, privacy.parties, privacy.total, None).estimates()[0].auc
            for own in released.tolist()
        ]
    )


def score_aucs(
    plugin: PrivateScores[Any], rows: PartyData, grid: NDArray[np.float64], epsilon: float, random: np.random.Generator
) -> tuple[NDArray[np.int64], Iterator[float]]:
    """Return each row's bin in a `ustat-…` session, and AUCs of sessions without end, whose law is the real roles'."""
    request = Request(parties=("all",), thresholds=grid, min_rows=rows.rows, options={"epsilon": epsilon})
    manifest = plugin.prepare(request).manifest
    terms, source = plugin.checked(manifest), SeededExperiment(random)
    bins = merged_bins(rows, manifest, terms.bins)
    classes = bins[rows.y_true], bins[~rows.y_true]

    def drawn() -> float:
        if isinstance(terms, Mechanism):
            return terms.auc(*(terms.tally(own, source) for own in classes)).auc
        pairs = matched(random.bytes(16), [(len(classes[0]), len(classes[1]))], terms.pairings)
        order = np.sign(classes[0][pairs.positive] - classes[1][pairs.negative])
        answers = (order + 1 + random.choice(terms.response.table, len(order))) % 3
        auc: float = terms.response.auc(np.bincount(answers, minlength=3)).auc
        return auc

    return bins, (min(max(drawn(), 0.0), 1.0) for _ in itertools.count())

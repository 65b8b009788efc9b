"""Sets of scores on which private curves are measured, and a whole private histogram of them by the law of its noise.

The noise is numpy's, drawn from its law at once: quick, and it protects nobody.

    python -m tests.support.private_sets        prints how near curves and areas come to those of the rows
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.metrics.histogram import Histogram, rising
from fhe_auc.metrics.private_curves import CountNoise, RocFit
from fhe_auc.question.thresholds import cell_starts
from fhe_auc.rows import datasets

Array = NDArray[np.float64]
RATES = np.linspace(0, 1, 20001)
PARTIES, SHARES = 10, 9  # one party may not be counted on
_HEIGHT, _BRANCHES, _LEVELS = 10, 4, 5


@dataclass(frozen=True)
class Population:
    """Scores of `rows` rows, `positives` of them positive on average: logistic of `centre` + `slope`·x.

    x of either label is a mixture of laws: (share, scipy's law), so that rates are known.
    """

    name: str
    rows: int
    positives: int
    ones: tuple[tuple[float, Any], ...]
    zeros: tuple[tuple[float, Any], ...]
    centre: float
    slope: float = 0.8

    def scores(self, random: np.random.Generator) -> tuple[NDArray[np.bool_], Array]:
        """Draw labels, exactly so many of them 1, and scores; the issue's four sets are those of seed 7."""
        drawn = []
        for laws, size in ((self.ones, self.positives), (self.zeros, self.rows - self.positives)):
            of_all = [law.rvs(size=size, random_state=random) for _, law in laws]
            which = random.choice(len(laws), size, p=[share for share, _ in laws]) if len(laws) > 1 else 0
            drawn.append(np.choose(which, of_all))
        labels = np.arange(self.rows) < self.positives
        return labels, _logistic(self.centre + self.slope * np.concatenate(drawn))

    def _above(self, laws: tuple[tuple[float, Any], ...], x: Array) -> Array:
        return np.asarray(sum(share * law.sf(x) for share, law in laws))

    @property
    def cells(self) -> Array:
        """Probabilities of label and cell, shape (2, 1024)."""
        starts = cell_starts(_HEIGHT)[1:]
        x = np.concatenate(([-np.inf], (np.log(starts / (1 - starts)) - self.centre) / self.slope, [np.inf]))
        share = self.positives / self.rows
        return np.stack([-np.diff(self._above(laws, x)) for laws in (self.ones, self.zeros)]) * [[share], [1 - share]]

    def truth(self) -> tuple[Array, Array]:
        """Return false and true positive rates at many places."""
        x = np.linspace(-60, 60, 240_001)[::-1]
        return self._above(self.zeros, x), self._above(self.ones, x)


@dataclass(frozen=True)
class Data:
    """The rows of a data set that comes with the package, and, drawn from these again and again, a population."""

    name: str
    labels: NDArray[np.bool_]
    of_rows: Array

    @property
    def rows(self) -> int:
        return len(self.labels)

    @property
    def positives(self) -> int:
        return int(self.labels.sum())

    def scores(self, random: np.random.Generator) -> tuple[NDArray[np.bool_], Array]:
        return self.labels, self.of_rows

    @property
    def cells(self) -> Array:
        return counted(self.labels, self.of_rows) / len(self.labels)

    def truth(self) -> tuple[Array, Array]:
        from sklearn.metrics import roc_curve

        fpr, tpr, _ = roc_curve(self.labels, self.of_rows)
        return fpr, tpr


def of_data(name: str) -> Data:
    """Return a data set of `fhe_auc.rows.datasets`."""
    parties = datasets.load(name)
    return Data(name, *(np.concatenate([getattr(each, side) for each in parties]) for side in ("y_true", "y_score")))


@cache
def populations() -> dict[str, Population]:
    """Return the four of the issue, and others, by name."""
    from scipy.stats import norm, t

    def binormal(rows: int, positives: int, auc: float, centre: float) -> Population:
        law = norm(np.sqrt(2) * norm.ppf(auc))
        return Population(f"{rows:,}", rows, positives, ((1.0, law),), ((1.0, norm()),), centre)

    return {
        each.name: each
        for each in (
            binormal(2_000, 105, 0.723, -3),
            binormal(30_000, 4_053, 0.853, -2),
            binormal(163_673, 40_050, 0.768, -1.2),
            binormal(164_261, 588, 0.647, -5.8),
            Population("heavy tails", 5_000, 500, ((1.0, t(3, 1.2)),), ((1.0, t(3)),), -2),
            Population("two kinds", 20_000, 1_000, ((0.6, norm(2.5)), (0.4, norm())), ((1.0, norm()),), -3),
            Population("unequal spread", 50_000, 10_000, ((1.0, norm(1, 2)),), ((1.0, norm()),), -1),
        )
    }


DATA = "covid-clinics", "credit-default"


def of_name(name: str) -> Population | Data:
    """Return a population, or the rows of a data set as one."""
    return of_data(name) if name in DATA else populations()[name]


def counted(labels: NDArray[np.bool_], scores: Array) -> Array:
    """Return the rows of label 1 and 0 in each cell, shape (2, 1024)."""
    at = np.searchsorted(cell_starts(_HEIGHT), scores, side="right") - 1
    return np.stack([np.bincount(at[side], minlength=2**_HEIGHT) for side in (labels, ~labels)]).astype(float)


def released(cells: Array, epsilon: float, random: np.random.Generator) -> tuple[Histogram, CountNoise] | None:
    """Return a private histogram of rows in cells, shape (2, 1024), at ε for a row replaced, and its noise.

    1 % buys the number of positives, 10 % the edges, the rest the counts. None where noise leaves no rows.
    """

    def noise(scale: float) -> CountNoise:
        p = np.exp(-1 / scale)
        return CountNoise(float(np.sqrt(2 * p * PARTIES / SHARES) / (1 - p)), scale, PARTIES / SHARES)

    rarer = max(float(cells[0].sum() + noise(1 / (0.01 * epsilon)).drawn(random, 1)[0]), 20.0)
    bins = int(np.clip(round(0.5 * np.sqrt(epsilon / 2 * rarer)), 6, 100))
    below = np.cumsum(_tree(cells.sum(axis=0), noise(2 * _LEVELS / (0.1 * epsilon)), random))
    below = np.clip(rising(below, np.ones(len(below))), 0, None)
    if below[-1] <= 0:
        return None
    cuts = np.searchsorted(below, below[-1] * np.arange(1, bins) / bins) + 1
    starts = np.unique(np.append(0, cuts[cuts < cells.shape[1]]))
    law = noise(2 / (0.89 * epsilon))
    counts = np.add.reduceat(cells, starts, axis=1)
    edges = np.append(cell_starts(_HEIGHT)[starts], 1.0)
    return Histogram(edges, *(counts + law.drawn(random, *counts.shape))), law


def _tree(counts: Array, noise: CountNoise, random: np.random.Generator) -> Array:
    """Return the leaves of a noisy tree that agrees with itself (Hay, Rastogi, Miklau, Suciu, PVLDB 3, 2010)."""
    sizes = [_BRANCHES ** (level + 1) for level in range(_LEVELS)]
    levels = [counts.reshape(size, -1).sum(axis=1) + noise.drawn(random, size) for size in sizes]
    for above in range(_LEVELS - 2, -1, -1):
        share = (_BRANCHES - 1) * _BRANCHES ** (_LEVELS - above - 1) / (_BRANCHES ** (_LEVELS - above) - 1)
        sums = levels[above + 1].reshape(-1, _BRANCHES).sum(axis=1)
        levels[above] = share * levels[above] + (1 - share) * sums
    for above in range(_LEVELS - 1):
        off = levels[above] - levels[above + 1].reshape(-1, _BRANCHES).sum(axis=1)
        levels[above + 1] = levels[above + 1] + np.repeat(off / _BRANCHES, _BRANCHES)
    return levels[-1]


@dataclass(frozen=True)
class Curves:
    """What is true of rows or a population: rates at `RATES`, and the areas."""

    tpr: Array
    precision: Array  # at RATES[1:] as recalls
    auc: float
    average_precision: float


def of_rows(labels: NDArray[np.bool_], scores: Array) -> Curves:
    """Return the curves of rows, by scikit-learn."""
    from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

    fpr, tpr, _ = roc_curve(labels, scores, drop_intermediate=False)
    precision, recall, _ = precision_recall_curve(labels, scores)
    return Curves(
        np.interp(RATES, fpr, tpr),
        np.interp(RATES[1:], recall[::-1], precision[::-1]),
        float(roc_auc_score(labels, scores)),
        float(average_precision_score(labels, scores)),
    )


def of_population(population: Population | Data) -> Curves:
    """Return the curves of a population."""
    fpr, tpr = population.truth()
    share = population.positives / population.rows
    recall = (np.arange(20_000) + 0.5) / 20_000

    def precision(at: Array) -> Array:
        return at * share / (at * share + np.interp(at, tpr, fpr) * (1 - share))

    auc = float((np.diff(fpr, append=1) * (tpr + np.append(tpr[1:], 1)) / 2).sum())
    return Curves(np.interp(RATES, fpr, tpr), precision(RATES[1:]), auc, float(precision(recall).mean()))


def errors(name: str, epsilon: float, runs: int, rows_seed: int = 7, noise_seed: int = 38) -> Array:
    """Return mean errors of a set's private curves: of the areas between curves, ROC and PR, of AUC and of AP."""
    labels, scores = of_name(name).scores(np.random.default_rng(rows_seed))
    cells, true, random = counted(labels, scores), of_rows(labels, scores), np.random.default_rng(noise_seed)
    found = list[list[float]]()
    while len(found) < runs:
        if (result := released(cells, epsilon, random)) is None:
            continue
        fit = RocFit.fitted(*result)
        off = (
            *(fit.tpr(RATES) - true.tpr, fit.precision(RATES[1:]) - true.precision),
            *(fit.auc - true.auc, fit.average_precision - true.average_precision),
        )
        found.append([float(np.abs(each).mean()) for each in off])
    return np.mean(found, axis=0)


def _logistic(x: Array) -> Array:
    return np.asarray(np.where(x < 0, np.exp(-np.abs(x)), 1.0) / (1 + np.exp(-np.abs(x))))


if __name__ == "__main__":
    print("| rows, or data | ε | ROC | PR | AUC | AP |\n|---|---|---|---|---|---|")
    for name in (*populations(), *DATA):
        for epsilon in (0.6, 2.0, 6.0):
            print(
                f"| {name} | {epsilon:g} | " + " | ".join(f"{each:.2g}" for each in errors(name, epsilon, 200)) + " |"
            )

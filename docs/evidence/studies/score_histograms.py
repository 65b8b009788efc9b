"""What private score histograms tell, against scikit-learn: the tables of docs/evidence/score-histograms.md.

    python docs/evidence/studies/score_histograms.py [thresholds | sets | calibration | laws] ...

Without a name, all of them. One core, one thread.

Rows: 10^6 made-up ones. *bell*: 30 % positive, scores from Beta(4, 3) and Beta(2, 5). *even*: uniform scores, each
the probability of label 1. *squeezed*: the same with scores 0.05 u^2, u uniform. The bundled sets, as they are.

    thresholds   error of real sessions by thresholds; also with all scores multiplied by 0.05
    sets         error of the AUC, without noise by quantile / by uniform bins, and with it, edges being quantiles from
                 noisy counts of the same rows
    calibration  error of calibrated scores: maps from 10^6 rows, judged on 10^6 others
    laws         how errors fall, as slopes on logarithmic scales, beside [FCE] table 1

Noise is SIMULATED: fast, seeded, and protecting nobody. It is added to exact pooled counts, whoever has the rows: noise
does not depend on what it is added to, and a report only on its row. Budgets: 1 where noise is distributed (numpy's
discrete Laplace law), 5 where it is local (a bit's reports are binomial).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta
from sklearn.metrics import roc_auc_score as exact_auc

from fhe_auc import federated_auc, metrics
from fhe_auc.base.errors import EvaluationError
from fhe_auc.metrics import Histogram
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.comparison.measure import pooled
from fhe_auc_benchmarks.tables import show
from fhe_auc_protocols.histograms.quantile_thresholds import equi_depth_cells
from fhe_auc_protocols.histograms.readout import all_levels
from fhe_auc_protocols.histograms.unary_encoding import UnaryEncoding, UnaryHierarchy

ROWS, RUNS = 10**6, 100
HEIGHT = 10  # of hierarchies that carry distributed noise; local noise 8, none 14
FOR_EDGES = 0.25  # of the budget

Random = np.random.Generator
Levels = Sequence[NDArray[Any]]  # counts of cells of [0, 1], highest level first


def bell(random: Random, size: int = ROWS) -> PartyData:
    labels = random.random(size) < 0.3
    return PartyData.from_arrays("bell", labels, np.where(labels, random.beta(4, 3, size), random.beta(2, 5, size)))


def even(random: Random) -> PartyData:
    return drawn("even", random, random.random(ROWS))


def squeezed(random: Random) -> PartyData:
    return drawn("squeezed", random, 0.05 * random.random(ROWS) ** 2)


def overconfident(random: Random) -> PartyData:
    return drawn("overconfident", random, random.beta(0.8, 0.8, ROWS), unsure)


def unsure(scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of label 1 where scores are too sure of themselves."""
    return 0.25 + 0.5 * scores


def drawn(
    name: str, random: Random, scores: np.ndarray, risk: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> PartyData:
    return PartyData.from_arrays(name, random.random(len(scores)) < risk(scores), scores)


def bundled(name: str) -> PartyData:
    return PartyData.from_arrays(name, *pooled(datasets.load(name)))


# --- Simulated noise --------------------------------------------------------------------------------------------------


def distributed(counts: NDArray[np.int64], epsilon: float, *, runs: int, random: Random) -> NDArray[np.int64]:
    """Return pooled counts with discrete Laplace noise of scale 1/epsilon, shape (runs, *counts.shape)."""
    shape = (runs, *counts.shape)
    return counts + random.geometric(-math.expm1(-epsilon), shape) - random.geometric(-math.expm1(-epsilon), shape)


def distributed_levels(levels: Levels, epsilon: float, random: Random) -> Levels:
    """Return pooled counts of all levels with noise of scale h/epsilon on each."""
    return [distributed(level, epsilon / len(levels), runs=1, random=random)[0] for level in levels]


def local(counts: NDArray[np.int64], epsilon: float, *, runs: int, random: Random) -> NDArray[np.float64]:
    """Return estimates of the counts from one report a row over all cells, shape (runs, *counts.shape)."""
    encoding = UnaryEncoding(counts.size, epsilon)
    tallies = unary_tallies(encoding, counts.ravel(), runs=runs, random=random)
    return encoding.estimate(tallies, int(counts.sum())).reshape(runs, *counts.shape)


def local_levels(levels: Levels, epsilon: float, random: Random) -> Levels:
    """Return estimates of the counts of all levels from one report a row, on a level of the row's choice."""
    height = len(levels)
    chosen = random.multinomial(levels[-1], [1 / height] * height)  # of each cell
    tallies = []
    for k in range(1, height + 1):
        own = chosen[:, k - 1].reshape(2**k, -1).sum(axis=1)
        ones = unary_tallies(UnaryEncoding(2**k, epsilon), own, runs=1, random=random)[0]
        tallies.append((int(own.sum()), ones))
    return UnaryHierarchy(height, epsilon, 2**height).estimate(*zip(*tallies, strict=True))


def unary_tallies(
    encoding: UnaryEncoding, counts: NDArray[np.int64], *, runs: int, random: Random
) -> NDArray[np.int64]:
    """Draw tallies, (runs, d), of the law of `UnaryEncoding.tally`, of so many users in each cell, (d,).

    A bit is set by Binomial(c_v, 1/2) + Binomial(n − c_v, q) of the n reports, independently.
    """
    others, shape = int(counts.sum()) - counts, (runs, encoding.cells)
    return random.binomial(counts, 0.5, shape) + random.binomial(others, encoding.flip_probability, shape)


class Model(NamedTuple):
    """How noise is drawn, the budget, and the height of the hierarchy that finds edges."""

    draw: Callable[..., np.ndarray]
    draw_levels: Callable[..., Levels]
    epsilon: float
    height: int


MODELS = {
    "distributed": Model(distributed, distributed_levels, 1.0, HEIGHT),
    "local": Model(local, local_levels, 5.0, 8),
}


def noisy(bins: Histogram, model: str, random: Random) -> Histogram:
    """Return the histogram as the parties would have it; exact if the model is "federated"."""
    if model == "federated":
        return bins
    draw, _, epsilon, _ = MODELS[model]
    return Histogram(bins.edges, *draw(by_label(bins), epsilon, runs=1, random=random)[0])


def by_label(histogram: Histogram) -> np.ndarray:
    return np.stack([histogram.positives, histogram.negatives]).astype(np.int64)


def equal_bins(data: PartyData, height: int) -> Histogram:
    return Histogram.from_rows(data, np.arange(2**height + 1) / 2**height)


# --- Error of the AUC -------------------------------------------------------------------------------------------------


def thresholds() -> None:
    grids = ("uniform:200", "hybrid:1000", "quantile:200")

    def errors(name: str, factor: float) -> list[object]:
        loaded = datasets.load(name)
        parties = [PartyData.from_arrays(each.name, each.y_true, each.y_score * factor) for each in loaded]
        found = [federated_auc(parties, protocol="malicious", thresholds=grid) for grid in grids]
        off = [f"{abs(each.auc - exact_auc(*pooled(parties))):.1e}" for each in found]
        return [f"{name}{'' if factor == 1 else f' × {factor}'}", *off, found[-1].thresholds]

    show(["data", *grids, "thresholds found"], starmap(errors, product(datasets.NAMES, (1.0, 0.05))))


def quantile_edges(levels: Levels, bins: int) -> np.ndarray:
    return np.append(equi_depth_cells(levels, bins) / 2 ** len(levels), 1.0)


class CountedRows:
    """Rows, counted in the lowest segments of a hierarchy, and their AUC."""

    def __init__(self, data: PartyData, height: int = HEIGHT) -> None:
        self.data = data
        self.height = height
        self.auc = float(exact_auc(data.y_true, data.y_score))
        self.lowest = by_label(equal_bins(data, height))  # (2, 2^height)
        self.levels = all_levels(self.lowest.sum(axis=0), height)

    def counts(self, edges: np.ndarray) -> np.ndarray:
        """Return rows of each label between edges, which are multiples of the lowest segment."""
        return np.add.reduceat(self.lowest, (edges[:-1] * 2**self.height).astype(int), axis=1)

    def quantile_bins(self, bins: int) -> Histogram:
        edges = quantile_edges(self.levels, bins)
        return Histogram(edges, *self.counts(edges))

    def private_bins(self, bins: int, model: str, random: Random) -> Histogram:
        """Spend a quarter of the budget on the edges, the rest on the counts."""
        draw, draw_levels, epsilon, height = MODELS[model]
        edges = quantile_edges(draw_levels(self.levels[:height], epsilon * FOR_EDGES, random), bins)
        return Histogram(edges, *draw(self.counts(edges), epsilon * (1 - FOR_EDGES), runs=1, random=random)[0])

    def error(self, histogram: Histogram) -> float:
        """Return the distance of the AUC from that of the rows; NaN where noise leaves a class no row."""
        try:
            return abs(metrics.roc_auc_score(histogram).value - self.auc)
        except EvaluationError:
            return math.nan

    def private_errors(self, bins: int, model: str, random: Random, runs: int = RUNS) -> np.ndarray:
        return np.array([self.error(self.private_bins(bins, model, random)) for _ in range(runs)])


def cell(errors: np.ndarray) -> str:
    missing = int(np.isnan(errors).sum())
    none = f", none in {missing} of {len(errors)}" if missing else ""
    return f"{np.nanmean(errors):.1e} (≤ {np.nanmax(errors):.1e}{none})"


def sets() -> None:
    random = np.random.default_rng(1)
    rows = [*(make(random) for make in (bell, even, squeezed)), *map(bundled, datasets.NAMES)]

    def by_bins(data: PartyData) -> list[str]:
        pool, cells = CountedRows(data, 14), []
        for bins in (100, 200):
            uniform = Histogram.from_rows(data, np.linspace(0, 1, bins + 1))
            cells.append(f"{pool.error(pool.quantile_bins(bins)):.1e} / {pool.error(uniform):.1e}")
        return [data.name, *cells]

    def by_noise(pool: CountedRows, bins: int) -> list[object]:
        return [pool.data.name, bins, *(cell(pool.private_errors(bins, model, random)) for model in MODELS)]

    show(["set", "B = 100", "B = 200"], map(by_bins, rows))
    show(["set", "bins", *MODELS], (by_noise(pool, bins) for pool in map(CountedRows, rows) for bins in (20, 100)))


# --- Calibration ------------------------------------------------------------------------------------------------------


def calibration_error(data: PartyData, scores: np.ndarray) -> float:
    """Return the mean distance of score and share of positives, in ten bins of equally many rows."""
    parts = np.array_split(np.argsort(scores, kind="stable"), 10)
    return float(sum(len(p) * abs(data.y_true[p].mean() - scores[p].mean()) for p in parts) / len(scores))


def calibration() -> None:
    def body() -> Iterator[list[object]]:
        for make in (overconfident, bell):
            random = np.random.default_rng(3)
            one, other = make(random), make(random)
            yield [other.name, "none", "–", f"{calibration_error(other, other.y_score):.4f}"]
            for height, model in (*((10, model) for model in ("federated", *MODELS)), (6, "local"), (4, "local")):
                found = metrics.bayesian_binning(noisy(equal_bins(one, height), model, random))
                yield [other.name, model, 2**height, f"{calibration_error(other, found(other.y_score)):.4f}"]

    show(["set", "map from", "cells", "mean distance"], body())


# --- Laws -------------------------------------------------------------------------------------------------------------


class Law(NamedTuple):
    """How an error should fall: error(x) is a root mean square, `slope` is expected on logarithmic scales."""

    error: Callable[[float], float]
    xs: tuple[float, ...]
    slope: float

    def fitted(self) -> float:
        return float(np.polyfit(np.log(self.xs), np.log([self.error(x) for x in self.xs]), 1)[0])


def expected_counts(edges: np.ndarray, rows: float) -> np.ndarray:
    """Return the bell's positives and negatives in each bin, without chance."""
    of_label = ((0.3, 4, 3), (0.7, 2, 5))
    return np.stack([np.rint(rows * share * np.diff(beta.cdf(edges, a, b))) for share, a, b in of_label]).astype(int)


def bell_edges(bins: float) -> np.ndarray:
    fine = np.linspace(0, 1, 2**16 + 1)
    below = 0.3 * beta.cdf(fine, 4, 3) + 0.7 * beta.cdf(fine, 2, 5)
    return np.interp(np.arange(int(bins) + 1) / int(bins), below, fine)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def auc_of(counts: np.ndarray) -> float:
    return metrics.roc_auc_score(Histogram(np.arange(counts.shape[1] + 1), *counts)).value


def accuracy(histogram: Histogram, threshold: float) -> metrics.Estimate:
    found = metrics.decision_metrics(histogram, threshold)["accuracy"]
    assert found is not None
    return found


def accuracy_noise(draw: Callable[..., np.ndarray], rows: float, epsilon: float, bins: float, runs: int) -> float:
    """Return the error of the accuracy at the middle edge, by noise alone."""
    edges, random = bell_edges(bins), np.random.default_rng(5)
    true, middle = expected_counts(edges, rows), float(edges[len(edges) // 2])
    counts = [true, *draw(true, epsilon, runs=runs, random=random)]
    exact, *found = (accuracy(Histogram(edges, *each), middle).value for each in counts)
    return rms(np.array(found) - exact)


def map_error(draw: Callable[..., np.ndarray] | None, rows: float, bins: float, runs: int) -> float:
    """Return the mean distance of histogram binning from the truth, chance of labels included; rows overconfident."""
    random = np.random.default_rng(6)
    edges = np.linspace(0, 1, round(bins) + 1)
    centres = edges[:-1] + np.diff(edges) / 2
    fine = np.linspace(0, 1, 4001)[:-1] + 1 / 8000
    errors = []
    for _ in range(runs):
        in_bin = random.multinomial(int(rows), np.diff(beta.cdf(edges, 0.8, 0.8)))
        positives = random.binomial(in_bin, unsure(centres))
        counts = np.stack([positives, in_bin - positives])
        drawn = counts if draw is None else draw(counts, 1, runs=1, random=random)[0]
        errors.append(np.abs(metrics.histogram_binning(Histogram(edges, *drawn))(fine) - unsure(fine)).mean())
    return rms(np.array(errors))


def bin_error(bins: float) -> float:
    """Return the error of the AUC by bins alone."""
    fine, coarse = (auc_of(expected_counts(bell_edges(n), 1e12)) for n in (2**14, bins))
    return abs(coarse - fine)


def bin_half_width(bins: float) -> float:
    """Return what the bins leave open of the accuracy in the middle of a bin."""
    edges = bell_edges(bins)
    threshold = float(edges[len(edges) // 2 : len(edges) // 2 + 2].mean())
    return accuracy(Histogram(edges, *expected_counts(edges, 1e12)), threshold).half_width


def laws(runs: int = 800) -> dict[str, Law]:
    """Return every law, by name. With 800 runs and other seeds slopes had deviations of at most 0.01."""
    rows, small, many = (1e5, 3e5, 1e6, 3e6, 1e7), (0.01, 0.1, 1.0), (16, 64, 256, 1024)

    def auc(draw: Callable[..., np.ndarray], rows: float, epsilon: float, bins: float = 20) -> float:
        """Return the error of the AUC by noise alone."""
        true, random = expected_counts(bell_edges(bins), rows), np.random.default_rng(4)
        return rms(np.array([auc_of(noisy) for noisy in draw(true, epsilon, runs=runs, random=random)]) - auc_of(true))

    def accuracy(rows: float, epsilon: float) -> float:
        return accuracy_noise(distributed, rows, epsilon, (epsilon * rows) ** (2 / 3), runs)

    def calibrated(draw: Callable[..., np.ndarray] | None, power: float = 1 / 3) -> Callable[[float], float]:
        return lambda m: map_error(draw, m, m**power / 2, runs // 8)

    def accuracy_local(rows: float) -> float:
        return accuracy_noise(local, rows, 1, rows ** (1 / 3), runs)

    return {
        "AUC, no noise, by B": Law(bin_error, (8, 16, 32, 64, 128), -2),
        "AUC, distributed, by M": Law(lambda m: auc(distributed, m, 1), rows, -1),
        "AUC, distributed, by ε": Law(lambda e: auc(distributed, 1e6, e), small, -1),
        "AUC, distributed, by B": Law(lambda b: auc(distributed, 1e6, 1, b), many, 0.5),
        "AUC, local, by M": Law(lambda m: auc(local, m, 5), rows, -0.5),
        "AUC, local, by ε": Law(lambda e: auc(local, 1e11, e), small, -1),
        "AUC, local, by B": Law(lambda b: auc(local, 1e8, 5, b), many, 0.5),
        "accuracy, no noise, by B": Law(bin_half_width, (9, 17, 33, 65, 129), -1),
        "accuracy, distributed, B = (εM)^⅔, by M": Law(lambda m: accuracy(m, 0.1), (1e4, 1e5, 1e6), -2 / 3),
        "accuracy, distributed, B = (εM)^⅔, by ε": Law(lambda e: accuracy(1e6, e), small, -2 / 3),
        "accuracy, local, B = ε^⅔ M^⅓, by M": Law(accuracy_local, rows, -1 / 3),
        "calibration, no noise, B = M^⅓/2, by M": Law(calibrated(None), rows, -1 / 3),
        "calibration, distributed, B = M^⅓/2, by M": Law(calibrated(distributed), rows, -1 / 3),
        "calibration, local, B = (ε²M)^¼/2, by M": Law(calibrated(local, 0.25), (1e6, 1e7, 1e8), -0.25),
    }


SECTIONS = {"thresholds": thresholds, "sets": sets, "calibration": calibration}
SECTIONS["laws"] = lambda: show(
    ["error", "slope", "expected"], ([name, f"{law.fitted():.2f}", f"{law.slope:.2f}"] for name, law in laws().items())
)


if __name__ == "__main__":
    for section in sys.argv[1:] or SECTIONS:
        print(f"## {section}\n")
        SECTIONS[section]()

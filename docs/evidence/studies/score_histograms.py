"""What private score histograms tell, against scikit-learn: the tables of docs/evidence/score-histograms.md.

    python docs/evidence/studies/score_histograms.py [auc | sets | decisions | calibration | laws | parties] ...

Without a name, all of them. One core, one thread.

Rows: 10^6 made-up ones. *bell*: 30 % positive, scores from Beta(4, 3) and Beta(2, 5). *even*: uniform scores, each
the probability of label 1. *squeezed*: the same with scores 0.05 u^2, u uniform. The bundled sets, as they are.

Noise is simulated and seeded (`simulated_histograms`), but for the real shares and reports
of `parties`. Budgets: 1 where noise is distributed, 5 where it is local.

    auc          error of the AUC by bins and model; edges are quantiles, public or from noisy counts of the same rows
    sets         the same on every set, without noise by quantile / by uniform bins, and with it; beside it how far the
                 AUC varies if the rows of a bin come in random order, which no histogram can know
    decisions    precision, recall and accuracy at i/11, i = 1 ... 10, from 2^h equal bins, or from sums over a
                 hierarchy of label and score, whose first level is the label
    calibration  error of calibrated scores: maps from 10^6 rows, judged on 10^6 others
    laws         how errors fall, as slopes on logarithmic scales, beside [FCE] table 1
    parties      10^5 parties of one row each

Seconds are those of the processor.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import hyp2f1
from scipy.stats import beta
from sklearn.metrics import roc_auc_score as exact_auc

import simulated_histograms as simulation
from fhe_auc import metrics
from fhe_auc.base.errors import EvaluationError, InputError, UndefinedMetricError
from fhe_auc.metrics import CalibrationMap, Histogram
from fhe_auc.rows import datasets
from fhe_auc.rows.counts import PartyData
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.histograms import hierarchical_counts as hierarchy
from fhe_auc_protocols.histograms.hierarchical_counts import HierarchicalCounts
from fhe_auc_protocols.histograms.score_histogram import rows_by_bin
from fhe_auc_protocols.histograms.unary_encoding import UnaryEncoding
from fhe_auc_protocols.polya import polya

ROWS, RUNS, PARTIES = 10**6, 100, 10**5
HEIGHT, LOCAL_HEIGHT = 10, 8  # of hierarchies that carry noise; those without are of height 14
DISTRIBUTED, LOCAL = 1.0, 5.0  # budgets
FOR_EDGES = 0.25  # of the budget, or of the rows
BINS = (10, 20, 60, 100)

Random = np.random.Generator


def bell(random: Random, size: int = ROWS) -> PartyData:
    labels = random.random(size) < 0.3
    return PartyData.from_arrays("bell", labels, np.where(labels, random.beta(4, 3, size), random.beta(2, 5, size)))


def even(random: Random, size: int = ROWS) -> PartyData:
    scores = random.random(size)
    return PartyData.from_arrays("even", random.random(size) < scores, scores)


def squeezed(random: Random, size: int = ROWS) -> PartyData:
    scores = 0.05 * random.random(size) ** 2
    return PartyData.from_arrays("squeezed", random.random(size) < scores, scores)


def bundled(name: str) -> PartyData:
    parties = datasets.load(name)
    rows = (np.concatenate([getattr(party, of) for party in parties]) for of in ("y_true", "y_score"))
    return PartyData.from_arrays(name, *rows)


# --- Histograms of a pool, by model -----------------------------------------------------------------------------------


class Pool:
    """Rows, counted in the lowest segments of a hierarchy, and their AUC."""

    def __init__(self, data: PartyData, height: int = HEIGHT) -> None:
        self.data = data
        self.height = height
        self.auc = float(exact_auc(data.y_true, data.y_score))
        self.lowest = by_label(Histogram.from_rows(data, grid(height)))  # (2, 2^height)
        self.hierarchy = hierarchy.count(data, height)

    def counts(self, edges: np.ndarray, lowest: np.ndarray | None = None) -> np.ndarray:
        """Return rows of each label between edges, which are multiples of the lowest segment."""
        counted = self.lowest if lowest is None else lowest
        return np.add.reduceat(counted, (edges[:-1] * 2**self.height).astype(int), axis=1)


def grid(height: int) -> np.ndarray:
    return np.arange(2**height + 1) / 2**height


def by_label(histogram: Histogram) -> np.ndarray:
    return np.stack([histogram.positives, histogram.negatives]).astype(np.int64)


def federated(pool: Pool, bins: int, random: Random) -> Histogram:
    edges = hierarchy.equi_depth_edges(pool.hierarchy, bins)
    return Histogram(edges, *pool.counts(edges))


def uniform(pool: Pool, bins: int, random: Random) -> Histogram:
    return Histogram.from_rows(pool.data, np.linspace(0, 1, bins + 1))


def distributed(pool: Pool, bins: int, random: Random) -> Histogram:
    edges = hierarchy.equi_depth_edges(pool.hierarchy, bins)
    return Histogram(edges, *simulation.distributed(pool.counts(edges), DISTRIBUTED, runs=1, random=random)[0])


def distributed_with_edges(pool: Pool, bins: int, random: Random) -> Histogram:
    """A quarter of the budget on the edges."""
    first, second = DISTRIBUTED * FOR_EDGES, DISTRIBUTED * (1 - FOR_EDGES)
    edges = hierarchy.equi_depth_edges(simulation.distributed_hierarchy(pool.hierarchy, first, random), bins)
    return Histogram(edges, *simulation.distributed(pool.counts(edges), second, runs=1, random=random)[0])


def local(pool: Pool, bins: int, random: Random) -> Histogram:
    edges = hierarchy.equi_depth_edges(pool.hierarchy, bins)
    return Histogram(edges, *simulation.local(pool.counts(edges), LOCAL, runs=1, random=random)[0])


def local_with_edges(pool: Pool, bins: int, random: Random) -> Histogram:
    """A quarter of the budget on the edges."""
    first, second = LOCAL * FOR_EDGES, LOCAL * (1 - FOR_EDGES)
    short = HierarchicalCounts(pool.hierarchy.levels[:LOCAL_HEIGHT])
    edges = hierarchy.equi_depth_edges(simulation.local_hierarchy(short, first, random), bins)
    return Histogram(edges, *simulation.local(pool.counts(edges), second, runs=1, random=random)[0])


def local_with_edges_of_other_rows(pool: Pool, bins: int, random: Random) -> Histogram:
    """Each row spends all of its budget once: on the edges, with a chance of a quarter, or on the counts."""
    some = random.binomial(pool.lowest, FOR_EDGES)
    short = HierarchicalCounts(HierarchicalCounts.from_lowest(some.sum(axis=0)).levels[:LOCAL_HEIGHT])
    edges = hierarchy.equi_depth_edges(simulation.local_hierarchy(short, LOCAL, random), bins)
    others = pool.counts(edges, pool.lowest - some)
    return Histogram(edges, *simulation.local(others, LOCAL, runs=1, random=random)[0])


Model = Callable[[Pool, int, Random], Histogram]


def auc_errors(pool: Pool, bins: int, model: Model, random: Random, runs: int = RUNS) -> np.ndarray:
    """Return the distances of the AUC from that of the rows, shape (runs,); NaN where noise leaves a class no row."""

    def found() -> float:
        try:
            return metrics.roc_auc_score(model(pool, bins, random)).value
        except EvaluationError:
            return np.nan

    return np.abs(np.array([found() for _ in range(runs)]) - pool.auc)


def chance(histogram: Histogram) -> float:
    """Return the standard deviation of the AUC where rows of a bin come in random order: Mann and Whitney's."""
    p, n = histogram.positives, histogram.negatives
    return float(np.sqrt((p * n * (p + n + 1) / 12).sum()) / (p.sum() * n.sum()))


def cell(errors: np.ndarray) -> str:
    missing = int(np.isnan(errors).sum())
    none = f", none in {missing} of {len(errors)}" if missing else ""
    return f"{np.nanmean(errors):.1e} (≤ {np.nanmax(errors):.1e}{none})"


# --- Error of the AUC -------------------------------------------------------------------------------------------------


def auc() -> Iterator[str]:
    models = (distributed, distributed_with_edges, local, local_with_edges, local_with_edges_of_other_rows)
    random = np.random.default_rng(0)
    pool = Pool(bell(random))
    yield "| bins | distributed | with edges | local | with edges | with edges of other rows |"
    yield "|---|---|---|---|---|---|"
    for bins in (10, 15, *BINS[1:]):
        cells = [cell(auc_errors(pool, bins, model, random)) for model in models]
        yield f"| {bins} | " + " | ".join(cells) + " |"


def sets() -> Iterator[str]:
    random = np.random.default_rng(1)
    pools = [Pool(make(random), 14) for make in (bell, even, squeezed)]
    pools += [Pool(bundled(name), 14) for name in datasets.NAMES]
    many = (*BINS, 200)
    yield "| set | " + " | ".join(f"B = {bins}" for bins in many) + " | chance, B = 100 |"
    yield "|---|" + "---|" * len(many) + "---|"
    yield "| 1/(3B²) | " + " | ".join(f"{1 / (3 * bins**2):.1e}" for bins in many) + " | |"
    for pool in pools:
        both = (
            " / ".join(f"{auc_errors(pool, bins, model, random, 1)[0]:.1e}" for model in (federated, uniform))
            for bins in many
        )
        yield f"| {pool.data.name} | " + " | ".join(both) + f" | {chance(federated(pool, 100, random)):.1e} |"
    yield ""
    models = (distributed_with_edges, local_with_edges)
    yield "| set | bins | distributed, with edges | local, with edges |"
    yield "|---|---|---|---|"
    for pool in (Pool(other.data) for other in pools[1:]):
        for bins in (10, 20):
            cells = [cell(auc_errors(pool, bins, model, random)) for model in models]
            yield f"| {pool.data.name} | {bins} | " + " | ".join(cells) + " |"


# --- Decisions --------------------------------------------------------------------------------------------------------

THRESHOLDS = np.arange(1, 11) / 11
HEIGHTS = (4, 6, 8, 10, 11, 12, 14)
DECISION_MODELS = ("federated", "distributed", "distributed, hierarchy", "local", "local, hierarchy")


def shares(tp: np.ndarray, fp: np.ndarray, positives: float, negatives: float) -> np.ndarray:
    """Return precision, recall and accuracy, in [0, 1]; without a row predicted positive, precision is 0."""
    predicted = tp + fp
    precision = np.divide(tp, predicted, out=np.zeros_like(tp), where=predicted > 0)
    return np.clip([precision, tp / positives, (tp + negatives - fp) / (positives + negatives)], 0, 1)


def decisions_of_rows(data: PartyData) -> np.ndarray:
    """Return precision, recall and accuracy at each threshold, shape (3, 10)."""
    tp, fp = (
        np.array([(data.y_score[of] >= t).sum() for t in THRESHOLDS], float) for of in (data.y_true, ~data.y_true)
    )
    return shares(tp, fp, data.y_true.sum(), (~data.y_true).sum())


def decisions_of_bins(histogram: Histogram) -> np.ndarray:
    """Do the same from a histogram."""
    usable = histogram.cleaned()
    found = np.zeros((3, len(THRESHOLDS)))
    for row, metric in enumerate((metrics.precision_score, metrics.recall_score, metrics.accuracy_score)):
        for column, threshold in enumerate(THRESHOLDS):
            try:
                found[row, column] = metric(usable, float(threshold)).value
            except UndefinedMetricError:
                found[row, column] = 0.0
    return found


def prefix_count(counts: HierarchicalCounts, r: int) -> float:
    """Count the rows in [0, r/2^h), as a sum of at most one segment a level.

    At r = 2^h it is the whole of [0, 1], from the first level.

    Raises
    ------
    InputError
        r is not from 0 to 2^h.
    """
    size = 2**counts.height
    if not 0 <= r <= size:
        raise InputError(f"prefix {r}: must be from 0 to {size}")
    if r == size:
        return counts.total
    sums = 0.0
    for k, level in enumerate(counts.levels, start=1):
        segment = r >> (counts.height - k)
        if segment & 1:  # the left neighbour of the segment that r is in lies below r as a whole
            sums += float(level[segment - 1])
    return sums


def decisions_of_hierarchy(counts: HierarchicalCounts) -> np.ndarray:
    """Do the same from hierarchical counts of label and score: scores of label 0 below 1/2, those of label 1 above."""
    size = 2 ** (counts.height - 1)
    totals = counts.levels[0]
    cell_of = THRESHOLDS * size
    below = np.empty((2, len(THRESHOLDS)))
    for label in (0, 1):
        for column, place in enumerate(cell_of):
            whole = int(place)
            ends = [prefix_count(counts, label * size + r) - label * totals[0] for r in (whole, whole + 1)]
            below[label, column] = np.interp(place - whole, (0, 1), ends)
    return shares(totals[1] - below[1], totals[0] - below[0], totals[1], totals[0])


def decision_errors(
    data: PartyData, height: int, random: Random, runs: int, models: Sequence[str] = DECISION_MODELS
) -> dict[str, np.ndarray]:
    """Return mean absolute errors by model, shape (3, 10)."""
    truth = decisions_of_rows(data)
    bins = Histogram.from_rows(data, grid(height))
    counted = by_label(bins)
    exact = HierarchicalCounts.from_lowest(np.concatenate([counted[1], counted[0]]))  # label 0, then label 1

    def from_bins(noisy: np.ndarray) -> np.ndarray:
        return decisions_of_bins(Histogram(bins.edges, *noisy))

    draws: dict[str, Callable[[], np.ndarray]] = {
        "federated": lambda: from_bins(counted),
        "distributed": lambda: from_bins(simulation.distributed(counted, DISTRIBUTED, runs=1, random=random)[0]),
        "distributed, hierarchy": lambda: decisions_of_hierarchy(
            simulation.distributed_hierarchy(exact, DISTRIBUTED, random)
        ),
        "local": lambda: from_bins(simulation.local(counted, LOCAL, runs=1, random=random)[0]),
        "local, hierarchy": lambda: decisions_of_hierarchy(simulation.local_hierarchy(exact, LOCAL, random)),
    }
    return {model: np.mean([np.abs(draws[model]() - truth) for _ in range(runs)], axis=0) for model in models}


def decisions() -> Iterator[str]:
    yield "Precision / recall / accuracy: the largest of the ten thresholds, each a mean of 20 runs."
    for make in (bell, even):
        random = np.random.default_rng(2)
        data = make(random)
        by_height = {height: decision_errors(data, height, random, 20) for height in HEIGHTS}
        yield f"\n{data.name}\n\n| h | " + " | ".join(DECISION_MODELS) + " |"
        yield "|---|" + "---|" * len(DECISION_MODELS)
        for height, found in by_height.items():
            largest = (found[model].max(axis=1) for model in DECISION_MODELS)
            yield f"| {height} | " + " | ".join(" / ".join(f"{x:.0e}" for x in three) for three in largest) + " |"
        best = (("federated", 14), ("distributed", 11), ("local", 8))
        yield f"\n{data.name}, by threshold\n\n| T | " + " | ".join(f"{model}, h = {h}" for model, h in best) + " |"
        yield "|---|" + "---|" * len(best)
        for i in range(len(THRESHOLDS)):
            cells = (" / ".join(f"{x:.0e}" for x in by_height[h][model][:, i]) for model, h in best)
            yield f"| {i + 1}/11 | " + " | ".join(cells) + " |"
    yield "\nBundled sets, without noise, h = 14: the largest of the ten thresholds."
    for name in datasets.NAMES:
        data = bundled(name)
        largest = np.abs(decisions_of_bins(Histogram.from_rows(data, grid(14))) - decisions_of_rows(data)).max(axis=1)
        yield f"{name}: " + " / ".join(f"{x:.1e}" for x in largest)


# --- Calibration ------------------------------------------------------------------------------------------------------


def unsure(scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of label 1 where scores are too sure of themselves."""
    return 0.25 + 0.5 * scores


def overconfident(random: Random, size: int = ROWS) -> PartyData:
    scores = random.beta(0.8, 0.8, size)
    return PartyData.from_arrays("overconfident", random.random(size) < unsure(scores), scores)


def calibration_error(data: PartyData, scores: np.ndarray, n_bins: int) -> float:
    """Return the mean distance of score and share of positives, in bins of equally many rows."""
    order = np.argsort(scores, kind="stable")
    parts = np.array_split(order, n_bins)
    return float(sum(len(p) * abs(data.y_true[p].mean() - scores[p].mean()) for p in parts) / len(scores))


def calibration() -> Iterator[str]:
    evaluations = (5, 10, 20, 50)
    yield "| set | map from | cells | " + " | ".join(f"{n} bins" for n in evaluations) + " |"
    yield "|---|---|---|" + "---|" * len(evaluations)
    for make in (overconfident, bell):
        random = np.random.default_rng(3)
        one, other = make(random), make(random)

        def line(model: str, cells: object, scores: np.ndarray, fresh: PartyData = other) -> str:
            errors = " | ".join(f"{calibration_error(fresh, scores, n):.4f}" for n in evaluations)
            return f"| {fresh.name} | {model} | {cells} | {errors} |"

        yield line("–", "–", other.y_score)
        for height, models in ((10, ("federated", "distributed", "local")), (6, ("local",)), (4, ("local",))):
            for model in models:
                found = metrics.bayesian_binning(noisy_bins(one, height, model, random))
                yield line(model, 2**height, found(other.y_score))


def noisy_bins(data: PartyData, height: int, model: str, random: Random) -> Histogram:
    """Return 2^height equal bins."""
    bins = Histogram.from_rows(data, grid(height))
    if model == "federated":
        return bins
    draw, epsilon = {"distributed": (simulation.distributed, DISTRIBUTED), "local": (simulation.local, LOCAL)}[model]
    return Histogram(bins.edges, *draw(by_label(bins), epsilon, runs=1, random=random)[0])


# --- Laws -------------------------------------------------------------------------------------------------------------


class Law(NamedTuple):
    """How an error should fall.

    error(x) is a root mean square, of seeded noise where there is any. `slope` is expected on logarithmic scales, and
    `table` is what [FCE] table 1 says of it.
    """

    error: Callable[[float], float]
    xs: tuple[float, ...]
    slope: float
    table: str

    def fitted(self) -> float:
        return float(np.polyfit(np.log(self.xs), np.log([self.error(x) for x in self.xs]), 1)[0])


def expected_counts(edges: np.ndarray, rows: float) -> np.ndarray:
    """Return the bell's positives and negatives in each bin, without chance."""
    of_label = ((0.3, 4, 3), (0.7, 2, 5))
    return np.stack([np.rint(rows * share * np.diff(beta.cdf(edges, a, b))) for share, a, b in of_label]).astype(int)


def bell_edges(bins: int) -> np.ndarray:
    fine = np.linspace(0, 1, 2**16 + 1)
    below = 0.3 * beta.cdf(fine, 4, 3) + 0.7 * beta.cdf(fine, 2, 5)
    return np.interp(np.arange(bins + 1) / bins, below, fine)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def auc_of(counts: np.ndarray) -> float:
    return metrics.roc_auc_score(Histogram(np.arange(counts.shape[1] + 1), *counts)).value


def auc_noise(draw: Callable[..., np.ndarray], *, rows: float, epsilon: float, bins: float, runs: int) -> float:
    """Return the error of the AUC by noise alone."""
    true = expected_counts(bell_edges(int(bins)), rows)
    random = np.random.default_rng(4)
    return rms(np.array([auc_of(noisy) for noisy in draw(true, epsilon, runs=runs, random=random)]) - auc_of(true))


def accuracy_noise(draw: Callable[..., np.ndarray], *, rows: float, epsilon: float, bins: float, runs: int) -> float:
    """Return the error of the accuracy at the middle edge, by noise alone."""
    edges = bell_edges(int(bins))
    true = expected_counts(edges, rows)
    random, threshold = np.random.default_rng(5), float(edges[len(edges) // 2])

    def found(counts: np.ndarray) -> float:
        return metrics.accuracy_score(Histogram(edges, *counts), threshold).value

    return rms(np.array([found(noisy) for noisy in draw(true, epsilon, runs=runs, random=random)]) - found(true))


def map_error(draw: Callable[..., np.ndarray] | None, *, rows: float, epsilon: float, bins: float, runs: int) -> float:
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
        noisy = counts if draw is None else draw(counts, epsilon, runs=1, random=random)[0]
        found: CalibrationMap = metrics.histogram_binning(Histogram(edges, *noisy))
        errors.append(np.abs(found(fine) - unsure(fine)).mean())
    return rms(np.array(errors))


def bin_error(bins: float) -> float:
    """Return the error of the AUC by bins alone."""
    fine, coarse = (auc_of(expected_counts(bell_edges(n), 1e12)) for n in (2**14, int(bins)))
    return abs(coarse - fine)


def bin_half_width(bins: float) -> float:
    """Return what the bins leave open of the accuracy in the middle of a bin."""
    edges = bell_edges(int(bins))
    threshold = float(edges[len(edges) // 2 : len(edges) // 2 + 2].mean())
    return metrics.accuracy_score(Histogram(edges, *expected_counts(edges, 1e12)), threshold).half_width


def fallen_short(epsilon: float, shares: int, needed: int) -> float:
    """Return the budget that is really spent where s `shares` hide a row, of the n `needed` or fewer.

    n is `distributed_noise.noise_parties`; s, 0 or more, are shares of parties that neither vanished nor tell theirs.
    epsilon is the session's.

    The law of s shares of n is NB(r, p) − NB(r, p), r = s/n, p = e^−ε. For r < 1 the ratio P[k]/P[k+1] is largest at
    k = 0, and P[k] = (1 − p)^2r C(k + r − 1, k) p^k F(r, r + k; k + 1; p²), with Gauß's F. So still pure differential
    privacy, with a larger budget, infinite without a share.
    """
    if shares >= needed:
        return epsilon
    if shares == 0:
        return math.inf
    r, p = shares / needed, math.exp(-epsilon)
    return math.log(hyp2f1(r, r, 1, p * p) / (r * p * hyp2f1(r, r + 1, 2, p * p)))


def laws(runs: int = 800) -> dict[str, Law]:
    """Return every law, by name. With 800 runs and other seeds slopes had deviations of at most 0.01."""
    shared, own = simulation.distributed, simulation.local
    rows, few = (1e5, 3e5, 1e6, 3e6, 1e7), {"bins": 20, "runs": runs}
    small = (0.01, 0.1, 1.0)
    return {
        "AUC, no noise, by B": Law(bin_error, (8, 16, 32, 64, 128), -2, "−2"),
        "AUC, distributed, by M": Law(lambda m: auc_noise(shared, rows=m, epsilon=1, **few), rows, -1, "−1"),
        "AUC, distributed, by ε": Law(lambda e: auc_noise(shared, rows=1e6, epsilon=e, **few), small, -1, "−1"),
        "AUC, distributed, by B": Law(
            lambda b: auc_noise(shared, rows=1e6, epsilon=1, bins=b, runs=runs), (16, 64, 256, 1024), 0.5, "0 (noise)"
        ),
        "AUC, local, by M": Law(lambda m: auc_noise(own, rows=m, epsilon=5, **few), rows, -0.5, "−1/2"),
        "AUC, local, by ε": Law(lambda e: auc_noise(own, rows=1e11, epsilon=e, **few), small, -1, "−1"),
        "AUC, local, by B": Law(
            lambda b: auc_noise(own, rows=1e8, epsilon=5, bins=b, runs=runs), (16, 64, 256, 1024), 0.5, "– (h instead)"
        ),
        "accuracy, no noise, by B": Law(bin_half_width, (9, 17, 33, 65, 129), -1, "−1"),
        "accuracy, distributed, B = (εM)^⅔, by M": Law(
            lambda m: accuracy_noise(shared, rows=m, epsilon=0.1, bins=(0.1 * m) ** (2 / 3), runs=runs),
            (1e4, 1e5, 1e6),
            -2 / 3,
            "−2/3",
        ),
        "accuracy, distributed, B = (εM)^⅔, by ε": Law(
            lambda e: accuracy_noise(shared, rows=1e6, epsilon=e, bins=(e * 1e6) ** (2 / 3), runs=runs),
            (0.01, 0.1, 1.0),
            -2 / 3,
            "−2/3",
        ),
        "accuracy, local, B = ε^⅔ M^⅓, by M": Law(
            lambda m: accuracy_noise(own, rows=m, epsilon=1, bins=m ** (1 / 3), runs=runs), rows, -1 / 3, "−1/3"
        ),
        "calibration, no noise, B = M^⅓/2, by M": Law(
            lambda m: map_error(None, rows=m, epsilon=1, bins=m ** (1 / 3) / 2, runs=runs // 8), rows, -1 / 3, "−1/3"
        ),
        "calibration, distributed, B = M^⅓/2, by M": Law(
            lambda m: map_error(shared, rows=m, epsilon=1, bins=m ** (1 / 3) / 2, runs=runs // 8), rows, -1 / 3, "−1/3"
        ),
        "calibration, local, B = (ε²M)^¼/2, by M": Law(
            lambda m: map_error(own, rows=m, epsilon=1, bins=m**0.25 / 2, runs=runs // 8),
            (1e6, 1e7, 1e8),
            -0.25,
            "−1/4",
        ),
    }


def law_lines() -> Iterator[str]:
    yield "| error | slope | expected | table 1 |"
    yield "|---|---|---|---|"
    for name, law in laws().items():
        yield f"| {name} | {law.fitted():.2f} | {law.slope:.2f} | {law.table} |"


# --- Many parties -----------------------------------------------------------------------------------------------------


def parties() -> Iterator[str]:
    random = np.random.default_rng(7)
    data = bell(random, PARTIES)
    grid_of_20 = hierarchy.equi_depth_edges(hierarchy.count(data, HEIGHT), 20)[:-1]
    yield f"{PARTIES:,} parties of one row, 20 bins"

    started = time.process_time()
    counts = np.zeros((2, 20), np.int64)
    for label, score in zip(data.y_true, data.y_score, strict=True):
        counts += rows_by_bin(PartyData.from_arrays("one", [label], [score]), grid_of_20)
    yield f"federated, party by party: {time.process_time() - started:.2f} s"

    started = time.process_time()
    simulation.distributed_share_by_share(counts, DISTRIBUTED, parties=PARTIES, random=random)
    yield f"distributed, party by party, shares drawn by numpy: {time.process_time() - started:.2f} s"

    started = time.process_time()
    for _ in range(PARTIES // 1000):
        polya(1000 * counts.size, 1 / DISTRIBUTED, PARTIES)
    yield f"distributed, real shares (OpenDP): {time.process_time() - started:.2f} s"

    cells = np.repeat(np.arange(counts.size), counts.ravel())
    started = time.process_time()
    UnaryEncoding(counts.size, LOCAL).tally(cells, exact_sampling.secure())
    yield f"local, real reports: {time.process_time() - started:.2f} s"


SECTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "auc": auc,
    "sets": sets,
    "decisions": decisions,
    "calibration": calibration,
    "laws": law_lines,
    "parties": parties,
}


def main(names: list[str]) -> None:
    """Print the sections."""
    for name in names or list(SECTIONS):
        started = time.process_time()
        print(f"## {name}\n")
        for line in SECTIONS[name]():
            print(line, flush=True)
        print(f"\n({time.process_time() - started:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

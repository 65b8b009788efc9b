"""SIMULATED noise on ROC and PR curves, for experiments: fast, seeded, protecting nobody.

The area error of a curve is its mean distance from scikit-learn's curve of the same rows, over a uniform grid of false
positive rates, or of recalls. Generators yield what is read off one session after the other: None where noise leaves a
label no row.

**fedcurve** [XC], rebuilt from the paper and what its code does: for either label a binary tree of counts over equal
cells of [0, 1], made consistent; its quantiles 0, 1/(Q − 1), …, 1; between them a monotone cubic (PCHIP) of the score.
Here clients draw independent noise. In the authors' code (commit d901b78) each client's generator begins with the same
seed, so that K clients add the same numbers: their sum deviates √K times as much as that of independent ones.

[XC] Xu and Cormode, "Federated computation of ROC and PR curves", arXiv 2510.04979.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from sklearn.metrics import auc, precision_recall_curve, roc_curve

from fhe_auc.base.errors import EvaluationError
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.private_curves import CountNoise, RocFit
from fhe_auc.question.thresholds import cell_starts
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.comparison.simulated import dpauc_sums, estimated
from fhe_auc_protocols.dpauc.budget import Budget
from fhe_auc_protocols.histograms.distributed_noise import SharedNoise
from fhe_auc_protocols.histograms.protocols import HistogramDistributedDp, QuantilesDistributedDp
from fhe_auc_protocols.histograms.quantile_thresholds import chosen_cells, consistent
from fhe_auc_protocols.histograms.score_histogram import SHARE
from fhe_auc_protocols.options import SPENT

_FPR = np.linspace(0.0, 1.0, 2001, dtype=np.float64)
_RECALL = _FPR[1:]
_SCORES = np.linspace(1.0, 0.0, 10_001)  # at which fedcurve's curves are known

PrivateRun: TypeAlias = tuple[Histogram, CountNoise, RocFit]


class Curves(NamedTuple):
    """The AUC, and both curves on their grids; NaN for none."""

    auc: float
    tpr: NDArray[np.float64] = np.array([math.nan])
    precision: NDArray[np.float64] = np.array([math.nan])

    @classmethod
    def of_rows(cls, rows: PartyData) -> "Curves":
        """Return scikit-learn's."""
        fpr, tpr, _ = roc_curve(rows.y_true, rows.y_score)
        precision, recall, _ = precision_recall_curve(rows.y_true, rows.y_score)
        return cls(float(auc(fpr, tpr)), np.interp(_FPR, fpr, tpr), np.interp(_RECALL, recall[::-1], precision[::-1]))

    @classmethod
    def of_fit(cls, fit: RocFit) -> "Curves":
        """Return those of a histogram."""
        return cls(fit.auc, fit.tpr(_FPR), fit.precision(_RECALL))

    def errors(self, truth: "Curves") -> tuple[float, float, float]:
        """Return the error of the AUC, and the area errors of the ROC and the PR curve."""
        areas = np.abs(self.tpr - truth.tpr).mean(), np.abs(self.precision - truth.precision).mean()
        return abs(self.auc - truth.auc), float(areas[0]), float(areas[1])


def private_histogram(
    rows: PartyData, parties: int, epsilon: float, random: np.random.Generator
) -> Iterator[PrivateRun | None]:
    """Yield what `histogram-distributed-dp` gives with its own choice of bins, where all parties must take part."""
    starts, options = cell_starts(10), {"epsilon": epsilon, SPENT: SHARE * epsilon}
    first, second = QuantilesDistributedDp.readout, HistogramDistributedDp.readout
    of_levels, of_bins = (
        CountNoise.of(SharedNoise.of(readout, options, len(starts), parties, parties).settings(parties), parties)
        for readout in (first, second)
    )
    exact, cells = first.counted_levels(rows, starts), second.count(rows, starts).reshape(2, -1)
    while True:
        *levels, positives = (level + of_levels.drawn(random, len(level)) for level in exact)
        try:
            chosen = chosen_cells(levels, float(positives[0]), epsilon)
            sides = np.add.reduceat(cells, chosen, axis=1)
            histogram = Histogram(np.append(starts[chosen], 1.0), *(sides + of_bins.drawn(random, *sides.shape)))
            yield histogram, of_bins, RocFit.fitted(histogram, of_bins)
        except EvaluationError:
            yield None


def dpauc(counts: NDArray[np.int64], budget: Budget, parties: int, random: np.random.Generator) -> Iterator[Curves]:
    """Yield the curves of [DPAUC] through its points as they are; flips are taken back on average."""
    flipped = budget.flip_probability if budget.flips else 0.0
    while True:
        sums = dpauc_sums(counts, budget, parties=parties, runs=1, random=random)[0]
        unflipped = ((1 - flipped) * sums - flipped * sums[[1, 0, 3, 2]]) / (1 - 2 * flipped)
        true, false, *missed = np.maximum(unflipped[:, ::-1], 0.0)  # by descending thresholds
        tpr, fpr, precision = _share(true, missed[0], 0.0), _share(false, missed[1], 0.0), _share(true, false, 1.0)
        by_fpr, by_recall = (np.argsort(rate, kind="stable") for rate in (fpr, tpr))
        roc = np.interp(_FPR, _with_ends(fpr[by_fpr]), _with_ends(tpr[by_fpr]))
        pr = np.interp(_RECALL, tpr[by_recall], precision[by_recall])
        yield Curves(float(estimated(sums, budget)), roc, pr)


def fedcurve(rows: PartyData, points: int, epsilon: float, random: np.random.Generator) -> Iterator[Curves | None]:
    """Yield the curves of fedcurve with so many quantiles. Its ε is of a row added or removed: half of one replaced."""
    height = math.ceil(math.log2(points)) + 2
    cells = np.minimum((rows.y_score * 2**height).astype(np.int64), 2**height - 1)
    leaves = [np.bincount(cells[side], minlength=2**height) for side in (rows.y_true, ~rows.y_true)]
    trees = [[each.reshape(2**k, -1).sum(axis=1) for k in range(1, height + 1)] for each in leaves]
    law, at = CountNoise(0.0, height / epsilon), np.linspace(0.0, 1.0, points, dtype=np.float64)
    while True:
        noisy = [consistent([each + law.drawn(random, len(each)) for each in tree]) for tree in trees]
        true, false = (float(levels[0].sum()) for levels in noisy)
        if min(true, false) > 0:
            tpr, fpr = (_with_ends(_above(_quantiles(levels, at), at)) for levels in noisy)
            precision = _share(tpr * true, fpr * false, 1.0)
            yield Curves(float(auc(fpr, tpr)), np.interp(_FPR, fpr, tpr), np.interp(_RECALL, tpr, precision))
        else:
            yield None


def _quantiles(levels: Sequence[NDArray[np.float64]], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lower ends of the cells at which shares of the rows are reached, going into one half at each level."""
    node, below = np.zeros(len(at), np.int64), np.zeros(len(at))
    for level in levels:
        share = np.maximum(level[2 * node] / level.sum(), 0.0)
        right = (below + share < at) & (np.abs(at - below) >= 0.5 / len(levels[-1]))
        node, below = 2 * node + right, below + np.where(right, share, 0.0)
    return np.asarray(node / len(levels[-1]))


def _above(quantiles: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of the rows above each of `_SCORES`."""
    ends, which = np.unique(quantiles, return_inverse=True)
    above = np.bincount(which, 1 - at) / np.bincount(which)
    if len(ends) < 2:
        return np.where(ends[0] > _SCORES, 1.0, 0.0)
    inside: NDArray[np.float64] = PchipInterpolator(ends, above)(np.clip(_SCORES, ends[0], ends[-1]))
    found = np.where(ends[0] > _SCORES, 1.0, np.where(ends[-1] < _SCORES, 0.0, np.clip(inside, 0.0, 1.0)))
    return np.maximum.accumulate(found)  # it may fall by a rounding error


def _share(part: NDArray[np.float64], rest: NDArray[np.float64], if_none: float) -> NDArray[np.float64]:
    return np.divide(part, part + rest, out=np.full_like(part, if_none), where=part + rest > 0)


def _with_ends(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate(([0.0], rates, [1.0]))

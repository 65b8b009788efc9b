"""Metrics of the order of scores alone: area under the ROC curve, average precision, Kolmogorov-Smirnov.

All raise `UndefinedAucError` if there are no positive or no negative rows.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.special_functions import digamma
from fhe_auc.metrics.binning_error import binning_error
from fhe_auc.metrics.histogram import Estimate, Histogram, with_both_labels
from fhe_auc.question.score_bins import next_number, of_one_number


class RocCurve(NamedTuple):
    """Points of the ROC curve from (0, 0) to (1, 1), as `sklearn.metrics.roc_curve` returns them; shape (k + 1,) all.

    `thresholds` fall, the first infinite: the lower edges of the k bins that hold rows.
    """

    fpr: NDArray[np.float64]
    tpr: NDArray[np.float64]
    thresholds: NDArray[np.float64]


class PrecisionRecallCurve(NamedTuple):
    """Points of the precision-recall curve, as `sklearn.metrics.precision_recall_curve` returns them, shape (k + 1,).

    The k `thresholds` rise: the lower edges of the bins that hold rows. The last point is (1, 0) and has none.
    """

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    thresholds: NDArray[np.float64]


def roc_auc_score(histogram: Histogram) -> Estimate:
    """Compute the area under the ROC curve, in [0, 1]; the half-width is the binning error.

    H_B = 1/(PN) sum_i (sum_{j<i} p_i n_j + p_i n_i / 2), [FCE] eq. 5: a positive row in a higher bin than a negative
    one counts 1.
    """
    usable = with_both_labels(histogram)
    p, n = usable.positives, usable.negatives
    pairs = p.sum() * n.sum()
    below = np.cumsum(n) - n
    tied = p * n / 2
    value, half_width = (p @ below + tied.sum()) / pairs, binning_error(2 * tied[~of_one_score(usable)].sum(), pairs)
    return _within_unit(value, value - half_width, value + half_width)


def roc_auc_error(histogram: Histogram) -> float:
    """Compute the standard error of the AUC A of weighted rows, by their influence: DeLong's where all weights are 1.

    Of a positive row that is w·(u − A)/P, u the share of negative weight that it is above, ties half; so for a negative
    one. Each label's part is enlarged by n/(n − 1), n its effective rows.
    """
    usable = with_both_labels(histogram)
    total, squares = 0.0, usable.spread
    for own, other, rows, square in ((0, 1, usable.effective[0], squares[0]), (1, 0, usable.effective[1], squares[1])):
        counts = usable.sides[other]
        better = (np.cumsum(counts) - counts / 2) / counts.sum()
        mean = usable.sides[own] @ better / usable.sides[own].sum()
        enlarged = rows / max(rows - 1, 1e-9) / usable.sides[own].sum() ** 2
        total += float(square @ np.square(better - mean)) * enlarged
    return math.sqrt(total)


def partial_auc_score(histogram: Histogram, max_fpr: float) -> tuple[Estimate, float]:
    """Compute the area under the ROC curve up to a false positive rate, and its standard error.

    As scikit-learn's ``roc_auc_score(max_fpr=)``: 1/2 is chance, 1 perfect (McClish, Medical Decision Making 9, 1989).
    The error is by the influence of rows, also of negative ones on where the curve is cut. Rows of a bin lie evenly.
    """
    fpr, tpr, _ = roc_curve(histogram)
    cut, gains, at_cut = np.minimum(fpr, max_fpr), np.diff(tpr), np.interp(max_fpr, fpr, tpr)
    steps, low, end = np.diff(cut), tpr[:-1], np.where(fpr[1:] > max_fpr, at_cut, tpr[1:])
    worth = np.maximum(max_fpr - (fpr[:-1] + fpr[1:]) / 2, 0)  # of a positive row: negative ones below it, to the cut
    moved = (low + end) / 2 - at_cut  # by a negative row that is above the cut
    usable = histogram.cleaned()
    some = usable.counts > 0
    of_ones, of_zeros = (usable.spread / np.square(usable.sides.sum(axis=1, keepdims=True)))[:, some][:, ::-1]
    part = np.divide(steps, np.diff(fpr), out=np.zeros(len(steps)), where=np.diff(fpr) > 0)  # of a bin, up to the cut
    mean = steps @ moved
    beyond = of_zeros @ (1 - part) * mean**2
    error = np.sqrt(of_ones @ (worth - gains @ worth) ** 2 + of_zeros * part @ (moved - mean) ** 2 + beyond)
    chance = max_fpr**2 / 2
    middle, meant = (low + end) / 2, of_one_score(histogram)[some][::-1]
    areas = (float(steps @ each) for each in (middle, np.where(meant, middle, low), np.where(meant, middle, tpr[1:])))
    value, *ends = ((1 + (area - chance) / (max_fpr - chance)) / 2 for area in areas)
    return _within_unit(value, *ends), float(error) / (2 * (max_fpr - chance))


def roc_curve(histogram: Histogram) -> RocCurve:
    """Compute the points of the ROC curve at the bins' edges, where they are exact.

    As scikit-learn's with ``drop_intermediate=False``.
    """
    tp, fp, thresholds = at_or_above(histogram)
    return RocCurve(
        np.append(0.0, fp[::-1] / fp[0]), np.append(0.0, tp[::-1] / tp[0]), np.append(np.inf, thresholds[::-1])
    )


def precision_recall_curve(histogram: Histogram) -> PrecisionRecallCurve:
    """Compute the points of the precision-recall curve at the bins' edges, where they are exact."""
    tp, fp, thresholds = at_or_above(histogram)
    return PrecisionRecallCurve(np.append(tp / (tp + fp), 1.0), np.append(tp / tp[0], 0.0), thresholds)


def average_precision_score(histogram: Histogram) -> Estimate:
    """Compute the average precision, in [0, 1]: the sum over steps of the recall gained times the precision there.

    Inside a bin, true and false positives are taken to grow together (Davis, Goadrich, "The relationship between
    precision-recall and ROC curves", ICML 2006), each positive row having its mean place among the bin's rows in
    random order: n·x/(p + 1) of its n negative rows are above the x-th of p positive ones. A bin between two empty
    ones, as of scores that are points, is taken to be one score: the value then is
    scikit-learn's. The low end has the positives of each bin one by one below its negatives, the high end has them
    together above. With weights a bin's positive rows are taken to have equal ones.
    """
    usable = with_both_labels(histogram)
    p, n, all_p = usable.positives, usable.negatives, usable.positives.sum()
    some = p > 0
    rows = np.maximum(usable.real[0][some], 1) if usable.rows is not None else p[some]
    own = p[some] / rows  # the weight of a positive row, in which weights are told from here on
    (tp, tp_above), (fp, fp_above) = (
        (sums[:-1][some] / own, sums[1:][some] / own) for sums in (_sums_from_above(p), _sums_from_above(n))
    )
    gained = p[some] / all_p
    # The x-th precision is (tp_above + x) / (above + each x): with n/(p + 1) negatives a positive, or all at once.
    each, above = 1 + n[some] / own / (rows + 1), tp_above + fp_above
    between = (rows - (above / each - tp_above) * _inverses(above / each, rows)) / each * own / all_p
    lost = fp * own / all_p * _inverses(tp_above + fp, rows)
    together, meant = gained * tp / (tp + fp), of_one_score(usable)[some]
    value = np.where(_one_score(usable)[some], together, between).sum()
    low, high = (np.where(meant, together, each).sum() for each in (gained - lost, gained * tp / (tp + fp_above)))
    return _within_unit(value, low, high)


def _inverses(start: NDArray[np.float64], terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sum_{x=1..terms} 1 / (start + x)."""
    return np.asarray(digamma(start + terms + 1) - digamma(start + 1))


def of_one_score(histogram: Histogram) -> NDArray[np.bool_]:
    """Return which bins can hold one score only, shape (B,): their rows are tied by the model."""
    ends = histogram.edges[:1] - 1, next_number(histogram.edges[-1:])
    return of_one_number(np.concatenate((ends[0], histogram.edges[:-1], ends[1])))[1:-1]


def _one_score(histogram: Histogram) -> NDArray[np.bool_]:
    """Return which bins are taken to hold one score: those that can hold no other, or lie between two without rows."""
    empty = np.concatenate(([True], histogram.counts == 0, [True]))
    return np.asarray((empty[:-2] & empty[2:]) | of_one_score(histogram))


def average_precision_error(histogram: Histogram) -> float:
    """Compute the standard error of the average precision A of rows drawn independently, by its influence function.

    With T and F the shares of rows that are true and false positives at a score, and precision T/(T + F), a row of
    score u, of M rows, πM of them positive, moves A by 1/(πM) times

        T/(T + F) − A + Σ F/(T + F)² dT        if it is positive,        −Σ T/(T + F)² dT        if it is negative,

    sums being over the positive rows at or below u. Rows of a bin are at or above it: with few positive rows half of
    them, as in the middle of a bin, would be too few.
    """
    usable = histogram.cleaned()
    value, rows = average_precision_score(usable).value, usable.counts.sum()
    share = usable.positives / rows
    true, false = (_sums_from_above(side)[:-1] for side in (share, usable.negatives / rows))
    found = np.where(true + false > 0, true + false, 1.0)
    by_true, by_false = (np.cumsum(each) for each in (share * false / found**2, share * true / found**2))
    moved = np.stack([true / found - value + by_true, -by_false]) / share.sum()
    mean = (usable.sides * moved).sum() / rows
    return float(np.sqrt((usable.spread * (moved - mean) ** 2).sum()) / rows)


def average_precision_bias(histogram: Histogram) -> float:
    """Compute by how much average precision A tends to be too high at most: rows count in the precision at their score.

    A row with k rows at or above it, itself among them, ought to count A there, and not the 1 that it is: so (1 − A)/k,
    in the mean over positive rows. Rows of a bin have its mean place. With 67 events in 20,000, 0.0145 becomes 0.020.
    With weights k is their sum, and a row counts A for its own weight.
    """
    usable = histogram.cleaned()
    value = average_precision_score(usable).value
    one = usable.counts / np.maximum(usable.real.sum(axis=0), 1) if usable.rows is not None else 1
    places = _sums_from_above(usable.counts)[:-1] - (usable.counts - one) / 2
    own = np.divide(usable.spread[0], places, out=np.zeros(usable.bins), where=usable.spread[0] > 0)
    return float((1 - value) * own.sum() / usable.positives.sum())


def ks_statistic(histogram: Histogram) -> Estimate:
    """Compute the Kolmogorov-Smirnov statistic: the largest distance between true and false positive rates, in [0, 1].

    As `scipy.stats.ks_2samp` has it. Value and low end are that at an edge: rows inside a bin can only reach further.
    """
    usable = with_both_labels(histogram)
    tpr, fpr = (_sums_from_above(side) / side.sum() for side in (usable.positives, usable.negatives))
    value = float(np.abs(tpr - fpr).max())
    farther = np.maximum(tpr[:-1] - fpr[1:], fpr[:-1] - tpr[1:])[~of_one_score(usable)]
    return _within_unit(value, value, float(farther.max(initial=0.0)))


def at_or_above(histogram: Histogram) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return true positives, false positives and thresholds at the lower edges, ascending, of bins that hold rows."""
    usable = with_both_labels(histogram)
    some = usable.counts > 0
    tp, fp = (_sums_from_above(counts)[:-1][some] for counts in (usable.positives, usable.negatives))
    return tp, fp, usable.edges[:-1][some]


def _sums_from_above(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rows at or above each edge, shape (B + 1,); the last is 0."""
    return np.append(np.cumsum(counts[::-1])[::-1], 0.0)


def _within_unit(value: float, low: float, high: float) -> Estimate:
    """Return an estimate without what rounding puts outside [0, 1] or out of order."""
    value = min(max(float(value), 0.0), 1.0)
    return Estimate(value, min(max(float(low), 0.0), value), max(min(float(high), 1.0), value))

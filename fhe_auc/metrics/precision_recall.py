"""Metrics of the classifier that predicts 1 where the score is at or above a threshold.

At a bin's edge they are exact. In between, rows are taken as spread evenly over their bin, and the range is what the
rows of that one bin can do at worst: every metric here rises with true positives and falls with false ones, so that its
extremes are at the corners. All lie in [0, 1], and raise `InputError` for a threshold that is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, UndefinedMetricError
from fhe_auc.metrics.histogram import Estimate, Histogram, bin_index
from fhe_auc.metrics.probabilities import with_rows
from fhe_auc.metrics.ranking import at_or_above

_ROUNDING = 1e-12  # 0.9 of ten rows is nine


class _Split(NamedTuple):
    """Rows of each label; true and false positives, as expected of the bin that the threshold cuts, and at its ends."""

    positives: float
    negatives: float
    expected: tuple[float, float]
    worst: tuple[float, float]
    best: tuple[float, float]


def _split(histogram: Histogram, threshold: float) -> _Split:
    if not math.isfinite(threshold):
        raise InputError(f"threshold is {threshold}; it must be finite")
    usable = histogram.cleaned()
    p, n, edges = usable.positives, usable.negatives, usable.edges
    cut = int(bin_index(edges, np.array([threshold]))[0])
    above, share = cut, 0.0  # the first bin at or above the threshold
    if threshold > edges[-1]:
        cut = above = usable.bins
    elif threshold > edges[cut]:
        above, share = cut + 1, float((edges[cut + 1] - threshold) / (edges[cut + 1] - edges[cut]))
    positives, negatives = float(p.sum()), float(n.sum())
    tp, fp = float(p[above:].sum()), float(n[above:].sum())
    open_tp, open_fp = float(p[cut:above].sum()), float(n[cut:above].sum())

    def capped(tp: float, fp: float) -> tuple[float, float]:
        """Return no more than all rows, which sums of fractional counts can exceed by rounding."""
        return min(tp, positives), min(fp, negatives)

    expected = capped(tp + share * open_tp, fp + share * open_fp)
    return _Split(positives, negatives, expected, worst=capped(tp, fp + open_fp), best=capped(tp + open_tp, fp))


def confusion_matrix(histogram: Histogram, threshold: float) -> NDArray[np.int64]:
    """Count rows by label and prediction: ``[[TN, FP], [FN, TP]]``, shape (2, 2), as scikit-learn has it.

    Rows of the bin that the threshold cuts count by their share. Rows are whole: true and false positives, and all rows
    of each label where these carry noise, are rounded.
    """
    split = _split(histogram, threshold)
    tp, fp, positives, negatives = np.rint([*split.expected, split.positives, split.negatives]).astype(np.int64)
    return np.array([[negatives - fp, fp], [positives - tp, tp]])


def decision_metrics(histogram: Histogram, threshold: float) -> dict[str, Estimate | None]:
    """Compute precision, recall, specificity, negative predictive value, F1, accuracy and balanced accuracy, by name.

    None is what the rows give no value. Where rows may or may not be predicted positive (for the predictive value:
    negative), the range includes 0, scikit-learn's value for none.
    """
    p, n, expected, worst, best = _split(histogram, threshold)
    # Rows without which there is no value, and the value at so many true and false positives.
    metrics: dict[str, tuple[float, Callable[[float, float], float]]] = {
        "precision": (best[0] + worst[1], _share),
        "recall": (p, lambda tp, fp: tp / p),
        "specificity": (n, lambda tp, fp: (n - fp) / n),
        "npv": (p + n - worst[0] - best[1], lambda tp, fp: _share(n - fp, p - tp)),
        "f1": (p, lambda tp, fp: 2 * tp / (p + tp + fp)),
        "accuracy": (p + n, lambda tp, fp: (tp + n - fp) / (p + n)),
        "balanced_accuracy": (min(p, n), lambda tp, fp: (tp / p + (n - fp) / n) / 2),
    }
    found: dict[str, Estimate | None] = {}
    for name, (rows, metric) in metrics.items():
        if not rows > 0:
            found[name] = None
            continue
        value, low, high = metric(*expected), metric(*worst), metric(*best)
        if name == "precision" and not sum(expected) > 0:  # the threshold is the last bin's upper end: the bin's share
            value = _share(best[0], worst[1])
        found[name] = Estimate(value, min(low, value), max(high, value))
    return found


def _share(some: float, others: float) -> float:
    return some / (some + others) if some + others > 0 else 0.0


def threshold_of_specificity(histogram: Histogram, least: float) -> float | None:
    """Return the lowest edge, of those of `best_f1_threshold`, with at least that specificity: it has the best recall.

    None where too many negative rows are in the highest bin.
    """
    _, fp, thresholds = at_or_above(histogram)
    fit = thresholds[(fp[0] - fp) / fp[0] >= least - _ROUNDING]
    return float(fit[0]) if len(fit) else None


def threshold_of_recall(histogram: Histogram, least: float) -> float:
    """Return the highest edge, of those of `best_f1_threshold`, with at least that recall: of the best specificity."""
    tp, _, thresholds = at_or_above(histogram)
    return float(thresholds[tp / tp[0] >= least - _ROUNDING][-1])


def best_f1_threshold(histogram: Histogram) -> float:
    """Return the edge with the largest F1, the lower one of a bin that holds rows; of several, the lowest."""
    tp, fp, thresholds = at_or_above(histogram)
    return float(thresholds[np.argmax(2 * tp / (tp[0] + tp + fp))])


def cheapest_threshold(histogram: Histogram, ratio: float) -> float:
    """Return the edge, of those of `best_f1_threshold`, with the least FP + ratio·FN; of several, the lowest.

    With N/P for the ratio that is Youden's: of the largest sum of sensitivity and specificity.
    """
    tp, fp, thresholds = at_or_above(histogram)
    return float(thresholds[np.argmin(fp + ratio * (tp[0] - tp))])


def threshold_of_alert_rate(histogram: Histogram, most: float) -> float | None:
    """Return the lowest edge, of those of `best_f1_threshold`, at or above which at most that share of rows lies."""
    tp, fp, thresholds = at_or_above(histogram)
    fit = thresholds[(tp + fp) / (tp[0] + fp[0]) <= most + _ROUNDING]
    return float(fit[0]) if len(fit) else None


class DecisionCurve(NamedTuple):
    """Net benefit, in true positives a row, at threshold probabilities: rising lower edges of bins, below 1.

    `model` acts where the score is at or above the threshold, `treat_all` on every row; on nobody it would be 0.
    """

    thresholds: NDArray[np.float64]
    model: NDArray[np.float64]
    treat_all: NDArray[np.float64]


def decision_curve(histogram: Histogram) -> DecisionCurve:
    """Compute TP/M - FP/M·t/(1 - t) at each threshold t of the bins, M being all rows.

    Vickers, Elkin, "Decision curve analysis", Medical Decision Making 26 (2006), 565-574.
    Raises `UndefinedMetricError` if there are no rows, or all scores are 1; `InputError` if the edges leave [0, 1].
    """
    usable = with_rows(histogram, "no decision curve")
    rows = usable.counts.sum()
    below_one = usable.edges[:-1] < 1
    if not below_one.any():
        raise UndefinedMetricError("no bin begins below 1, so there is no threshold for a decision curve")
    thresholds = usable.edges[:-1][below_one]
    tp, fp = (np.cumsum(side[::-1])[::-1][below_one] / rows for side in (usable.positives, usable.negatives))
    odds = thresholds / (1 - thresholds)
    return DecisionCurve(thresholds, tp - fp * odds, tp[0] - fp[0] * odds)


def net_benefit_error(histogram: Histogram) -> NDArray[np.float64]:
    """Return the standard error of the model's net benefit at each point of `decision_curve`, for independent rows.

    Of the mean of what acting is worth by row: 1 for a true positive, -t/(1 - t) for a false one, else 0.
    """
    thresholds, model, _ = decision_curve(histogram)
    usable = histogram.cleaned()
    tp, fp = (np.cumsum(side[::-1])[::-1][: len(thresholds)] for side in (usable.positives, usable.negatives))
    rows = usable.counts.sum()
    squares = (tp + fp * (thresholds / (1 - thresholds)) ** 2) / rows
    return np.asarray(np.sqrt(np.maximum(squares - model**2, 0) / rows))

"""Metrics of the classifier that predicts 1 where the score is at or above a threshold, the lower edge of a bin.

There they are exact. All lie in [0, 1].
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import UndefinedMetricError
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.probabilities import with_rows
from fhe_auc.metrics.ranking import at_or_above

_ROUNDING = 1e-12  # 0.9 of ten rows is nine


def confusion_matrix(histogram: Histogram, threshold: float) -> NDArray[np.int64] | NDArray[np.float64]:
    """Count rows by label and prediction: ``[[TN, FP], [FN, TP]]``, shape (2, 2), as scikit-learn has it.

    Rows are whole: where counts carry noise, true and false positives, and all rows of each label, are rounded. With
    weights these are sums of them.
    """
    counts: NDArray[np.int64] | NDArray[np.float64] = np.array(_split(histogram, threshold))
    if histogram.squares is None:
        counts = np.rint(counts).astype(np.int64)
    tp, fp, positives, negatives = counts
    return np.array([[negatives - fp, fp], [positives - tp, tp]]).round(9)  # weights are multiples of 0.000001


def decision_metrics(histogram: Histogram, threshold: float) -> dict[str, float | None]:
    """Compute precision, recall, specificity, negative predictive value, F1, accuracy and balanced accuracy, by name.

    None is what the rows give no value.
    """
    tp, fp, p, n = _split(histogram, threshold)
    shares = {
        "precision": (tp, tp + fp),
        "recall": (tp, p),
        "specificity": (n - fp, n),
        "npv": (n - fp, n - fp + p - tp),
        "f1": (2 * tp, (p + tp + fp) * (p > 0)),
        "accuracy": (tp + n - fp, p + n),
        "balanced_accuracy": (tp * n + (n - fp) * p, 2 * p * n),
    }
    return {name: some / of if of > 0 else None for name, (some, of) in shares.items()}


def _split(histogram: Histogram, threshold: float) -> tuple[float, float, float, float]:
    """Return true and false positives, and all rows of each label, which these exceed by no rounding."""
    usable, at = histogram.cleaned(), histogram.bin_of(threshold)
    (tp, p), (fp, n) = ((float(side[at:].sum()), float(side.sum())) for side in (usable.positives, usable.negatives))
    return min(tp, p), min(fp, n), p, n


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
    tp, fp = (np.cumsum(side[::-1])[::-1][: len(thresholds)] for side in usable.spread)
    odds, others = thresholds / (1 - thresholds), usable.spread.sum() - tp - fp
    squares = tp * (1 - model) ** 2 + fp * (odds + model) ** 2 + others * model**2
    return np.asarray(np.sqrt(squares) / usable.counts.sum())

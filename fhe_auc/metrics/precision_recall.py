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
from fhe_auc.metrics.ranking import at_or_above

_ROUNDING = 1e-12  # 0.9 of ten rows is nine


class _Split(NamedTuple):
    """Rows by what a threshold makes of them."""

    positives: float
    negatives: float
    tp: float  # in bins at or above the threshold
    fp: float
    open_positives: float  # in the bin that the threshold cuts
    open_negatives: float
    share: float  # of that bin's width that is at or above the threshold

    @property
    def expected(self) -> tuple[float, float]:
        return self._capped(self.tp + self.share * self.open_positives, self.fp + self.share * self.open_negatives)

    @property
    def worst(self) -> tuple[float, float]:
        return self._capped(self.tp, self.fp + self.open_negatives)

    @property
    def best(self) -> tuple[float, float]:
        return self._capped(self.tp + self.open_positives, self.fp)

    def _capped(self, tp: float, fp: float) -> tuple[float, float]:
        """Return no more than all rows, which sums of fractional counts can exceed by rounding."""
        return min(tp, self.positives), min(fp, self.negatives)


def _split(histogram: Histogram, threshold: float) -> _Split:
    if not math.isfinite(threshold):
        raise InputError(f"threshold is {threshold}; it must be finite")
    usable = histogram.cleaned()
    p, n, edges = usable.positives, usable.negatives, usable.edges
    totals = float(p.sum()), float(n.sum())
    if threshold <= edges[0]:
        return _Split(*totals, *totals, 0.0, 0.0, 0.0)
    if threshold > edges[-1]:
        return _Split(*totals, 0.0, 0.0, 0.0, 0.0, 0.0)
    cut = int(bin_index(edges, np.array([threshold]))[0])
    if threshold == edges[cut]:
        return _Split(*totals, float(p[cut:].sum()), float(n[cut:].sum()), 0.0, 0.0, 0.0)
    share = float((edges[cut + 1] - threshold) / (edges[cut + 1] - edges[cut]))
    above = float(p[cut + 1 :].sum()), float(n[cut + 1 :].sum())
    return _Split(*totals, *above, float(p[cut]), float(n[cut]), share)


def _estimate(split: _Split, metric: Callable[[float, float], float]) -> Estimate:
    value, low, high = metric(*split.expected), metric(*split.worst), metric(*split.best)
    return Estimate(value, min(low, value), max(high, value))


def _require(rows: float, what: str, metric: str) -> None:
    if not rows > 0:
        raise UndefinedMetricError(f"the histogram holds no {what} row, so there is no {metric}")


def confusion_matrix(histogram: Histogram, threshold: float) -> NDArray[np.int64]:
    """Count rows by label and prediction: ``[[TN, FP], [FN, TP]]``, shape (2, 2), as scikit-learn has it.

    Rows of the bin that the threshold cuts count by their share. Rows are whole: true and false positives, and all rows
    of each label where these carry noise, are rounded. Raises `InputError` if the threshold is not finite.
    """
    split = _split(histogram, threshold)
    tp, fp, positives, negatives = np.rint([*split.expected, split.positives, split.negatives]).astype(np.int64)
    return np.array([[negatives - fp, fp], [positives - tp, tp]])


def precision_score(histogram: Histogram, threshold: float) -> Estimate:
    """Compute the share of rows predicted positive that are: TP / (TP + FP), in [0, 1].

    Where rows may or may not be predicted positive, the range includes 0, scikit-learn's value for none.

    Raises `UndefinedMetricError` if no row can be at or above the threshold.
    """
    split = _split(histogram, threshold)
    if not split.tp + split.fp + split.open_positives + split.open_negatives > 0:
        raise UndefinedMetricError(f"no row is at or above the threshold {threshold}, so there is no precision")
    tp, fp = split.expected
    if not tp + fp > 0:  # nothing surely at or above, and the threshold at the bin's upper end: the bin's own share
        tp, fp = split.open_positives, split.open_negatives
    value, low, high = _share(tp, fp), _share(*split.worst), _share(*split.best)
    return Estimate(value, min(low, value), max(high, value))


def _share(tp: float, fp: float) -> float:
    return tp / (tp + fp) if tp + fp > 0 else 0.0


def negative_predictive_value(histogram: Histogram, threshold: float) -> Estimate:
    """Compute the share of rows predicted negative that are: TN / (TN + FN), in [0, 1].

    scikit-learn's ``precision_score`` with ``pos_label=0``. Where none may be predicted negative, the range includes 0.

    Raises `UndefinedMetricError` if every row is at or above the threshold.
    """
    split = _split(histogram, threshold)
    rows = split.positives + split.negatives
    if not rows - split.tp - split.fp > 0:
        raise UndefinedMetricError(f"no row is below the threshold {threshold}, so there is no predictive value")
    return _estimate(split, lambda tp, fp: _share(split.negatives - fp, split.positives - tp))


def recall_score(histogram: Histogram, threshold: float) -> Estimate:
    """Compute the share of positive rows that are predicted positive: TP / P, in [0, 1], also called sensitivity.

    Raises `UndefinedMetricError` if there are no positive rows.
    """
    split = _split(histogram, threshold)
    _require(split.positives, "positive", "recall")
    return _estimate(split, lambda tp, fp: tp / split.positives)


def specificity_score(histogram: Histogram, threshold: float) -> Estimate:
    """Compute the share of negative rows that are predicted negative: TN / N, in [0, 1].

    scikit-learn's ``recall_score`` with ``pos_label=0``. Raises `UndefinedMetricError` if there are no negative rows.
    """
    split = _split(histogram, threshold)
    _require(split.negatives, "negative", "specificity")
    return _estimate(split, lambda tp, fp: (split.negatives - fp) / split.negatives)


def accuracy_score(histogram: Histogram, threshold: float) -> Estimate:
    """Compute the share of rows predicted right: (TP + TN) / (P + N); `UndefinedMetricError` if there are no rows."""
    split = _split(histogram, threshold)
    rows = split.positives + split.negatives
    _require(rows, "positive or negative", "accuracy")
    return _estimate(split, lambda tp, fp: (tp + split.negatives - fp) / rows)


def balanced_accuracy_score(histogram: Histogram, threshold: float) -> Estimate:
    """Compute the mean of recall and specificity; `UndefinedMetricError` unless there are rows of both labels."""
    split = _split(histogram, threshold)
    _require(split.positives, "positive", "balanced accuracy")
    _require(split.negatives, "negative", "balanced accuracy")
    return _estimate(split, lambda tp, fp: (tp / split.positives + (split.negatives - fp) / split.negatives) / 2)


def f1_score(histogram: Histogram, threshold: float) -> Estimate:
    """Compute the harmonic mean of precision and recall: 2 TP / (P + TP + FP), in [0, 1].

    Raises `UndefinedMetricError` if there are no positive rows.
    """
    split = _split(histogram, threshold)
    _require(split.positives, "positive", "F1")
    return _estimate(split, lambda tp, fp: 2 * tp / (split.positives + tp + fp))


def threshold_of_specificity(histogram: Histogram, least: float) -> float:
    """Return the lowest edge, of those of `best_f1_threshold`, with at least that specificity: it has the best recall.

    Raises `UndefinedMetricError` if there are no negative rows, or too many of them in the highest bin.
    """
    _, fp, thresholds = at_or_above(histogram)
    _require(float(fp[:1].sum()), "negative", "specificity")
    fit = (fp[0] - fp) / fp[0] >= least - _ROUNDING
    if not fit.any():
        raise UndefinedMetricError(f"no bin begins where the specificity is {least} or more")
    return float(thresholds[fit][0])


def threshold_of_recall(histogram: Histogram, least: float) -> float:
    """Return the highest edge, of those of `best_f1_threshold`, with at least that recall: it has the best specificity.

    Raises `UndefinedMetricError` if there are no positive rows.
    """
    tp, _, thresholds = at_or_above(histogram)
    _require(float(tp[:1].sum()), "positive", "recall")
    return float(thresholds[tp / tp[0] >= least - _ROUNDING][-1])


def best_f1_threshold(histogram: Histogram) -> float:
    """Return the edge with the largest F1, the lower one of a bin that holds rows; of several, the lowest.

    Raises `UndefinedMetricError` if there are no positive rows.
    """
    tp, fp, thresholds = at_or_above(histogram)
    _require(float(tp[:1].sum()), "positive", "F1")
    return float(thresholds[np.argmax(2 * tp / (tp[0] + tp + fp))])

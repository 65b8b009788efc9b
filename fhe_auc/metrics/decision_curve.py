"""Decision curve: what a classifier is worth to those who act on it, beside acting on everybody or on nobody."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import UndefinedMetricError
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.probabilities import with_rows


class DecisionCurve(NamedTuple):
    """Net benefit at threshold probabilities, all of shape (k,); that of treating nobody is 0.

    Attributes
    ----------
    thresholds : ndarray of float64
        Rising, below 1: the lower edges of k bins.
    model, treat_all : ndarray of float64
        Net benefit, in true positives a row: of acting where the score is at or above the threshold, and on every row.
        At most the share of positive rows.
    """

    thresholds: NDArray[np.float64]
    model: NDArray[np.float64]
    treat_all: NDArray[np.float64]


def decision_curve(histogram: Histogram) -> DecisionCurve:
    """Compute TP/M - FP/M·t/(1 - t) at each threshold t of the bins, M being all rows.

    Vickers, Elkin, "Decision curve analysis", Medical Decision Making 26 (2006), 565-574. It is exact at bins' edges.

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

"""Bayesian binning into quantiles (BBQ): calibration by many histograms at once, each weighed by its likelihood.

[BBQ] Naeini, Cooper, Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import UndefinedMetricError
from fhe_auc.base.numerics import log_beta
from fhe_auc.metrics.calibration import CalibrationMap
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.probabilities import require_probabilities

_PRIOR_ROWS = 2.0  # in each bin: N' = 2 B in [BBQ]
_NEAREST_END = 0.005  # the prior's mean stays that far from 0 and 1, as in the authors' program


def bayesian_binning(histogram: Histogram) -> CalibrationMap:
    """Compute the BBQ calibration map from a histogram with many bins, on the histogram's own bins.

    For every B from M^(1/3)/10 to 10 M^(1/3), neighbouring bins are merged into B bins of about equally many rows. With
    a prior Beta(2 c_b, 2 (1 - c_b)) around the middle c_b of each merged bin, the model's score is its marginal
    likelihood prod_b B(m_b + 2 c_b, n_b + 2 (1 - c_b)) / B(2 c_b, 2 (1 - c_b)) for m_b positive and n_b negative rows
    ([BBQ] eq. 2), and its calibrated score the posterior mean (m_b + 2 c_b) / (m_b + n_b + 2). The map is the average
    of all models, weighted by their scores.

    Parameters
    ----------
    histogram : Histogram
        Edges in [0, 1], M rows; at best ten times M^(1/3) bins or more, since bins are merged and never split.

    Raises
    ------
    UndefinedMetricError
        If there is less than one row.
    InputError
        If the edges leave [0, 1].
    """
    require_probabilities(histogram)
    usable = histogram.cleaned()
    rows = float(usable.counts.sum())
    if rows < 1:
        raise UndefinedMetricError("the histogram holds no row, so there is nothing to calibrate by")
    scores, models = zip(*(_model(usable, cuts) for cuts in _binnings(usable, rows)), strict=True)
    probabilities = np.zeros(usable.bins)
    weights = np.exp(np.array(scores) - max(scores))
    for weight, (estimates, widths) in zip(weights / weights.sum(), models, strict=True):
        probabilities += weight * np.repeat(estimates, widths)
    return CalibrationMap(usable.edges, np.clip(probabilities, 0.0, 1.0))


def _binnings(histogram: Histogram, rows: float) -> Iterator[NDArray[np.intp]]:
    """Yield, for each B, the first fine bin of every merged bin; ties leave fewer than B of them."""
    cumulative = np.cumsum(histogram.counts)
    least = max(1, int(rows ** (1 / 3) / 10))
    most = min(max(least, int(np.ceil(10 * rows ** (1 / 3)))), max(least, int((histogram.counts > 0).sum())))
    for bins in range(least, most + 1):
        ends = np.searchsorted(cumulative, cumulative[-1] * np.arange(1, bins) / bins) + 1
        cuts = np.unique(np.append(0, ends))
        yield cuts[cuts <= np.searchsorted(cumulative, cumulative[-1])]  # no merged bin without rows at the end


def _model(histogram: Histogram, cuts: NDArray[np.intp]) -> tuple[float, tuple[NDArray[np.float64], NDArray[np.intp]]]:
    """Return the log score of one binning, the calibrated score in each merged bin, and how many bins it is of."""
    ends = np.append(cuts[1:], histogram.bins)
    positives, negatives = (np.add.reduceat(counts, cuts) for counts in (histogram.positives, histogram.negatives))
    middles = (histogram.edges[cuts] + histogram.edges[ends]) / 2
    alpha = _PRIOR_ROWS * np.clip(middles, _NEAREST_END, 1 - _NEAREST_END)
    beta = _PRIOR_ROWS - alpha
    score = float((log_beta(positives + alpha, negatives + beta) - log_beta(alpha, beta)).sum())
    estimates = (positives + alpha) / (positives + negatives + _PRIOR_ROWS)
    return score, (estimates, ends - cuts)

"""Bayesian binning into quantiles (BBQ): calibration by many histograms at once, each weighed by its likelihood.

[BBQ] Naeini, Cooper, Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import UndefinedMetricError
from fhe_auc.base.numerics import log_beta
from fhe_auc.metrics.calibration import CalibrationMap
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.probabilities import require_probabilities

_PRIOR_ROWS = 2.0  # in each bin: N' = 2 B in [BBQ]
_ROUNDING = 1e-9  # of a bin: sums of equal parts reach their multiple
_NEAREST_END = 0.005  # the prior's mean stays that far from 0 and 1, as in the authors' program


def bayesian_binning(histogram: Histogram) -> CalibrationMap:
    """Compute the BBQ calibration map from a histogram with many bins, on the histogram's own bins.

    For every B from M^(1/3)/10 to 10 M^(1/3), M being the rows, and no larger than the number of bins with rows,
    neighbouring bins are merged into B bins of about equally many rows (`_binnings`). With a prior Beta(2 c_b, 2 (1 -
    c_b)) around the middle c_b of each merged bin, the model's score is its marginal likelihood prod_b B(m_b + 2 c_b,
    n_b + 2 (1 - c_b)) / B(2 c_b, 2 (1 - c_b)) for m_b positive and n_b negative rows ([BBQ] eq. 2), and its calibrated
    score the posterior mean (m_b + 2 c_b) / (m_b + n_b + 2). The map is the average of all models, weighted by their
    scores. At best there are ten times M^(1/3) bins or more, since bins are merged and never split.

    Raises `UndefinedMetricError` if there is less than one row, `InputError` if the edges leave [0, 1].
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
    """Yield, for each B, the first fine bin of every merged bin.

    Rows of a fine bin beyond its B-th part, as of a frequent score, do not count ([BBQ] says nothing of ties): for the
    largest B all fine bins weigh the same, if that is their number. One without rows goes with the next that has.
    """
    occupied = np.flatnonzero(histogram.counts > 0)
    counts = histogram.counts[occupied]
    firsts = np.append(0, occupied[:-1] + 1)
    descending = np.sort(counts)[::-1]
    others = np.cumsum(descending[::-1])[::-1]  # rows in all bins but the k largest
    most = min(int(np.ceil(10 * rows ** (1 / 3))), len(counts))
    for bins in range(min(max(1, int(rows ** (1 / 3) / 10)), most), most + 1):
        left = bins - np.arange(bins)
        k = int(np.argmax(descending[:bins] * left <= others[:bins]))
        part = others[k] / left[k]
        reached = np.cumsum(np.minimum(counts, part))
        ends = np.searchsorted(reached, part * (np.arange(1, bins) - _ROUNDING)) + 1
        starts = np.unique(np.append(0, ends))
        yield firsts[starts[starts < len(counts)]]


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

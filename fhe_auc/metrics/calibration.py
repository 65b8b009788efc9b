"""Calibration: what share of rows with a score is positive, how far scores are from it, and steps that mend them.

All take scores for probabilities: they raise `InputError` if edges leave [0, 1], `UndefinedMetricError` without rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError, UndefinedMetricError
from fhe_auc.base.special_functions import log_beta
from fhe_auc.metrics.histogram import Estimate, Histogram, bin_index
from fhe_auc.metrics.probabilities import require_probabilities, with_rows

CALIBRATION_BINS = 10

_PRIOR_ROWS = 2.0  # in each bin: N' = 2 B in [BBQ]
_ROUNDING = 1e-9  # of a bin: sums of equal parts reach their multiple
_NEAREST_END = 0.005  # the prior's mean stays that far from 0 and 1, as in the authors' program
_RANK_ROUNDING = 1e-9  # so far below a whole number, rounding decides on which side of an end a row is


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CalibrationMap:
    """A step function from scores to probabilities of label 1, of shape (B,); `InputError` for what is none.

    `edges`, shape (B + 1,), ascend in [0, 1]; bins are those of a `Histogram`. Scores beyond the ends belong to the end
    bins.
    """

    edges: NDArray[np.float64]
    probabilities: NDArray[np.float64]

    def __post_init__(self) -> None:
        steps = Histogram(self.edges, self.probabilities, np.zeros(np.shape(self.probabilities)))  # the same checks
        require_probabilities(steps)
        outside = (steps.positives < 0) | (steps.positives > 1)
        if outside.any():
            position = int(outside.argmax())
            raise InputError(f"calibration map: probability {position} is {steps.positives[position]}, not in [0, 1]")
        object.__setattr__(self, "edges", steps.edges)
        object.__setattr__(self, "probabilities", steps.positives)

    def __repr__(self) -> str:
        return f"CalibrationMap(bins={len(self.probabilities)})"

    def __call__(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Calibrate scores in [0, 1]; raise `InputError` with row and value for any other."""
        given = np.asarray(scores, dtype=np.float64)
        unfit = ~((given >= 0) & (given <= 1))
        if unfit.any():
            row = int(unfit.argmax())
            raise InputError(f"row {row}: score is {float(given.flat[row])!r}; scores to calibrate must be in [0, 1]")
        return self.probabilities[bin_index(self.edges, given)]

    def as_dict(self) -> dict[str, list[float]]:
        """Return plain types, ready for ``json.dumps``."""
        return {"edges": self.edges.tolist(), "probabilities": self.probabilities.tolist()}


class CalibrationCurve(NamedTuple):
    """Points of the reliability diagram, for the K' evaluation bins that hold rows.

    All are of shape (K',): `prob_true` is the share of positive rows, `prob_pred` the mean score, `rows` their number.
    """

    prob_true: NDArray[np.float64]
    prob_pred: NDArray[np.float64]
    rows: NDArray[np.float64]


def bayesian_binning(histogram: Histogram) -> CalibrationMap:
    """Compute the BBQ calibration map from a histogram with many bins, on the histogram's own bins.

    For every B from M^(1/3)/10 to 10 M^(1/3), M being the rows, and no larger than the number of bins with rows,
    neighbouring bins are merged into B bins of about equally many rows (`_binnings`). With a prior Beta(2 c_b, 2 (1 -
    c_b)) around the middle c_b of each merged bin, the model's score is its marginal likelihood prod_b B(m_b + 2 c_b,
    n_b + 2 (1 - c_b)) / B(2 c_b, 2 (1 - c_b)) for m_b positive and n_b negative rows ([BBQ] eq. 2), and its calibrated
    score the posterior mean (m_b + 2 c_b) / (m_b + n_b + 2). The map is the average of all models, weighted by their
    scores. At best there are ten times M^(1/3) bins or more, since bins are merged and never split.

    [BBQ] Naeini, Cooper, Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015.
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


def calibration_curve(histogram: Histogram, *, n_bins: int = CALIBRATION_BINS) -> CalibrationCurve:
    """Compute the points of the reliability diagram.

    Every bin goes as a whole to the evaluation bin of its score: its middle. The `n_bins` evaluation bins, 1 or more,
    far fewer than the histogram's, are of about equally many rows (``strategy="quantile"``); as in scikit-learn, they
    include their upper end.
    """
    usable = with_rows(histogram, "nothing to calibrate by")
    scores = usable.centres
    groups = np.searchsorted(_bin_ends(usable, scores, n_bins), scores)
    per_bin = (usable.positives, usable.counts, usable.counts * scores)
    positives, rows, sums = (np.bincount(groups, weights, minlength=n_bins).astype(np.float64) for weights in per_bin)
    some = rows > 0
    return CalibrationCurve(positives[some] / rows[some], sums[some] / rows[some], rows[some])


def expected_calibration_error(histogram: Histogram, *, n_bins: int = CALIBRATION_BINS) -> Estimate:
    """Compute the mean distance, over rows, between share of positives and mean score in evaluation bins; in [0, 1].

    Arguments are those of `calibration_curve`. The range holds the error of the rows' own scores in their
    own evaluation bins, as scikit-learn would cut them: where an end of one may lie inside a bin of the histogram, any
    of that bin's rows may be on either side. [BBQ] (see `bayesian_binning`); [FCE] section 2.1.
    """
    curve = calibration_curve(histogram, n_bins=n_bins)
    total = curve.rows.sum()
    value = float(curve.rows @ np.abs(curve.prob_true - curve.prob_pred) / total)
    usable = histogram.cleaned()
    scores, lowest, highest = usable.centres, usable.edges[:-1], np.nextafter(usable.edges[1:], -1)
    highest[-1] = usable.edges[-1]  # other bins are without their upper edge
    reach = np.maximum(scores - lowest, highest - scores)
    # Rows on the other side of an end take their distance from one evaluation bin, and bring it to another.
    ends = _may_split(usable, lowest, highest, n_bins)
    distances = usable.positives * (1 - scores), usable.negatives * scores
    moved = np.where(ends > 1, np.add(*distances), np.maximum(*distances)) * (ends > 0)
    half_width = float((usable.counts @ reach + 2 * moved.sum()) / total)
    return Estimate(value, max(0.0, value - half_width), min(1.0, value + half_width))


def _bin_ends(usable: Histogram, scores: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """Return the upper ends of evaluation bins, included in them, but for the last, if bins have their score."""
    ranks = _end_ranks(usable, n_bins)
    whole = np.floor(ranks)
    lower, upper = (_of_rank(scores, usable.counts, each) for each in (whole, whole + 1))
    return np.asarray(lower + (upper - lower) * (ranks - whole))  # as of `numpy.percentile`


def _may_split(
    usable: Histogram, lowest: NDArray[np.float64], highest: NDArray[np.float64], n_bins: int
) -> NDArray[np.intp]:
    """Return how many ends of evaluation bins may lie between rows of each bin, whose scores are in that range."""
    # An end parts the rows up to its rank from those above, but for ties with the last of them.
    ranks = _end_ranks(usable, n_bins)
    at_most = _of_rank(highest, usable.counts, np.floor(ranks + _RANK_ROUNDING))
    last, next_one = (_of_rank(lowest, usable.counts, np.floor(ranks) + above) for above in (0, 1))
    at_least = np.maximum(last, np.nextafter(next_one, -1))
    return np.asarray(np.maximum(0, np.searchsorted(at_least, highest) - np.searchsorted(at_most, lowest)))


def _end_ranks(usable: Histogram, n_bins: int) -> NDArray[np.float64]:
    """Return how many rows have lower scores than each quantile; between two rows, no whole number."""
    shares = np.linspace(0, 1, n_bins + 1, dtype=np.float64)[1:-1]
    return np.asarray(100 * shares / 100 * max(0.0, usable.counts.sum() - 1))  # scikit-learn's, to the bit


def _of_rank(
    scores: NDArray[np.float64], counts: NDArray[np.float64], ranks: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the score of the row of each rank, from 0, where so many rows have each score."""
    order = np.argsort(scores)
    order = order[counts[order] > 0]
    at = np.searchsorted(np.cumsum(counts[order]), ranks, side="right")
    return np.asarray(scores[order[np.minimum(at, len(order) - 1)]])

"""Metrics that take a score for the probability of label 1: log loss, normalised entropy, Brier score.

A bin does not say where inside it a row's score is. The value takes the bin's middle, the range its two edges. Every
metric raises `InputError` if the edges leave [0, 1], and `UndefinedMetricError` if there are no rows.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, UndefinedMetricError
from fhe_auc.metrics.histogram import Estimate, Histogram, with_both_labels

_Loss: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_EPSILON = float(np.finfo(np.float64).eps)  # scikit-learn's log_loss takes scores from there to 1 minus that


def brier_score_loss(histogram: Histogram) -> Estimate:
    """Compute the mean squared distance between label and score, in [0, 1]."""
    return _mean_loss(histogram, lambda score: np.square(1 - score), np.square, "Brier score")


def brier_score_error(histogram: Histogram) -> float:
    """Compute the standard error of the Brier score of rows drawn independently, which is a mean over them.

    Rows of a bin have its middle as score.
    """
    usable = with_rows(histogram, "no Brier score")
    return _error_of_mean(usable, np.stack([np.square(1 - usable.centres), np.square(usable.centres)]))


def scaled_brier_score(histogram: Histogram) -> tuple[Estimate, float]:
    """Compute 1 - B/(o(1 - o)) and its standard error, by the delta method; rows of a bin have its middle as score.

    B is the Brier score and o the share of positive rows: 1 is perfect, 0 as good as giving o to every row. Steyerberg
    et al., Epidemiology 21 (2010), 128-138. Raises `UndefinedAucError` if there are no positive or no negative rows.
    """
    usable = with_both_labels(histogram)
    brier, share = brier_score_loss(usable), float(usable.positives.sum() / usable.counts.sum())
    most = share * (1 - share)
    value, low, high = (1 - each / most for each in (brier.value, brier.high, brier.low))
    losses = np.stack([np.square(1 - usable.centres), np.square(usable.centres)])
    steepness = brier.value * (1 - 2 * share) / most  # of B/(o(1 - o)) by o, times o(1 - o)
    return Estimate(value, low, high), _error_of_mean(usable, losses - steepness * np.array([[1.0], [0.0]])) / most


def _error_of_mean(usable: Histogram, values: NDArray[np.float64]) -> float:
    """Return the standard error of the mean over rows; values are of positive and negative rows, shape (2, B)."""
    rows = usable.counts.sum()
    return float(np.sqrt((usable.spread * np.square(values - (usable.sides * values).sum() / rows)).sum()) / rows)


class BrierDecomposition(NamedTuple):
    """Parts of the Brier score, reliability - resolution + uncertainty; each in [0, 1]."""

    reliability: float
    resolution: float
    uncertainty: float


def brier_decomposition(histogram: Histogram, scores: NDArray[np.float64] | None = None) -> BrierDecomposition:
    """Part the value of `brier_score_loss`, all rows of a bin having its middle f_k as score, or what `scores` has.

    With o_k the share of positive rows in bin k, M_k its rows, o that of all M rows: reliability
    Σ M_k (f_k - o_k)²/M, resolution Σ M_k (o_k - o)²/M, uncertainty o(1 - o). Murphy, "A new vector partition of the
    probability score", Journal of Applied Meteorology 12 (1973), 595-600. Bins of few rows make the first two larger by
    chance, both alike. `scores` is of shape (B,), in [0, 1].
    """
    usable = with_rows(histogram, "no Brier score")
    rows = usable.counts.sum()
    share = float(usable.positives.sum() / rows)
    observed = np.divide(usable.positives, usable.counts, out=np.zeros(usable.bins), where=usable.counts > 0)
    reliability, resolution = (
        float(usable.counts @ np.square(observed - near) / rows)
        for near in (usable.centres if scores is None else scores, share)
    )
    return BrierDecomposition(reliability, resolution, share * (1 - share))


def log_loss(histogram: Histogram) -> Estimate:
    """Compute the mean of -ln(score) over positive and -ln(1 - score) over negative rows: nats, from 0 to 36.04.

    A negative row in a bin that reaches up to 1, or a positive one in a bin that reaches down to 0, widens the range a
    lot: scikit-learn gives such a score of 2.2e-16 from the end up to 36.04.
    """
    return _mean_loss(histogram, _surprise, lambda score: _surprise(1 - score), "log loss")


def _surprise(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped: NDArray[np.float64] = np.clip(probability, _EPSILON, 1 - _EPSILON)
    return -np.log(clipped)


def normalised_entropy(histogram: Histogram) -> Estimate:
    """Compute the log loss over that of a classifier that always gives the share of positive rows; at least 0.

    He et al., "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD 2014, eq. 3. Below 1 is better.
    Raises `UndefinedAucError` if there are no positive or no negative rows.
    """
    usable = with_both_labels(histogram)
    loss = log_loss(usable)
    rate = float(usable.positives.sum() / usable.counts.sum())
    entropy = -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)
    return Estimate(float(loss.value / entropy), float(loss.low / entropy), float(loss.high / entropy))


def of_probabilities(histogram: Histogram) -> bool:
    """Tell whether the edges lie in [0, 1], so that scores can be probabilities."""
    return bool(histogram.edges[0] >= 0 and histogram.edges[-1] <= 1)


def require_probabilities(histogram: Histogram) -> None:
    """Raise `InputError` unless scores can be probabilities."""
    if not of_probabilities(histogram):
        raise InputError(
            f"histogram: the edges reach from {float(histogram.edges[0])!r} to {float(histogram.edges[-1])!r}; scores "
            "must be probabilities in [0, 1] for this metric"
        )


def with_rows(histogram: Histogram, without: str) -> Histogram:
    """Return the cleaned histogram of probabilities; raise `UndefinedMetricError` where it has no rows."""
    require_probabilities(histogram)
    usable = histogram.cleaned()
    if not usable.counts.sum() > 0:
        raise UndefinedMetricError(f"the histogram holds no row, so there is {without}")
    return usable


def _mean_loss(histogram: Histogram, of_positive: _Loss, of_negative: _Loss, name: str) -> Estimate:
    """Average a loss that falls with the score of a positive row and rises with that of a negative one."""
    usable = with_rows(histogram, f"no {name}")
    rows = usable.counts.sum()

    def mean(positive_scores: NDArray[np.float64], negative_scores: NDArray[np.float64]) -> float:
        losses = usable.positives @ of_positive(positive_scores) + usable.negatives @ of_negative(negative_scores)
        return float(losses / rows)

    lower, upper, centres = usable.edges[:-1], usable.edges[1:], usable.centres
    value = mean(centres, centres)
    return Estimate(value, min(mean(upper, lower), value), max(mean(lower, upper), value))

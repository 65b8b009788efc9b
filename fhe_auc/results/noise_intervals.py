"""Intervals and bands of noisy counts: they contain the noise, the rows' sampling, and what no edge tells of the curve.

They rest on replicates of the released counts alone, and so cost no privacy: rows are drawn anew from these counts, and
noise from its law; each replicate is fitted as the counts are. Beyond the outermost edges, where the fit's own error is
not far below the noise, its lines are bent by a normal variable with the whole curve's bend for standard deviation.

Intervals lie between percentiles of replicates, which held most evenly in simulated studies (docs/evidence/noise.md). A
simultaneous band is the pointwise one, wider by one factor: the level's share of replicates is inside everywhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import UndefinedAucError
from fhe_auc.metrics import private_curves
from fhe_auc.metrics.histogram import Floats, Histogram, with_both_labels
from fhe_auc.metrics.private_curves import CountNoise, RocFit, deviates_to_rates, rates_to_deviates, without_gaps
from fhe_auc.results.intervals import Interval, quantile

RUNS = 400
METHOD = "percentiles of replicates of rows and noise"
PLACES: Floats = np.arange(1, 200, dtype=np.float64) / 200  # rates at which the curve is told

_BIASED = 0.5  # standard errors
_FEWEST = 0.95 * RUNS
_MOST_BINS = 5000


class Curve(NamedTuple):
    """A curve of noisy counts, at `PLACES`, and its bands.

    With the level's probability the true curve is within the pointwise ends, `low` and `high`, at any one place, and
    within the simultaneous ones, `lowest` and `highest`, at all.
    """

    at: Floats
    value: Floats
    low: Floats
    high: Floats
    lowest: Floats
    highest: Floats


def resampled(histogram: Histogram, noise: CountNoise) -> list[Histogram]:
    """Return replicates of noisy counts, the same ones each time; none of very many bins, which would take long.

    Raises `UndefinedAucError` as `RocFit.fitted`.
    """
    shares, random = with_both_labels(without_gaps(histogram)).sides.ravel(), _random(histogram)
    if histogram.bins > _MOST_BINS:
        return []
    counts = random.multinomial(round(shares.sum()), shares / shares.sum(), RUNS)
    noisy = counts + noise.drawn(random, *counts.shape)
    return [Histogram(histogram.edges, *each.reshape(2, -1)) for each in noisy]


def auc_interval(histogram: Histogram, noise: CountNoise, level: float) -> tuple[float | None, Interval | None]:
    """Return the standard error of the AUC of `RocFit`, and its interval; None both where there is none."""
    found = curve_intervals(histogram, noise, level, lambda fit: {"auc": fit.auc}).get("auc")
    if found is None:
        return None, None
    return float(np.std([each.auc for each in _fits(histogram, noise)[1]], ddof=1)), found


def curve_intervals(
    histogram: Histogram, noise: CountNoise, level: float, measure: Callable[[RocFit], Mapping[str, float]]
) -> Mapping[str, Interval]:
    """Return the interval of each measure of the curve, such as average precision."""
    own, fits = _fits(histogram, noise)
    return _intervals(measure(own), [measure(each) for each in fits], level, np.inf)


def measure_intervals(
    histogram: Histogram, noise: CountNoise, level: float, measure: Callable[[Histogram], Mapping[str, float]]
) -> Mapping[str, Interval]:
    """Return the interval of each measure of counts, where replicates have it and noise does not bias it.

    It does where the mean of replicates lies more than half a standard error from the value, as of maxima.
    """
    return _intervals(measure(histogram), [measure(each) for each in resampled(histogram, noise)], level, _BIASED)


def bands(histogram: Histogram, noise: CountNoise, level: float) -> dict[str, Curve]:
    """Return "roc" and "precision_recall"; raise `UndefinedAucError` where there are no bands, and as `quantile`."""
    own, fits = _fits(histogram, noise)
    if len(fits) < _FEWEST:
        raise UndefinedAucError("noise is too large beside these rows, or bins are too many, for bands of the curve")
    tpr, precision = own.tpr(PLACES), own.precision(PLACES)
    some = np.minimum(tpr, 1 - tpr) * own.positives > private_curves.LEAST_ROWS
    roc = _curve(tpr, np.stack([each.tpr(PLACES) for each in fits]), some, level)
    lowest, highest = np.maximum.accumulate(roc.lowest), np.minimum.accumulate(roc.highest[::-1])[::-1]
    rising = roc._replace(lowest=lowest, highest=highest)  # as the true curve
    of_precision = np.stack([each.precision(PLACES) for each in fits])
    return {"roc": rising, "precision_recall": _curve(precision, of_precision, np.ones_like(some), level)}


def _random(histogram: Histogram) -> np.random.Generator:
    """Return a generator of experiments, which protects nobody, by the counts."""
    return np.random.default_rng(zlib.crc32(histogram.sides.tobytes()))


def _fits(histogram: Histogram, noise: CountNoise) -> tuple[RocFit, Sequence[RocFit]]:
    """Return the curve, and those of replicates that have one."""
    return _fits_of(histogram.edges.tobytes(), histogram.sides.tobytes(), noise)


@lru_cache(maxsize=4)  # all parties of one process ask for the same, and a report for several intervals
def _fits_of(edges: bytes, sides: bytes, noise: CountNoise) -> tuple[RocFit, Sequence[RocFit]]:
    histogram = Histogram(np.frombuffer(edges), *np.frombuffer(sides).reshape(2, -1))
    own, found = RocFit.fitted(histogram, noise), list[RocFit]()
    drawn = resampled(histogram, noise)
    bends = own.bend * _random(histogram).normal(size=len(drawn))
    for each, bend in zip(drawn, bends.tolist(), strict=True):
        try:
            found.append(RocFit.fitted(each, noise, bend))
        except UndefinedAucError:
            continue
    return own, found


def _intervals(
    values: Mapping[str, float], drawn: Sequence[Mapping[str, float]], level: float, most_bias: float
) -> Mapping[str, Interval]:
    found = dict[str, Interval]()
    for name, value in values.items():
        of_name = np.array([each[name] for each in drawn if name in each])
        error = float(of_name.std()) if len(of_name) >= _FEWEST else 0.0
        if error > 0 and abs(of_name.mean() - value) <= most_bias * error:
            low, high = _percentiles(np.float64(value), of_name, level)
            found[name] = Interval(level, float(low), float(high), METHOD)
    return found


def _percentiles(value: Floats | np.float64, drawn: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends, the value between them."""
    quantile(level)  # checks it
    low, high = np.quantile(drawn, ((1 - level) / 2, (1 + level) / 2), axis=0, method="weibull")
    return np.minimum(low, value), np.maximum(high, value)


def _curve(value: Floats, drawn: Floats, some: NDArray[np.bool_], level: float) -> Curve:
    """Return a curve with its bands, on the deviates' scale; the simultaneous one has regard to `some` places."""
    low, high = _percentiles(value, drawn, level)
    centre, others, lower, upper = (rates_to_deviates(each) for each in (value, drawn, low, high))
    below, above = np.maximum(centre - lower, 1e-9), np.maximum(upper - centre, 1e-9)
    reach = np.maximum((centre - others) / below, (others - centre) / above)[:, some].max(axis=1, initial=1.0)
    factor = float(np.quantile(reach, level, method="weibull"))
    ends = deviates_to_rates(centre - factor * below), deviates_to_rates(centre + factor * above)
    return Curve(PLACES, value, low, high, *ends)

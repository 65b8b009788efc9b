"""Intervals and bands of noisy counts: they contain the noise, the rows' sampling, and what no edge tells of the curve.

They rest on replicates of the released counts alone, and so cost no privacy: rows are drawn anew from these counts,
independently, and noise from its law. Each replicate is fitted as the counts are. Between edges the fit's own error is
far below the noise. Beyond the outermost ones it is not: lines there are bent in each replicate, up or down, by a
normal variable with the whole curve's bend for a standard deviation.

Intervals lie between percentiles of replicates: of intervals of 95 % at ε = 2, these held most evenly near 95 %, in
simulated studies; standard errors and percentiles turned round less so (docs/evidence/noise.md). A simultaneous band is
the pointwise one made wider by one factor, which leaves the level's share of replicates inside everywhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import UndefinedAucError
from fhe_auc.metrics.histogram import Histogram, with_both_labels
from fhe_auc.metrics.private_curves import CountNoise, RocFit, deviates_to_rates, rates_to_deviates, without_gaps
from fhe_auc.results.intervals import Interval, quantile

RUNS = 400
METHOD = "percentiles of replicates of rows and noise"

_RATES = np.arange(1, 200, dtype=np.float64) / 200
_LEAST_ROWS = 0.25  # on either side: a simultaneous band counts places with so many
_BIASED = 0.5  # standard errors
_FEWEST = 0.95 * RUNS
_MOST_BINS = 5000


@dataclass(frozen=True, eq=False)
class Bands:
    """The curves of noisy counts with pointwise and simultaneous ends, all of shape (n,).

    With the level's probability the true curve is within the pointwise ends at any one place, within the simultaneous
    ones at all.
    """

    fpr: NDArray[np.float64]  # ascending, inside (0, 1)
    tpr: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    lowest: NDArray[np.float64]  # simultaneous
    highest: NDArray[np.float64]
    recall: NDArray[np.float64]  # ascending, inside (0, 1)
    precision: NDArray[np.float64]
    precision_low: NDArray[np.float64]
    precision_high: NDArray[np.float64]
    precision_lowest: NDArray[np.float64]
    precision_highest: NDArray[np.float64]


def resampled(histogram: Histogram, noise: CountNoise, runs: int = RUNS) -> list[Histogram]:
    """Return replicates of noisy counts, the same ones each time; raise `UndefinedAucError` as `RocFit.fitted`."""
    shares, random = with_both_labels(without_gaps(histogram)).sides.ravel(), _random(histogram)
    counts = random.multinomial(round(shares.sum()), shares / shares.sum(), runs) + noise.drawn(
        random, runs, len(shares)
    )
    return [Histogram(histogram.edges, *each.reshape(2, -1)) for each in counts]


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
    drawn = resampled(histogram, noise) if histogram.bins <= _MOST_BINS else []
    return _intervals(measure(histogram), [measure(each) for each in drawn], level, _BIASED)


def bands(histogram: Histogram, noise: CountNoise, level: float) -> Bands:
    """Return both curves with their bands; `UndefinedAucError` where there are none; errors as of `quantile`."""
    own, fits = _fits(histogram, noise)
    if len(fits) < _FEWEST:
        raise UndefinedAucError("noise is too large beside these rows, or bins are too many, for bands of the curve")
    tpr, precision = own.tpr(_RATES), own.precision(_RATES)
    some = np.minimum(tpr, 1 - tpr) * own.positives > _LEAST_ROWS
    low, high, lowest, highest = _ends(tpr, np.stack([each.tpr(_RATES) for each in fits]), some, level)
    lowest, highest = np.maximum.accumulate(lowest), np.minimum.accumulate(highest[::-1])[::-1]  # the true curve rises
    of_precision = _ends(precision, np.stack([each.precision(_RATES) for each in fits]), np.ones_like(some), level)
    return Bands(_RATES, tpr, low, high, lowest, highest, _RATES, precision, *of_precision)


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
    drawn = resampled(histogram, noise) if histogram.bins <= _MOST_BINS else []
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


def _percentiles(
    value: NDArray[np.float64] | np.float64, drawn: NDArray[np.float64], level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends, the value between them."""
    quantile(level)  # checks it
    low, high = np.quantile(drawn, ((1 - level) / 2, (1 + level) / 2), axis=0, method="weibull")
    return np.minimum(low, value), np.maximum(high, value)


def _ends(
    value: NDArray[np.float64], drawn: NDArray[np.float64], some: NDArray[np.bool_], level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return pointwise and simultaneous ends, on the deviates' scale; the latter have regard to `some` places."""
    low, high = _percentiles(value, drawn, level)
    centre, others, lower, upper = (rates_to_deviates(each) for each in (value, drawn, low, high))
    below, above = np.maximum(centre - lower, 1e-9), np.maximum(upper - centre, 1e-9)
    reach = np.maximum((centre - others) / below, (others - centre) / above)[:, some].max(axis=1, initial=1.0)
    factor = float(np.quantile(reach, level, method="weibull"))
    return low, high, deviates_to_rates(centre - factor * below), deviates_to_rates(centre + factor * above)

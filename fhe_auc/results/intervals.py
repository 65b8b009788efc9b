"""Confidence intervals: of rates Wilson's; of an AUC by its standard error (`fhe_auc.results.delong`); of a difference.

Intervals of an AUC A are made on the logit scale, logit A ± z·SE/(A(1 − A)), so that they stay between 0 and 1; or
plain, A ± z·SE, cut at 0 and 1, as pROC's `ci.auc` does. Few rows say too little of their own error: there, with P
positive and N negative ones, the ends are where

    |A − θ| = z·√(V(θ)·(SE²/V(A))^w)        V(θ) = θ(1 − θ)(1 + M(1 − θ)/(2 − θ) + Mθ/(1 + θ)) / (P·N)

with M = (P + N)/2 − 1, and w = 0 (method 5 of Newcombe, Stat. Med. 25 (2006), 559-573) or 1/2.

Patients are few where some have most of the rows: Student's t is taken, as for so many as P²/Σ(rows of a patient)²
(Kish, Survey Sampling, 1965). Where thresholds leave more open than the standard error, `widened` adds that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.special_functions import root
from fhe_auc.metrics.binning_error import WIDENED, outward

DELONG = "DeLong, logit scale"
PLAIN_DELONG = "DeLong, plain"
PAIRED_DELONG = "DeLong, paired, on binned scores"
CLUSTERED = "Obuchowski"  # in the place of DeLong in a method's name
HANLEY_MCNEIL = "Hanley and McNeil, logit scale"
AT_MOST = ", for classes that err together"  # of an average, at the end of a method's name
NEWCOMBE = "Newcombe, method 5"
HALF_NEWCOMBE = "between DeLong and Newcombe's method 5"
WILSON = "Wilson"
WITH_NOISE = ", with noise"  # at the end of a method's name
WILSON_CUT = "Wilson, at an estimated threshold"
WALD = "Wald"
WALD_LOGIT = "Wald, logit scale"

DEFAULT_LEVEL = 0.95

BELOW_HALF = "the whole interval lies below 1/2"
REVERSED = "labels or scores may be reversed (--positive-label, or 1 minus the score)"

FEWEST = 20
"""Of the rarer label: with fewer rows, errors are not DeLong's, and rates have no interval."""

FEW = 30  # rows, or patients, of the rarer label
FEW_PLAIN = (
    f"fewer than {FEW} positive or negative rows: plain intervals are too narrow (by default they are not plain)"
)
FEW_PATIENTS = (
    f"the patients with positive rows, or with negative ones, say as much as fewer than {FEW} with equally many rows: "
    "in simulated studies such intervals of 95 % held the AUC in 92 to 98 %"
)
_MISPLACED = 3.0  # rows of the rarer label, as the AUC has it: with fewer, DeLong's held only 85 to 93 %
_NORMAL = 10_000  # degrees of freedom


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval: with this level, by this method, from `low` to `high`."""

    level: float
    low: float
    high: float
    method: str

    @property
    def heading(self) -> str:
        """Its level for people: "95 % interval"."""
        return f"{100 * self.level:.6g} % interval"

    @property
    def independent(self) -> str:
        """What its method takes as independent: "rows", or "patients"."""
        return "patients" if self.method.startswith(CLUSTERED) else "rows"


def of_auc(
    auc: Fraction, rows: tuple[float, float], standard_error: float, level: float, method: str = DELONG
) -> Interval | None:
    """Return the interval of the AUC of so many positive and negative (effective) rows, two of each, with this error.

    It is `on_logit_scale`; Newcombe's where rows of the rarer label are fewer than 20, or the AUC is 0 or 1; half that
    where fewer than 3 of these are on the wrong side. None where all scores are tied.
    """
    rarer, share = min(rows), float(auc)
    weight = 0.0
    if rarer >= FEWEST and 0 < auc < 1:
        if rarer * min(share, 1 - share) >= _MISPLACED:
            return on_logit_scale(auc, standard_error, level, method)
        weight = 0.5 if method == DELONG else 0.0  # Hanley and McNeil's error is Newcombe's, about
    if not standard_error and 0 < auc < 1:
        return None
    m, z, pairs = sum(rows) / 2 - 1, quantile(level), math.prod(rows)

    def variance(at: float) -> float:
        return at * (1 - at) * (1 + m * (1 - at) / (2 - at) + m * at / (1 + at)) / pairs

    by = z * math.sqrt((standard_error**2 / variance(share)) ** weight) if weight else z
    low = root(lambda at: at + by * math.sqrt(variance(at)) - share, 0.0, share) if auc > 0 else 0.0
    high = root(lambda at: at - by * math.sqrt(variance(at)) - share, share, 1.0) if auc < 1 else 1.0
    return Interval(level, low, high, HALF_NEWCOMBE if weight else NEWCOMBE)


def on_logit_scale(auc: Fraction, standard_error: float, level: float, method: str) -> Interval | None:
    """Return the interval; None for an AUC of 0 or 1, or a standard error of 0. Errors as of `quantile`."""
    z = quantile(level)
    if not 0 < auc < 1 or not standard_error:
        return None
    centre = math.log(auc / (1 - auc))
    reach = z * standard_error / float(auc * (1 - auc))
    return Interval(level, expit(centre - reach), expit(centre + reach), method)


def plain(auc: Fraction, standard_error: float, level: float, method: str = PLAIN_DELONG) -> Interval | None:
    """Return A ± z·SE, cut at 0 and 1, as pROC's `ci.auc` gives DeLong's; None and errors as `on_logit_scale`."""
    reach = quantile(level) * standard_error
    if not 0 < auc < 1 or not standard_error:
        return None
    return Interval(level, max(0.0, float(auc) - reach), min(1.0, float(auc) + reach), method)


def widened(
    interval: Interval | None, standard_error: float | None, off: float, within: tuple[float, float] = (0.0, 1.0)
) -> Interval | None:
    """Return an interval with ends moved by the binning error `off`, as `outward` says; its method says so, too."""
    if interval is None or standard_error is None or off <= standard_error:
        return interval
    if (ends := outward((interval.low, interval.high), off, within)) is None:
        return None
    return Interval(interval.level, *ends, interval.method + WIDENED)


def expit(x: float) -> float:
    """Return 1/(1 + e^−x), the number of which x is the logit; without overflow."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def of_difference(
    difference: Fraction, standard_error: float, level: float, method: str = PAIRED_DELONG
) -> tuple[Interval, float]:
    """Return the interval of the difference of two AUCs, by the normal distribution, and the two-sided p-value."""
    reach = quantile(level) * standard_error
    p_value = math.erfc(abs(difference) / standard_error / math.sqrt(2))
    return Interval(level, float(difference) - reach, float(difference) + reach, method), p_value


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values of so many tests, corrected by Holm (Scandinavian Journal of Statistics 6, 1979, 65-70)."""
    order, given = np.argsort(p_values), np.asarray(p_values, np.float64)
    stepped = np.maximum.accumulate(np.arange(len(given), 0, -1) * given[order])
    return [float(each) for each in np.minimum(stepped[np.argsort(order)], 1.0)]


def wilson(
    successes: ArrayLike, rows: ArrayLike, level: float, noise: ArrayLike = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends, both in [0, 1], of Wilson's score interval of each rate k/n, without continuity correction.

        (k + z²/2 ± z·√(k(n − k)/n + z²/4)) / (n + z²)

    Of counts with `noise` of variance V (`noise_of_rate`), as |k/n − p| = z·√(p(1 − p)/n + V/n²): V·(1 + z²/n) is added
    below the root. Wilson, JASA 22 (1927), 209-212. `successes` k, `rows` n > 0 and the ends have one shape. Errors as
    `quantile`.
    """
    z = quantile(level)
    k, n = np.asarray(successes, np.float64), np.asarray(rows, np.float64)
    by_noise = np.asarray(noise) * (1 + z**2 / n)
    centre, reach = k + z**2 / 2, z * np.sqrt(np.maximum(k * (n - k), 0) / n + z**2 / 4 + by_noise)
    # The end beside a rate of 0 or 1 is that rate: rounding must not leave it out.
    low = np.where(k <= 0, 0.0, np.maximum((centre - reach) / (n + z**2), 0.0))
    return low, np.where(k >= n, 1.0, np.minimum((centre + reach) / (n + z**2), 1.0))


def effective(hits: ArrayLike, others: ArrayLike, squares: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return k of n rows of weight 1 that say as much of a share as weights do: Σw, Σw² of hits, and of others.

    n is p(1 − p) over the share's variance (Korn and Graubard, Survey Methodology 24 (1998), 193-201), rounded down;
    for a share of 0 or 1 (Σw)²/Σw². The former is right where weights go with labels, as of cases and controls.
    """
    hit, other, (of_hits, of_others) = np.asarray(hits, float), np.asarray(others, float), np.asarray(squares, float)
    total, both = hit + other, hit * other > 0
    p = hit / np.maximum(total, 1e-300)
    varied = np.where(both, of_hits * (1 - p) ** 2 + of_others * p**2, of_hits + of_others)
    rows = np.where(both, hit * other, total**2) / np.maximum(varied, 1e-300)
    rows = np.where(total > 0, np.maximum(np.floor(rows * (1 + 1e-9)), 1), 0)
    return p * rows, rows


def rate_interval(successes: float, rows: float, level: float | None, noise: float = 0.0) -> Interval | None:
    """Return Wilson's interval of a rate; None without a level, or of fewer than 20 rows."""
    if level is None or rows < FEWEST:
        return None
    return wilson_interval(successes, rows, level, noise)


def wilson_interval(successes: float, rows: float, level: float, noise: float = 0.0) -> Interval:
    """Return Wilson's interval of a rate; errors as of `quantile`."""
    low, high = wilson(successes, rows, level, noise)
    return Interval(level, float(low), float(high), WILSON + WITH_NOISE * (noise > 0))


def noise_of_rate(rate: ArrayLike, hits: ArrayLike, others: ArrayLike) -> NDArray[np.float64]:
    """Return the variance of k − p·n by noise, from that of the rows that hit, and of all others: for `wilson`."""
    p, of_hits, of_others = (np.asarray(each, np.float64) for each in (rate, hits, others))
    return np.asarray((1 - p) ** 2 * of_hits + p**2 * of_others)


def quantile(level: object) -> float:
    """Return how many standard errors an interval of that level reaches to either side.

    Raises `InputError` unless that is the level of an interval: a number from 0.5 to 0.9999.
    """
    if not isinstance(level, float) or not 0.5 <= level <= 0.9999:
        raise InputError(f"the level of an interval is a number from 0.5 to 0.9999, such as 0.95, got {level!r}")
    return NormalDist().inv_cdf((1 + level) / 2)


def student_t(freedom: int, level: float) -> float:
    """Return the t that |T| exceeds with probability 1 - level; T has Student's law. The normal one's from 10,000 on.

    With θ = arctan(t/√ν), P[|T| < t] is a finite sum (Abramowitz and Stegun 26.7.3 and 26.7.4):

        ν even   sin θ (1 + 1/2 cos² θ + (1·3)/(2·4) cos⁴ θ + … to cos^(ν-2) θ)
        ν odd    2/π (θ + sin θ (cos θ + 2/3 cos³ θ + (2·4)/(3·5) cos⁵ θ + … to cos^(ν-2) θ)), without sin θ if ν = 1
    """
    if freedom >= _NORMAL:
        return quantile(level)
    odd = freedom % 2
    j = np.arange(1, freedom // 2)
    factors = (2 * j - 1 + odd) / (2 * j + odd)

    def within(theta: float) -> float:
        cosine = math.cos(theta)
        terms = np.cumprod(factors * cosine**2)
        series = math.sin(theta) * (1 + float(terms.sum())) if freedom > 1 else 0.0
        return 2 / math.pi * (theta + cosine * series) if odd else series

    return math.sqrt(freedom) * math.tan(root(lambda theta: within(theta) - level, 0.0, math.pi / 2))

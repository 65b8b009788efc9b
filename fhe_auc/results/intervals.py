"""Confidence intervals: of rates Wilson's; of an AUC, from sums over bins, DeLong's, or Hanley and McNeil's.

With p_k and n_k the positive and negative rows of bin k, bins ascending in score, P and N the totals, A the AUC:

    Q10 = Σ p_k·(N_{<k} − N_{>k})²          S10 = (Q10/N² − P·(2A − 1)²) / (4(P − 1))
    Q01 = Σ n_k·(P_{>k} − P_{<k})²          S01 = (Q01/P² − N·(2A − 1)²) / (4(N − 1))

    SE² = S10/P + S01/N                     DeLong, DeLong and Clarke-Pearson, Biometrics 44 (1988), 837-845
    SE² = (A(1 − A) + (P − 1)(A/(2 − A) − A²) + (N − 1)(2A²/(1 + A) − A²)) / (P·N)
                                            Hanley and McNeil, Radiology 143 (1982), 29-36

    SE² of A_a − A_b: S^a + S^b − 2·ρ·√(S^a·S^b) in the place of S, for either label
                                            two models on the same rows; DeLong as above, where ρ is the correlation of
                                            N_{<k} − N_{>k} by the one model with that by the other

    SE² = S10/P + S01/N + 2·S11/(P·N)       Obuchowski, Biometrics 53 (1997), 567-578: S from sums over patients of what
                                            their rows are worth; S11 of positive with negative rows

The first is DeLong's for the rows with their scores binned. The second assumes scores of a certain distribution. Both
take rows as independent: patients who appear twice, or who are alike within a site, make them too narrow. The last
takes patients as independent, and is DeLong's where each has one row. Intervals are
made on the logit scale, logit A ± z·SE/(A(1 − A)), so that they stay between 0 and 1; or plain, A ± z·SE, cut at 0 and
1, as pROC's `ci.auc` does. Few rows say too little of their own error: there the ends are where

    |A − θ| = z·√(V(θ)·(SE²/V(A))^w)        V(θ) = θ(1 − θ)(1 + M(1 − θ)/(2 − θ) + Mθ/(1 + θ)) / (P·N)

with M = (P + N)/2 − 1, and w = 0 (method 5 of Newcombe, Stat. Med. 25 (2006), 559-573) or 1/2.

Patients are few where some have most of the rows: Student's t is taken, as for so many as P²/Σ(rows of a patient)²
(Kish, Survey Sampling, 1965). Where thresholds leave more open than the standard error, `widened` adds that.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.numerics import root

DELONG = "DeLong, logit scale"
PLAIN_DELONG = "DeLong, plain"
PAIRED_DELONG = "DeLong, paired, on binned scores"
CLUSTERED = "Obuchowski"  # in the place of DeLong in a method's name
HANLEY_MCNEIL = "Hanley and McNeil, logit scale"
AT_MOST = ", for classes that err together"  # of an average, at the end of a method's name
NEWCOMBE = "Newcombe, method 5"
HALF_NEWCOMBE = "between DeLong and Newcombe's method 5"
WIDENED = ", widened by the binning error"
WILSON = "Wilson"
WILSON_CUT = "Wilson, at an estimated threshold"
WALD = "Wald"
WALD_LOGIT = "Wald, logit scale"

DEFAULT_LEVEL = 0.95

TELLING = 0.25  # up to this share of the standard error, a binning error is not worth a word
MOST_OFF = 0.05  # up to this share of itself the standard error of a difference may be off for it to have a p-value
_OCCUPIED = 30  # coarse bins of a comparison that are taken to hold rows, of 67: scores crowd at fixed thresholds
_EVEN = 0.001  # ties of a bin, a pair: of scores that crowd nowhere, about that of a thousand bins
LEAST_TOLD = 0.003  # up to this binning error of two models, what bins merge hardly moves their difference
_FARTHEST = 4.0  # times what a standard error of a difference is off by about: no study has seen it that far off

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


Components: TypeAlias = tuple[float, float]  # S10 and S01


def delong(auc: Fraction, positives: int, negatives: int, q10: int, q01: int) -> float | None:
    """Return DeLong's standard error of the AUC; None where a class has fewer than two rows."""
    if min(positives, negatives) < 2:
        return None
    s10, s01 = components(auc, positives, negatives, q10, q01)
    return math.sqrt(s10 / positives + s01 / negatives)


class OneModel(NamedTuple):
    """An AUC, and its sums Q10 and Q01."""

    auc: Fraction
    q10: int
    q01: int


def components(auc: Fraction, positives: int, negatives: int, q10: int, q01: int) -> tuple[Fraction, Fraction]:
    """Return S10 and S01, exactly; each label has two rows at least."""
    off = (2 * auc - 1) ** 2
    s10 = (Fraction(q10, negatives**2) - positives * off) / (4 * (positives - 1))
    s01 = (Fraction(q01, positives**2) - negatives * off) / (4 * (negatives - 1))
    return s10, s01


class Moments(NamedTuple):
    """Sums over rows of one label: of u^a and u^b, of their squares, and of u^a·u^b, in any unit."""

    first: int
    second: int
    first_square: int
    second_square: int
    product: int

    def centred(self, rows: int) -> tuple[float, float, float]:
        """Return the sums of squares of u^a and u^b around their means over so many rows, and that of products."""
        of_first, of_second, of_both = (
            float(square - Fraction(x * y, rows))
            for square, x, y in (
                (self.first_square, self.first, self.first),
                (self.second_square, self.second, self.second),
                (self.product, self.first, self.second),
            )
        )
        return of_first, of_second, of_both


class Products(NamedTuple):
    """Over pairs of different rows of one patient: sums of products of what both are worth, of either; their number.

    A positive row is worth N_{<k} − N_{>k}, a negative one P_{>k} − P_{<k}: the first by one model, the second by one.
    """

    product: Fraction
    first: Fraction
    second: Fraction
    pairs: Fraction

    def centred(self, first: Fraction, second: Fraction) -> Fraction:
        """Return the sum of products around these means."""
        return self.product - second * self.first - first * self.second + first * second * self.pairs


class Clusters(NamedTuple):
    """What sums over patients say."""

    # By model and group, then by label: sums over rows of what each is worth, about, and of its square.
    alone: Mapping[tuple[int, int], Mapping[int, tuple[Fraction, Fraction]]]
    # By models of the first and second row, and group; then by label of the first and second row.
    within: Mapping[tuple[int, int, int], Mapping[tuple[int, int], Products]]
    patients: Sequence[tuple[int, int, int]]  # by group: with positive rows, with negative ones, with any

    def error(
        self, unclustered: Components, models: Mapping[int, Components], group: int, rows: tuple[int, int]
    ) -> float | None:
        """Return Obuchowski's standard error of an AUC, or of the difference of two; None where there is none.

        `unclustered` are DeLong's S10 and S01 of it, of so many positive and negative `rows`; `models` those of the one
        model, or of both, where it is the second minus the first. Rows' worth is known about: what a patient's have in
        common is a share of the variance by that. None: fewer than two patients of a label, or counts of no rows.
        """
        of_label, everybody = self.patients[group][:2], self.patients[group][2]
        if min(of_label) < 2 or not max(of_label) <= everybody <= sum(rows):
            return None
        signs = dict(zip(models, (-1, 1) if len(models) > 1 else (1,), strict=True))
        means, scales = {}, {}
        for model, exact in models.items():
            for label, own, others, component in zip((1, 0), rows, reversed(rows), exact, strict=True):
                total, square = self.alone[model, group][label]
                about = float(square - total**2 / own) / (own - 1) / (2 * others) ** 2
                means[model, label] = total / own
                scales[model, label] = math.sqrt(component / about) if about > 0 else 0.0

        def over_pairs(a: int, b: int) -> float:
            of_models = (
                signs[m] * signs[n] * scales[m, a] * scales[n, b]
                * float(self.within[m, n, group][a, b].centred(means[m, a], means[n, b]))
                for m, n in itertools.product(models, repeat=2)
            )  # fmt: skip
            return sum(of_models)

        variance = 2 * everybody / (everybody - 1) * over_pairs(1, 0) / (2 * math.prod(rows)) ** 2
        for at, (own, patients, alone) in enumerate(zip(rows, of_label, unclustered, strict=True)):
            summed = (own - 1) * alone + over_pairs(1 - at, 1 - at) / (2 * rows[1 - at]) ** 2
            variance += patients / (patients - 1) * summed / own**2
        return math.sqrt(variance) if variance > 0 else None

    def worth(self, model: int, group: int, rows: tuple[int, int]) -> float:
        """Return how many patients with equally many rows would say as much as these, of the rarer label."""
        within = self.within[model, model, group]
        return min(float(own**2 / (own + within[of, of].pairs)) for of, own in zip((1, 0), rows, strict=True))

    def stretch(self, model: int, group: int, rows: tuple[int, int], level: float) -> float:
        """Return by how much to multiply an AUC's error, so that the normal law's interval is of so few patients."""
        worth, patients = max(self.worth(model, group, rows), 2.0), max(min(self.patients[group][:2]), 2)
        counted = worth * (patients - 1) / ((worth - 1) * patients)  # in the place of patients/(patients − 1)
        return student_t(int(worth) - 1, level) / quantile(level) * math.sqrt(max(counted, 1.0))


LEAST_SCALE = 2
"""That of sums where each bin is a coarse one of its own: what a row is worth is known as it is, not about."""


class PairedSums(NamedTuple):
    """Sums over rows of what each is worth to two models, about: pairs ordered rightly minus wrongly, times `scale`."""

    of_positives: Moments
    of_negatives: Moments
    scale: int = LEAST_SCALE


class PairedError(NamedTuple):
    """The standard error of a difference of two AUCs."""

    standard_error: float
    off: float  # by which share it may differ from that over rows, about; infinite where it is 0
    components: Components  # the difference's S10 and S01
    most: float  # as large as the standard error over rows can well be
    moved: float  # as far as what bins merge can well move the difference

    def clustered(self, standard_error: float | None) -> PairedError:
        """Return it with this standard error in the place of its own, and all else in proportion."""
        times = (standard_error or 0.0) / self.standard_error if self.standard_error else 0.0
        both = times * self.most, max(times, 1.0) * self.moved
        return PairedError(times * self.standard_error, self.off, self.components, *both)

    def p_at_most(self, difference: float) -> float:
        """Return what the two-sided p-value over rows is at most, where this is the difference over bins."""
        return math.erfc(max(abs(difference) - self.moved, 0.0) / self.most / math.sqrt(2)) if self.most else 1.0


def paired_delong(
    first: OneModel,
    second: OneModel,
    sums: PairedSums,
    positives: int,
    negatives: int,
    merged: tuple[float, float] = (0.0, 0.0),
    alike: tuple[float, float] = (0.0, 0.0),
) -> PairedError | None:
    """Return DeLong's standard error of the difference of two AUCs on the same rows; None as `delong`.

    Variances V are those of the bins, the correlation ρ that of `sums`, in which a row's worth is known but for an r:
    about a Brownian bridge, whose variance n rows of the other label, evenly in k coarse bins, leave at 1/(6·k·n).
    Scores that crowd leave more. That shows in what r does to mean and variance of the worth, known exactly: k/2 times
    its mean squared plus (V − V')²/4V, V' the variance by `sums`. Let η be the larger of the two, as a share of V.

    A model's r goes with what the other says of a row besides, a share 1 − ρ² of its variance, by accident: over m rows
    ρ is off by √((η_a + η_b)(1 − ρ²)/m). Rows that have one score count as one, about; where a share s of all rows has
    one, 2·`alike` is some s² above that of even bins (ties of a bin over 2PN, by either model, if it is no coarse
    one of its own): 1/m + s stands for 1/m. Both models' r together put ρ off by √(η_a·η_b). Half of all that is `off`:
    about the errors that studies found.

    Rows that bins merge though their scores differ, `merged` over 2PN by either model, T = 2·merged, move a model's AUC
    by about √(T²·(1/P + 1/N)/12) where they lie evenly in bins, which counts in `off`; where in one, by T^1.5 for T².
    Also, bins that one model fills more than the other take more from its AUC, by about T^1.5 less the other's. `moved`
    is twice the former and 1.3 times the latter, and `most` allows for four times `off`: more than studies have found.
    docs/evidence/intervals.md says how often all this holds.
    """
    if min(positives, negatives) < 2:
        return None
    uncertain, differences = 0.0, []
    one_score = math.sqrt(max(2 * max(alike) - _EVEN, 0.0))
    of_models = (components(each.auc, positives, negatives, each.q10, each.q01) for each in (first, second))
    for both, moments, rows in zip(zip(*of_models, strict=True), sums[:2], (positives, negatives), strict=True):
        a, b = map(float, both)  # in floating point, so that a model has no difference from itself, not nearly none
        others = positives + negatives - rows
        least = 1 / (6 * _OCCUPIED * others) if sums.scale > LEAST_SCALE else 0.0
        *squares, products = moments.centred(rows)
        known = (square / (rows - 1) / (2 * sums.scale * others) ** 2 for square in squares)
        shifts = (
            float(of.auc) - 0.5 - float(Fraction(total, 2 * sums.scale * others * rows))
            for of, total in zip((first, second), moments[:2], strict=True)
        )
        missing = [
            max(least, _OCCUPIED / 2 * (shift**2 + (of - part) ** 2 / (4 * of))) / of if of else 0.0
            for part, of, shift in zip(known, (a, b), shifts, strict=True)
        ]
        spread = math.prod(squares)  # 0 where one model gives all rows the same worth
        correlation = products / math.sqrt(spread) if spread > 0 else 0.0
        differences.append(a + b - 2 * correlation * math.sqrt(a * b))
        off_by = sum(missing) * (1 - correlation**2) * (1 / rows + one_score) + math.prod(missing)
        uncertain += 4 * a * b / rows**2 * max(off_by, 0.0)
    variance = differences[0] / positives + differences[1] / negatives
    found, reach = math.sqrt(max(variance, 0.0)), math.sqrt(uncertain) / 2
    low, high = (math.sqrt(max(each, 0.0)) for each in (variance - reach, variance + reach))
    off = (high - low) / 2
    tied, inverse = [2 * each for each in merged], (1 / positives + 1 / negatives) / 12
    evenly, at_most = (math.sqrt(inverse * sum(each**power for each in tied)) for power in (2, 1.5))
    moved = min(2 * at_most + 1.3 * abs(tied[0] ** 1.5 - tied[1] ** 1.5), sum(merged))
    most = math.hypot(found + _FARTHEST * off, at_most)
    return PairedError(
        found, math.hypot(off, evenly) / found if found else math.inf, (differences[0], differences[1]), most, moved
    )


def of_bins(positives: ArrayLike, negatives: ArrayLike) -> tuple[Fraction, float | None]:
    """Return the AUC and its standard error by `delong`, of rows a bin: integers, shape (bins,), no class empty."""
    p, n = (np.asarray(side, np.int64).astype(object) for side in (positives, negatives))  # cubes may exceed 64 bits
    worse, better = 2 * np.cumsum(n) - n - n.sum(), p.sum() - 2 * np.cumsum(p) + p
    ones, zeros = int(p.sum()), int(n.sum())
    auc = Fraction(1, 2) + Fraction(int((p * worse).sum()), 2 * ones * zeros)
    return auc, delong(auc, ones, zeros, int((p * worse**2).sum()), int((n * better**2).sum()))


def hanley_mcneil_components(auc: Fraction) -> tuple[Fraction, Fraction]:
    """Return the variances of what a positive, and a negative, row is worth: DeLong's S10 and S01, of the AUC alone."""
    return auc / (2 - auc) - auc**2, 2 * auc**2 / (1 + auc) - auc**2


def hanley_mcneil(auc: Fraction, positives: int, negatives: int) -> float:
    """Return Hanley and McNeil's standard error of the AUC of so many rows."""
    of_positives, of_negatives = hanley_mcneil_components(auc)
    variance = auc * (1 - auc) + (positives - 1) * of_positives + (negatives - 1) * of_negatives
    return math.sqrt(variance / (positives * negatives))


def of_auc(
    auc: Fraction, rows: tuple[int, int], standard_error: float, level: float, method: str = DELONG
) -> Interval | None:
    """Return the interval of the AUC of so many positive and negative rows, two of each at least, with this error.

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
    interval: Interval | None,
    standard_error: float | None,
    binning_error: float,
    ends: tuple[float, float] = (0.0, 1.0),
) -> Interval | None:
    """Return an interval with ends moved outward by the binning error, where that exceeds the standard error.

    Only then: a smaller one hardly moves the interval, and is a bound that seldom is reached. The interval stays
    between these `ends`, an AUC's unless given, and the method says so. None where the binning error is infinite.
    """
    if interval is None or standard_error is None or binning_error <= standard_error:
        return interval
    if not math.isfinite(binning_error):
        return None
    low, high = max(ends[0], interval.low - binning_error), min(ends[1], interval.high + binning_error)
    return Interval(interval.level, low, high, interval.method + WIDENED)


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


def wilson(successes: ArrayLike, rows: ArrayLike, level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends, both in [0, 1], of Wilson's score interval of each rate k/n, without continuity correction.

        (k + z²/2 ± z·√(k(n − k)/n + z²/4)) / (n + z²)

    Wilson, JASA 22 (1927), 209-212. `successes` k, `rows` n > 0 and the ends have one shape. Errors as `quantile`.
    """
    z = quantile(level)
    k, n = np.asarray(successes, np.float64), np.asarray(rows, np.float64)
    centre, reach = k + z**2 / 2, z * np.sqrt(np.maximum(k * (n - k), 0) / n + z**2 / 4)
    # The end beside a rate of 0 or 1 is that rate: rounding must not leave it out.
    low, high = (
        np.where(k <= 0, 0.0, (centre - reach) / (n + z**2)),
        np.where(k >= n, 1.0, (centre + reach) / (n + z**2)),
    )
    return low, high


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

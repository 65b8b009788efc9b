"""The report's metrics of scores and of calibration, each with its interval."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fhe_auc.metrics import calibration, probabilities, ranking, recalibration
from fhe_auc.metrics.histogram import Estimate, Histogram
from fhe_auc.metrics.smooth_calibration import smooth_calibration
from fhe_auc.results.delong import of_bins
from fhe_auc.results.intervals import (
    FEWEST,
    WALD,
    WALD_LOGIT,
    WILSON_CUT,
    Interval,
    effective,
    of_auc,
    on_logit_scale,
    quantile,
    student_t,
    widened,
    wilson,
    wilson_interval,
)

NOT_PROBABILITIES = "scores are not probabilities"
_OF_PROBABILITIES = ("expected_calibration_error", "brier", "scaled_brier", "log_loss", "normalised_entropy")
_FEW_SURE = "from 1 to {} rows, too few to show, are at the wrong end of the scores, and decide it"
_SURE = 1e-4
"""A score so near to the wrong end costs 9.2 nats or more, as 13 rows without a hint: a few of them would show."""

_NEARLY_SURE = 0.1
_FARTHEST = 300.0
"""Of a logarithm: an interval that reaches farther says nothing, and its ends leave the range of floats."""

NOT_SHOWN = "not shown"
TOO_FEW = f"fewer than {FEWEST} rows: too few for an interval"
HELD = (0.9, 0.95)  # specificity, or sensitivity, at the operating points
MAX_FPR = 0.1
_FEWEST_NEGATIVES = 50  # effective ones, for an interval of the partial AUC: with 37 it held in 87 % of studies
_FEW_NEGATIVES = f"fewer than {_FEWEST_NEGATIVES} effective negative rows: too few for an interval"


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric of the report, of the bins as they were counted; its estimate is None where `missing` says why.

    `name` is its key in the JSON, scikit-learn's name where it has one; `title` and `meaning`, one sentence, are for
    people. The estimate's ends are infinite where it is not known what the bins leave open.
    """

    name: str
    title: str
    meaning: str
    estimate: Estimate | None
    interval: Interval | None = None
    missing: str = "there are no such rows"
    no_interval: str = ""  # why not, where its rows are too few


def _wald_logit(value: float, error: float, level: float, rows: float, off: float) -> Interval | None:
    """Return an interval of a value from 0 to 1; where it is an end, or has no error, Wilson's of so many rows."""
    interval = on_logit_scale(Fraction(value), error, level, WALD_LOGIT)
    if interval is None and rows > 0:
        interval = wilson_interval(value * rows, rows, level)
    return widened(interval, error, off)


def _wald(estimate: Estimate, error: float, level: float | None) -> Interval | None:
    if level is None:
        return None
    reach = quantile(level) * error
    interval = Interval(level, estimate.value - reach, estimate.value + reach, WALD)
    return widened(interval, error, estimate.half_width, (-math.inf, math.inf))


def _partial_auc_interval(score: Estimate, error: float, level: float, rows: float) -> Interval | None:
    by = 2 - MAX_FPR  # the area itself, as a share of what it can be, lies between 0 and 1
    share = min(max(1 - by * (1 - score.value), 0.0), 1.0)
    interval = _wald_logit(share, by * error, level, rows, by * score.half_width)
    return interval and replace(interval, low=1 - (1 - interval.low) / by, high=1 - (1 - interval.high) / by)


def _rates_held(histogram: Histogram, level: float | None, min_cell: int) -> Iterator[Measure]:
    """Yield the sensitivity at each specificity, and the reverse, of the bins as counted.

    Around the rate by Wilson's interval lie what the curve has where the held rate's share of rows is off by chance;
    the ends are combined as differences' are (Zou and Donner, Stat. Med. 27, 2008). Of that share 0.9 standard errors
    are taken for one, as the curve goes straight from point to point. Rows of a bin that the curve crosses count by
    their part, and so vary less.

    A rate is a count of rows, by how many of them there are. Where small counts are hidden, it and its interval are in
    steps of 2 rows or more: any value fits several counts, at a place that nobody is told, so that neither the count
    nor its difference to one that is shown can be read. Finer digits would lie below the standard error.
    """
    mirrored = histogram.mirrored()
    single = ranking.of_one_score(histogram)
    for bins, meant, found, held in (
        (histogram, single, "sensitivity", "specificity"),
        (mirrored, single[::-1], "specificity", "sensitivity"),
    ):
        (fpr, tpr, _), (all_rows, all_others) = ranking.roc_curve(bins), bins.sides.sum(axis=1)
        tied = meant[bins.counts > 0][::-1]
        above = np.insert(np.cumsum(bins.spread[:, bins.counts > 0][:, ::-1], axis=1), 0, 0, axis=1)
        for least in HELD:
            at = min(int(np.searchsorted(fpr, 1 - least, side="right")), len(fpr) - 1)
            part = (1 - least - fpr[at - 1]) / (fpr[at] - fpr[at - 1]) if fpr[at] > fpr[at - 1] else 1.0
            rate = float(tpr[at - 1] + part * (tpr[at] - tpr[at - 1]))
            estimate = Estimate(rate, *((rate, rate) if tied[at - 1] else (float(tpr[at - 1]), float(tpr[at]))))
            interval, rows, others = None, all_rows, all_others
            if bins.squares is not None:
                squares = above[:, at - 1] + part * (above[:, at] - above[:, at - 1])
                of = np.array([rate, 1 - least]), np.array([1 - rate, least]), (squares, above[:, -1] - squares)
                rows, others = effective(of[0] * (all_rows, all_others), of[1] * (all_rows, all_others), of[2])[1]
            if level is not None and min(rows, others) >= FEWEST:
                off = 0.9 * quantile(level) * math.sqrt(least * (1 - least) / others)
                varies = 1 - part * (1 - part) * (tpr[at] - tpr[at - 1]) / max(rate * (1 - rate), 1e-9)
                sure = rows / varies if varies > 0 else rows
                cut, own = np.interp((1 - least - off, 1 - least + off), fpr, tpr), wilson(rate * sure, sure, level)
                low, high = (math.hypot(cut[end] - rate, float(own[end]) - rate) for end in (0, 1))
                interval = Interval(level, max(rate - low, 0.0), min(rate + high, 1.0), WILSON_CUT)
                interval = widened(interval, (low + high) / 2 / quantile(level), estimate.half_width)
            if min_cell > 1:
                estimate, interval = _coarse(estimate, interval, 2 / rows)
            title = f"{found.capitalize()} at {held} {least:.2f}"
            meaning = f"With the threshold at which the {held} is that; the interval allows for estimating it."
            no_interval = TOO_FEW if level is not None and interval is None else ""
            yield Measure(f"{found}_at_{held}_{least:.2f}", title, meaning, estimate, interval, no_interval=no_interval)


def _coarse(estimate: Estimate, interval: Interval | None, least: float) -> tuple[Estimate, Interval | None]:
    """Return a rate and its interval in steps of 0.1, 0.05, 0.02, 0.01 and so on, the finest that is not below this."""
    digits = math.ceil(-math.log10(least))
    step = min(each for power in (digits, digits - 1) for by in (1, 2, 5) if (each := by / 10**power) >= least - 1e-12)

    def rounded(value: float) -> float:
        return float(min(max(round(value / step) * step, 0.0), 1.0))

    around = rounded(estimate.value)
    low, high = min(estimate.low, around - step / 2), max(estimate.high, around + step / 2)
    if interval is not None:
        low_end, high_end = min(rounded(interval.low), around), max(rounded(interval.high), around)
        interval = replace(interval, low=low_end, high=high_end)
    return Estimate(around, max(low, 0.0), min(high, 1.0)), interval


def in_steps_of_rows(estimate: Estimate, rows: float) -> Estimate:
    """Return a rate of weights, by so many effective rows, in steps of two rows or more, and three digits at most.

    Two as sums have: one would halve what a rate leaves open, and several rates at a threshold are of the same sums.
    """
    return _coarse(estimate, None, max(2 / rows, 1e-3))[0]


_OF_SCORES = {
    "roc_auc": ("AUC", "How often a positive row scores above a negative one: 0.5 is chance, 1 is perfect."),
    "average_precision": (
        "Average precision",
        "Mean precision as recall grows; chance gives the share of positive rows.",
    ),
    "partial_auc": (
        f"Partial AUC, specificity from {1 - MAX_FPR:g}",
        "Standardised (McClish): 0.5 is chance, 1 is perfect.",
    ),
    "ks": ("Kolmogorov–Smirnov", "Largest gap between true and false positive rate over all thresholds."),
    "expected_calibration_error": (
        "Calibration error",
        "Mean distance between score and observed share of positive rows, in ten bins of equally many rows; 0 is best.",
    ),
    "brier": ("Brier score", "Mean squared distance between score and label; 0 is best."),
    "scaled_brier": (
        "Scaled Brier score",
        "One minus the Brier score over that of always giving the share of positive rows; 1 is best, 0 is that.",
    ),
    "log_loss": ("Log loss", "Mean surprise at the labels, in nats; 0 is best."),
    "normalised_entropy": (
        "Normalised entropy",
        "Log loss, relative to always giving the share of positive rows: below 1 is better than that.",
    ),
}

_OF_CALIBRATION = {
    "observed_expected_ratio": (
        "Observed : expected",
        "Positive rows over the sum of all scores; below 1, scores are too high.",
    ),
    "calibration_in_the_large": (
        "Calibration in the large",
        "What to add to the log odds of every score, for scores and positive rows to agree in all; 0 is best.",
    ),
    "calibration_slope": (
        "Calibration slope",
        "Slope of the label on the log odds of the score (logistic); below 1, scores are too extreme.",
    ),
    "calibration_intercept": ("Calibration intercept", "Of the same line."),
    "ici": (
        "Calibration index (ICI, Eavg)",
        "Mean distance between score and smoothed share of positive rows (lowess); 0 is best. Above 0 by chance, it "
        "has no interval, which would leave a true 0 out.",
    ),
    "ici_by_chance": (
        "ICI by chance",
        "What the ICI of so many rows with these scores is on average if each score is the true probability.",
    ),
    "e50": ("E50", "Median of these distances."),
    "e90": ("E90", "Nine rows of ten are nearer than that."),
    "emax": ("Emax", "Largest of these distances."),
}


def score_measures(fine: Histogram, shown: Histogram, level: float | None, min_cell: int) -> Iterator[Measure]:
    """Yield the measures that need no threshold, of the bins before merging.

    The Kolmogorov-Smirnov statistic, a difference of two counts, is of those `shown`, after merging; with weights in
    steps of two rows of the rarer label, as those counts are. A measure that
    would tell of from 1 to ``min_cell - 1`` rows at the wrong end of the scores is left out.
    """
    auc, precision = ranking.roc_auc_score(fine), ranking.average_precision_score(fine)
    partial, partial_error = ranking.partial_auc_score(fine, MAX_FPR)
    found = {"roc_auc": auc, "average_precision": precision, "partial_auc": partial, "ks": ranking.ks_statistic(shown)}
    if min_cell > 1 and fine.squares is not None:
        found["ks"] = in_steps_of_rows(found["ks"], min(fine.effective))
    left_out, scaled = dict[str, str](), None
    if probabilities.of_probabilities(fine):
        scaled = probabilities.scaled_brier_score(fine)
        found |= {
            "expected_calibration_error": calibration.expected_calibration_error(fine),
            "brier": probabilities.brier_score_loss(fine),
            "scaled_brier": scaled[0],
            "log_loss": probabilities.log_loss(fine),
            "normalised_entropy": probabilities.normalised_entropy(fine),
        }
        left_out = _deciding_few(fine, found["brier"], min_cell)
    else:
        left_out = dict.fromkeys(_OF_PROBABILITIES, NOT_PROBABILITIES)
    if "log_loss" in found and min_cell > 1 and max(fine.edges[1], 1 - fine.edges[-2]) > _SURE:
        # A row at the wrong end of such a bin costs so much that the range would tell how many there are.
        found |= {name: Estimate(found[name].value, -math.inf, math.inf) for name in ("log_loss", "normalised_entropy")}
    intervals: dict[str, Interval | None] = {}
    if level is not None:
        rows = int(fine.effective[0]), int(fine.effective[1])
        if fine.squares is None:
            exact, error = of_bins(fine.positives, fine.negatives)
        else:
            exact, error = Fraction(auc.value), ranking.roc_auc_error(fine) if min(rows) > 1 else None
        if error is not None:
            intervals["roc_auc"] = widened(of_auc(exact, rows, error, level), error, auc.half_width)
        # Less a part of its bias: of more, intervals held too little where models are good.
        value = precision.value - min(0.5, 0.7 * (1 - precision.value)) * ranking.average_precision_bias(fine)
        spread = ranking.average_precision_error(fine) * student_t(min(rows), level) / quantile(level)
        intervals["average_precision"] = _wald_logit(value, spread, level, min(rows), precision.half_width)
        if fine.squares is None or rows[1] >= _FEWEST_NEGATIVES:
            intervals["partial_auc"] = _partial_auc_interval(partial, partial_error, level, rows[0])
        if scaled is not None:
            error = probabilities.brier_score_error(fine)
            intervals["brier"] = _wald_logit(found["brier"].value, error, level, 0, found["brier"].half_width)
            intervals["scaled_brier"] = _wald(*scaled, level)
    for name, texts in _OF_SCORES.items():
        if name in left_out:
            yield Measure(name, *texts, None, missing=left_out[name])
        else:
            few = name == "partial_auc" and level is not None and name not in intervals
            yield Measure(name, *texts, found[name], intervals.get(name), no_interval=_FEW_NEGATIVES * few)
    yield from _rates_held(fine, level, min_cell)


def _deciding_few(fine: Histogram, brier: Estimate, min_cell: int) -> dict[str, str]:
    """Return which measures would tell of few rows at the wrong end of the scores, and why they are left out."""
    found = ["log_loss", "normalised_entropy"] if 0 < _wrong(fine, fine.real, _SURE) <= min_cell - 1 else []
    # Each of these adds about 1 to the sum of squares, and shows unless others make up as much.
    wrong = _wrong(fine, fine.sides, _NEARLY_SURE)
    if 0 < _wrong(fine, fine.real, _NEARLY_SURE) <= min_cell - 1 and 2 * wrong > brier.value * fine.counts.sum():
        found += ["brier", "scaled_brier"]
    return dict.fromkeys(found, _FEW_SURE.format(min_cell - 1))


def _wrong(histogram: Histogram, rows: NDArray[np.float64], within: float) -> float:
    """Return how many rows have a score so near to the end that is not their label's."""
    scores = histogram.centres
    return float(rows[0, scores < within].sum() + rows[1, scores > 1 - within].sum())


def calibration_measures(histogram: Histogram, level: float | None, *, smooth: bool = True) -> tuple[Measure, ...]:
    """Return observed over expected events, calibration in the large, slope and intercept, and `smooth` calibration.

    The smooth curve takes two thirds of all rows anywhere, so four digits of its distances tell no row's label. The
    largest may be that of the row with the last score; where that is stays open, since the curve is not shown.
    """
    if not probabilities.of_probabilities(histogram):
        return tuple(Measure(name, *texts, None, missing=NOT_PROBABILITIES) for name, texts in _OF_CALIBRATION.items())
    large, large_error = recalibration.calibration_in_the_large(histogram)
    found = dict[str, tuple[Estimate, Interval | None]]()
    found["calibration_in_the_large"] = large, _wald(large, large_error, level)
    if (known := recalibration.observed_expected_ratio(histogram)) is not None:
        (ratio, error), of_ratio = known, None
        # On the log scale, as Debray et al., BMJ 356 (2017), i6460, but events vary by what the scores leave open, and
        # not as if all rows had one risk: that covers too much for good models.
        if level is not None and (reach := quantile(level) * error) < _FARTHEST:
            of_ratio = Interval(level, ratio.value / math.exp(reach), ratio.value * math.exp(reach), WALD)
            of_ratio = widened(of_ratio, ratio.value * error, ratio.half_width, (0.0, math.inf))
        found["observed_expected_ratio"] = ratio, of_ratio
    if (line := recalibration.calibration_line(histogram)) is not None:
        for name, value, error, off in (
            ("calibration_slope", line.slope, line.slope_error, line.slope_off),
            ("calibration_intercept", line.intercept, line.intercept_error, line.intercept_off),
        ):
            estimate = Estimate(value, value - off, value + off)
            found[name] = estimate, _wald(estimate, error, level)
    for name, value in (smooth_calibration(histogram)._asdict() if smooth else {}).items():
        found[name] = Estimate(value, -math.inf, math.inf), None
    return tuple(Measure(name, *texts, *found.get(name, (None, None))) for name, texts in _OF_CALIBRATION.items())

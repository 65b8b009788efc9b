"""What a report has of counts with privacy noise: measures of the interpolated curve, and intervals by replicates.

- **The order of scores** is `RocFit`'s: AUC, average precision, partial AUC, rates at a rate that is held.
- **Scores inside a bin** lie as in `refined`. What the bins leave open then is added to the interval.
- **Rates at a threshold**, an edge, are those of the counts, with intervals by Wilson and the noise; so is net benefit.

Where replicates of noise and rows give no interval, or it would mislead, there is none, and `Measure.no_interval` says
why. Of numbers of rows the law of the noise gives one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fhe_auc.base.errors import InputError, UndefinedAucError
from fhe_auc.base.special_functions import expit
from fhe_auc.metrics import calibration, private_curves, probabilities
from fhe_auc.metrics.binning_error import WIDENED
from fhe_auc.metrics.histogram import Estimate, Floats, Histogram, with_both_labels
from fhe_auc.metrics.private_curves import CountNoise, RocFit, deviates_to_rates, monotone_cubic, rates_to_deviates
from fhe_auc.metrics.recalibration import fitted_line, intercept, logit
from fhe_auc.metrics.smooth_calibration import smooth_calibration
from fhe_auc.question.score_bins import of_one_number
from fhe_auc.results.intervals import Interval, quantile
from fhe_auc.results.noise_intervals import METHOD, PLACES, Curve, bands, curve_intervals, measure_intervals
from fhe_auc.results.report_measures import HELD, MAX_FPR, Measure

NOISE_LAW = "law of the noise"
BANDS = f"{METHOD}, of this point", f"{METHOD}, of the whole curve"
_AXES = {"roc": ("fpr", "tpr"), "precision_recall": ("recall", "precision")}
_BY_CHANCE = "above 0 by chance and by noise: an interval would leave a true 0 out"
_NO_INTERVAL = {
    **dict.fromkeys(("expected_calibration_error", "ici", "ici_by_chance", "e50", "e90", "emax"), _BY_CHANCE),
    **dict.fromkeys(("log_loss", "normalised_entropy"), "bins that reach to scores of 0 or 1 leave it open"),
}
_OPEN = "bins are too wide for an interval"
_MOST_OPEN = 10  # times what noise and rows do
_ANY = -math.inf, math.inf
_WIDENED = {
    **dict.fromkeys(("calibration_in_the_large", "calibration_slope", "calibration_intercept"), _ANY),
    **{"observed_expected_ratio": (0.0, math.inf), "brier": (0.0, 1.0), "scaled_brier": (-math.inf, 1.0)},
}
"""Measures that rest on where in their bins scores are, and their limits; all others lie between 0 and 1."""

_TOO_LARGE = "too much noise, or too few rows, for an interval"
_NO_LAW = "its protocol does not say how large the noise is"
_APART = 1e-6  # log odds
_LOG_ODDS = np.linspace(-18.0, 18.0, 241, dtype=np.float64)  # as far as scores have such, about


@dataclass(frozen=True, slots=True, eq=False)
class PrivateNumbers:
    """What noisy counts tell: the curve, its bands, values by name, and their intervals."""

    noise: CountNoise
    level: float | None  # of the intervals; None: there are none
    fit: RocFit
    bands: Mapping[str, Curve] | None
    spread: Histogram  # cleaned counts; of probabilities in narrow bins (`refined`)
    values: Mapping[str, float]
    intervals: Mapping[str, Interval]
    why_none: str  # why a value has no interval, where `_NO_INTERVAL` has no other reason

    @property
    def curves(self) -> dict[str, dict[str, Floats]]:
        """The interpolated curves, "roc" and "precision_recall": both axes, and ends of bands if there are such.

        "low" and "high" are of the pointwise band, "lowest" and "highest" of that for the whole curve.
        """
        values = {"roc": self.fit.tpr(PLACES), "precision_recall": self.fit.precision(PLACES)}
        found: Mapping[str, tuple[Floats, ...]] = self.bands or {name: (PLACES, each) for name, each in values.items()}
        ends = "low", "high", "lowest", "highest"
        return {name: dict(zip((*axes, *ends), found[name], strict=False)) for name, axes in _AXES.items()}

    def told(self, measures: Iterable[Measure]) -> tuple[Measure, ...]:
        """Return measures with the values and intervals here, if there are such, and else why there is none."""
        return tuple(each if each.estimate is None else self._told(each, each.estimate) for each in measures)

    def _told(self, measure: Measure, counted: Estimate) -> Measure:
        value = self.values.get(measure.name, counted.value)
        found = self.intervals.get(measure.name, measure.interval)
        no_interval = measure.no_interval or (_NO_INTERVAL if self.level else {}).get(measure.name, self.why_none)
        if found is not None:
            low, high, width = found.low, found.high, found.high - found.low
            least, most = _WIDENED.get(measure.name, (0.0, 1.0))
            if measure.name in _WIDENED:
                low, high = low - max(value - counted.low, 0), high + max(counted.high - value, 0)
                found = replace(found, method=found.method + WIDENED)
            found = replace(found, low=min(max(low, least), most), high=max(min(high, most), least))
            no_interval = _OPEN * (high - low > _MOST_OPEN * width)
            found = None if no_interval else found
        return replace(measure, estimate=Estimate(value, -math.inf, math.inf), interval=found, no_interval=no_interval)


def private_numbers(histogram: Histogram, noise: CountNoise, level: float | None) -> PrivateNumbers:
    """Return what noisy counts tell; raise `UndefinedAucError` where noise, or the rows, leave a label no row."""
    fit = RocFit.fitted(histogram, noise)
    values, found, fine = dict(_of_curve(fit)), None, histogram.cleaned()
    if probabilities.of_probabilities(histogram):
        fine = refined(histogram)
        values |= _of_scores(histogram)
        values["expected_calibration_error"] = calibration.expected_calibration_error(fine).value
        values["log_loss"] = probabilities.log_loss(fine).value
        values["normalised_entropy"] = probabilities.normalised_entropy(fine).value
        # Lowess of few rows may leave [0, 1], in which both the scores and the shares lie.
        values |= {name: min(each, 1.0) for name, each in smooth_calibration(fine)._asdict().items()}
    intervals = dict[str, Interval]()
    if level is not None and noise.deviation:
        intervals |= curve_intervals(histogram, noise, level, lambda each: dict(_of_curve(each)))
        intervals |= measure_intervals(histogram, noise, level, _of_scores)
        if "roc_auc" in intervals:
            found = bands(histogram, noise, level)
        for name, sides in (("rows", histogram.sides), ("positive_rows", histogram.sides[:1])):
            reach, total = quantile(level) * noise.deviation * math.sqrt(sides.size), float(sides.sum())
            intervals[name] = Interval(level, max(total - reach, 0.0), total + reach, NOISE_LAW)
    why_none = "" if level is None else _TOO_LARGE if noise.deviation else _NO_LAW
    level = level if noise.deviation else None
    return PrivateNumbers(noise, level, fit, found, fine, values, intervals, why_none)


def _of_curve(fit: RocFit) -> Iterator[tuple[str, float]]:
    """Yield measures of the curve by name."""
    yield "roc_auc", fit.auc
    yield "average_precision", fit.average_precision
    rates = np.asarray((np.arange(100) + 0.5) / 100 * MAX_FPR, np.float64)
    yield "partial_auc", (1 + float((fit.tpr(rates) - rates).mean()) / (1 - MAX_FPR / 2)) / 2
    yield "ks", max(float((fit.tpr(PLACES) - PLACES).max()), 0.0)
    for least in HELD:
        at = np.array([least])
        yield f"sensitivity_at_specificity_{least:.2f}", float(fit.tpr(1 - at)[0])
        yield f"specificity_at_sensitivity_{least:.2f}", 1 - float(fit.fpr(at)[0])


def _of_scores(histogram: Histogram) -> dict[str, float]:
    """Return measures of probabilities by name; none where scores are not, or noise leaves a label no row."""
    try:
        fine = refined(histogram)
    except (InputError, UndefinedAucError):
        return {}
    scores = logit(fine.centres)
    found = {
        "brier": probabilities.brier_score_loss(fine).value,
        "scaled_brier": probabilities.scaled_brier_score(fine)[0].value,
        "observed_expected_ratio": float(fine.positives.sum() / (fine.counts @ fine.centres)),
        "calibration_in_the_large": intercept(fine, scores),
    }
    if (line := fitted_line(fine.positives, fine.negatives, scores)) is not None:
        found |= {"calibration_slope": line.slope, "calibration_intercept": line.intercept}
    return found


def refined(histogram: Histogram) -> Histogram:
    """Return counts of probabilities in narrow bins, as many below each edge as there are.

    Between edges, the share of a label's rows that lie below is, on a normal-deviate axis, a monotone cubic of the
    log odds, and beyond them a straight line, with the mean slope of all: log odds are often about normal.
    Where scores are listed these are all there are. Raises `UndefinedAucError` without rows of a label, `InputError` if
    edges leave [0, 1].
    """
    probabilities.require_probabilities(histogram)
    usable = with_both_labels(histogram)
    if of_one_number(usable.edges[:-1]).sum() > 1:
        return usable
    own = usable.edges[(usable.edges > 0) & (usable.edges < 1)]
    edges = np.union1d(own, expit(_LOG_ODDS))
    at, known, top = logit(edges), logit(own), float(usable.edges[-2]) == 1  # a bin of the score 1
    apart = np.diff(known, prepend=-np.inf) > _APART
    counts = []
    for side in usable.sides:
        counted = usable.edges[: usable.bins + 1 - top], np.append(0.0, np.cumsum(side[: usable.bins - top]))
        below = np.interp(own, *counted)
        some = apart & (np.minimum(below, side.sum() - below) > private_curves.LEAST_ROWS)
        if some.sum() < 2:
            inside = np.interp(edges, *counted)
        else:
            x, v = known[some], rates_to_deviates(below[some] / side.sum())
            slope = max(float(v[-1] - v[0]) / (x[-1] - x[0]), 0.0)
            line = monotone_cubic(x, v, np.clip(at, x[0], x[-1])) + slope * (at - np.clip(at, x[0], x[-1]))
            inside = np.maximum.accumulate(deviates_to_rates(line)) * side.sum()
        all_below = counted[1][-1:]
        ends = np.concatenate(([0.0], np.clip(inside, 0.0, all_below), all_below, [side.sum()] * top))
        counts.append(np.diff(ends))
    return Histogram(np.concatenate(([0.0], edges, [1.0] * (1 + top))), *counts)

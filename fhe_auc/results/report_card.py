"""What the report says, before it is drawn or written: numbers, points of the curves, and texts passed in."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fhe_auc import metrics
from fhe_auc.base.errors import InputError, UndefinedMetricError
from fhe_auc.metrics import (
    BrierDecomposition,
    CalibrationCurve,
    DecisionCurve,
    Estimate,
    Histogram,
    PrecisionRecallCurve,
    RocCurve,
)
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import (
    DEFAULT_LEVEL,
    DELONG,
    WALD,
    WALD_LOGIT,
    WILSON,
    Interval,
    of_bins,
    on_logit_scale,
    quantile,
    widened,
    wilson,
)

_T = TypeVar("_T")

_CALIBRATION_BINS = 10  # of about equally many rows: they suit scores squeezed into a corner as well
_ERROR_BINS = {"bins": _CALIBRATION_BINS, "strategy": "quantile"}

_DIGITS = 4  # in JSON, of numbers that are not of the counts shown

_AT_A_THRESHOLD = ("ks",)
"""Measures that are counts at one threshold: of merged bins, as are all points of curves."""

_OF_SURPRISE = ("log_loss", "normalised_entropy")
_FEW_SURE = "from 1 to {} rows, too few to show, are at the wrong end of the scores, and decide it"
_SURE = 1e-4
"""A score so near to the wrong end costs 9.2 nats or more, as 13 rows without a hint: a few of them would show."""

_NEARLY_SURE = 0.1

_HELD = (0.9, 0.95)  # specificity, or sensitivity, at the operating points


class Band(NamedTuple):
    """Ends of the pointwise intervals of a curve's points, both of the points' shape."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric of the report, of the bins as they were counted; its estimate is None where `missing` says why.

    `name` is its key in the JSON, scikit-learn's name where it has one; `title` and `meaning`, one sentence, are for
    people. The estimate's ends are infinite where it is not known what the bins leave open. `interval` is the
    confidence interval, for metrics that have one.
    """

    name: str
    title: str
    meaning: str
    estimate: Estimate | None
    interval: Interval | None = None
    missing: str = "there are no such rows"


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The classifier at one threshold: a score at or above it is predicted positive.

    `title` says which threshold this is, for people; `confusion` counts whole rows, shape (2, 2): ``[[TN, FP],
    [FN, TP]]``.
    """

    title: str
    threshold: float
    measures: tuple[Measure, ...]
    confusion: NDArray[np.int64]


class OperatingPoint(NamedTuple):
    """The decision with the other rate at its best where one, "specificity" or "recall", is held at `least`."""

    held: str
    title: str
    least: float
    decision: Decision | None


@dataclass(frozen=True, slots=True, eq=False)
class ReportCard:
    """Every number of the report, from cleaned counts. Make it with `report_card`.

    Attributes
    ----------
    histogram : Histogram
        What is shown, with all curves and counts at thresholds: small cells are merged already. Measures that need no
        threshold are of the bins before: merging moves them by more than their standard errors. Each is one equation
        about all rows at once, and is written with four digits where bins are merged.
    fine_bins : int
        How many bins there were before.
    min_cell : int
        The least count, but for 0, that is shown; 1 where nothing was merged on purpose.
    noisy : bool
        Whether the counts carry privacy noise, which no range covers. There are no intervals then.
    level : float or None
        Level of all confidence intervals; None: there are none.
    measures, calibration_measures : tuple of Measure
        They need no threshold. The first is the AUC.
    brier : BrierDecomposition
        Parts of the Brier score by the bins shown, whose rows have their mean score.
    best, chosen : Decision
        At the threshold with the best F1, and at the reader's own.
    operating_points : tuple of OperatingPoint
        With the best recall at a specificity that is held, and the other way round. No decision: no bin begins there.
    roc, precision_recall, calibration, decision_curve
        The curves; `calibration` is in ten groups of about equally many rows, or in fewer, or in some that are about
        equally uncertain, so that no count in a group is small. Labels have no other part in where groups end.
    tpr_band, fpr_band, observed_band : Band or None
        Wilson's intervals of both rates at each point of the ROC curve, and of the share of positive rows at each point
        of the calibration curve.
    prevalence_interval : Interval or None
        Wilson's, of the share of positive rows.
    """

    histogram: Histogram
    fine_bins: int
    min_cell: int
    noisy: bool
    level: float | None
    measures: tuple[Measure, ...]
    calibration_measures: tuple[Measure, ...]
    brier: BrierDecomposition
    best: Decision
    chosen: Decision
    operating_points: tuple[OperatingPoint, ...]
    roc: RocCurve
    precision_recall: PrecisionRecallCurve
    calibration: CalibrationCurve
    decision_curve: DecisionCurve
    tpr_band: Band | None
    fpr_band: Band | None
    observed_band: Band | None
    prevalence_interval: Interval | None

    @property
    def auc(self) -> Estimate:
        """Area under the ROC curve."""
        estimate = self.measures[0].estimate
        assert estimate is not None  # noqa: S101 - `report_card` refuses a histogram that has none
        return estimate

    @property
    def interval(self) -> Interval | None:
        """Confidence interval of the AUC."""
        return self.measures[0].interval

    @property
    def prevalence(self) -> float:
        """Share of positive rows."""
        return float(self.histogram.positives.sum() / self.histogram.counts.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the report says of the session and could not compute itself; shown as text, whatever it holds.

    Attributes
    ----------
    title : str
        What was evaluated.
    date : datetime.date
        Of the report.
    privacy : str
        The privacy statement; a blank line starts a new paragraph.
    session : Mapping[str, object]
        Facts by name, in the order in which they are shown: texts, numbers, or sequences and mappings of them.
    warnings : tuple of str
        What the reader ought to know first.
    groups : tuple of fhe_auc.results.estimates.GroupEstimate
        AUCs of groups of rows, from a session of their own.
    sites : fhe_auc.results.heterogeneity.SiteSummary or None
        What sites have in common, from the same session.
    """

    title: str
    date: datetime.date
    privacy: str
    session: Mapping[str, object]
    warnings: tuple[str, ...] = ()
    groups: tuple[GroupEstimate, ...] = ()
    sites: SiteSummary | None = None


def _calibration_error(histogram: Histogram) -> Estimate:
    return metrics.expected_calibration_error(histogram, n_bins=_CALIBRATION_BINS, strategy="quantile")


_OF_SCORES: tuple[tuple[str, str, str, Callable[[Histogram], Estimate]], ...] = (
    (
        "roc_auc",
        "AUC",
        "How often a positive row scores above a negative one: 0.5 is chance, 1 is perfect.",
        metrics.roc_auc_score,
    ),
    (
        "average_precision",
        "Average precision",
        "Mean precision as recall grows; chance gives the share of positive rows.",
        metrics.average_precision_score,
    ),
    (
        "ks",
        "Kolmogorov–Smirnov",
        "Largest gap between true and false positive rate over all thresholds.",
        metrics.ks_statistic,
    ),
    (
        "expected_calibration_error",
        "Calibration error",
        "Mean distance between score and observed share of positive rows, in ten bins of equally many rows; 0 is best.",
        _calibration_error,
    ),
    ("brier", "Brier score", "Mean squared distance between score and label; 0 is best.", metrics.brier_score_loss),
    ("log_loss", "Log loss", "Mean surprise at the labels, in nats; 0 is best.", metrics.log_loss),
    (
        "normalised_entropy",
        "Normalised entropy",
        "Log loss, relative to always giving the share of positive rows: below 1 is better than that.",
        metrics.normalised_entropy,
    ),
)

_OF_DECISIONS: tuple[tuple[str, str, str, Callable[[Histogram, float], Estimate]], ...] = (
    ("precision", "Precision (PPV)", "Of rows predicted positive, the share that truly are.", metrics.precision_score),
    ("recall", "Recall (sensitivity)", "Of positive rows, the share that is found.", metrics.recall_score),
    ("specificity", "Specificity", "Of negative rows, the share that is left alone.", metrics.specificity_score),
    (
        "npv",
        "Negative predictive value",
        "Of rows predicted negative, the share that truly are.",
        metrics.negative_predictive_value,
    ),
    ("f1", "F1", "Harmonic mean of precision and recall.", metrics.f1_score),
    ("accuracy", "Accuracy", "Share of rows predicted right.", metrics.accuracy_score),
    (
        "balanced_accuracy",
        "Balanced accuracy",
        "Mean of recall and specificity; 0.5 is chance.",
        metrics.balanced_accuracy_score,
    ),
)


def report_card(
    histogram: Histogram,
    *,
    threshold: float = 0.5,
    level: float | None = DEFAULT_LEVEL,
    min_cell: int = 1,
    noisy: bool = False,
) -> ReportCard:
    """Compute every number of the report.

    Parameters
    ----------
    histogram : Histogram
        Edges in [0, 1]; counts exact or with privacy noise.
    threshold : float
        The reader's own decision threshold. Where small cells are merged the nearest edge stands for it, so that all
        counts at it are whole, and none is small; the edge nearest to it before stays one if it can.
    level : float, optional
        Level of the confidence intervals, from 0.5 to 0.9999; None for none.
    min_cell : int
        Bins are merged (`fhe_auc.metrics.merge_small_cells`) until no count that is shown is from 1 to
        ``min_cell - 1``; 1 merges nothing.
    noisy : bool
        Whether the counts carry privacy noise. They have no intervals and, since the noise hides small counts, are not
        merged. Counts that are no integers are treated alike.

    Raises
    ------
    UndefinedAucError
        If there are no positive or no negative rows.
    EvaluationError
        If a class has fewer than `min_cell` rows.
    InputError
        If the edges leave [0, 1], the threshold is not finite, or the level or `min_cell` is out of range.
    """
    fine = usable = histogram.cleaned()
    if noisy or any((side % 1).any() for side in (usable.positives, usable.negatives)):
        level, min_cell = None, 1
    if min_cell > 1:
        # Groups of the reliability diagram end at edges of merged bins: else differences of both would be small counts.
        nearest = _nearest(fine.edges[:-1], threshold)
        calibration, ends = _groups(fine, nearest, min_cell)
        usable = metrics.merge_small_cells(fine, min_cell, keep=[nearest, *fine.edges[ends]])
        mean_scores = _in_cuts(fine, np.searchsorted(fine.edges, usable.edges[1:-1])).prob_pred
        chosen = _nearest(usable.edges[:-1], threshold)
    else:
        calibration = metrics.calibration_curve(fine, n_bins=_CALIBRATION_BINS, strategy="quantile")
        mean_scores, chosen = fine.centres, threshold
    positives, negatives = float(usable.positives.sum()), float(usable.negatives.sum())
    rows = positives + negatives
    roc = metrics.roc_curve(usable)
    told_by = _OF_SURPRISE if 0 < _wrong(fine, _SURE) <= min_cell - 1 else ()
    # Each of these adds about 1 to the sum of squares, and shows unless others make up as much.
    wrong = _wrong(fine, _NEARLY_SURE)
    if 0 < wrong <= min_cell - 1 and 2 * wrong > metrics.brier_score_loss(fine).value * rows:
        told_by = (*told_by, "brier")
    decide = partial(_decision, usable, level=level)
    return ReportCard(
        histogram=usable,
        fine_bins=fine.bins,
        min_cell=min_cell,
        noisy=noisy,
        level=level,
        measures=tuple(
            Measure(name, title, meaning, None, missing=_FEW_SURE.format(min_cell - 1))
            if name in told_by
            else Measure(
                name,
                title,
                meaning,
                metric(usable if name in _AT_A_THRESHOLD else fine),
                None if level is None or name not in _INTERVALS else _INTERVALS[name](fine, level),
            )
            for name, title, meaning, metric in _OF_SCORES
        ),
        calibration_measures=_calibration_measures(fine, level),
        brier=metrics.brier_decomposition(usable, mean_scores),
        best=decide("Best F1", metrics.best_f1_threshold(usable)),
        chosen=decide("Chosen" if chosen == threshold else f"Nearest to {threshold:.4g}", chosen),
        operating_points=tuple(_operating_points(usable, decide)),
        roc=roc,
        precision_recall=metrics.precision_recall_curve(usable),
        calibration=calibration,
        decision_curve=metrics.decision_curve(usable),
        tpr_band=_band(roc.tpr, np.full(roc.tpr.shape, positives), level),
        fpr_band=_band(roc.fpr, np.full(roc.fpr.shape, negatives), level),
        observed_band=_band(calibration.prob_true, calibration.rows, level),
        prevalence_interval=_of_rate(positives, rows, level),
    )


def _nearest(edges: NDArray[np.float64], threshold: float) -> float:
    if not math.isfinite(threshold):
        raise InputError(f"threshold is {threshold}; it must be finite")
    return float(edges[np.argmin(np.abs(edges - threshold))])


def _band(rates: NDArray[np.float64], rows: NDArray[np.float64], level: float | None) -> Band | None:
    return None if level is None else Band(*wilson(np.round(rates * rows), rows, level))


def _of_rate(successes: float, rows: float, level: float | None) -> Interval | None:
    if level is None or not rows > 0:
        return None
    low, high = wilson(successes, rows, level)
    return Interval(level, float(low), float(high), WILSON)


def _groups(fine: Histogram, threshold: float, min_cell: int) -> tuple[CalibrationCurve, NDArray[np.intp]]:
    """Return the reliability diagram's points, and the first bin of each group but the first.

    Of the most groups that leave no count from 1 to ``min_cell - 1``, neither in a group nor between the threshold and
    its ends: if need be the end nearest to the threshold moves there. Groups have about equally many rows. Where events
    are rare, or scores sure, few such groups would do, so that they then are about equally uncertain. Labels have no
    other part in where groups end.
    """
    at = np.flatnonzero(fine.edges[1:-1] == threshold) + 1
    held = at if _without_small_counts(fine, at, min_cell) else at[:0]
    rows = np.append(0, np.cumsum(fine.counts))
    for number in range(_CALIBRATION_BINS, 1, -1):
        for weights in (fine.counts, fine.counts * fine.centres * (1 - fine.centres)):
            cuts = _cuts(fine, weights, number)
            moved = cuts.copy()
            if len(held) and len(cuts):
                moved[np.abs(rows[cuts] - rows[held]).argmin()] = held[0]
            for ends in (cuts, moved):
                found = _in_cuts(fine, ends)
                if found.rows.all() and _without_small_counts(fine, np.union1d(ends, held), min_cell):
                    return found, ends
    return _in_cuts(fine, at[:0]), at[:0]


def _cuts(fine: Histogram, weights: NDArray[np.float64], number: int) -> NDArray[np.intp]:
    """Return the first bin of each of so many groups of neighbours of about the same weight, but of the first group.

    Bins go as a whole to the group in which their middle is, if all weight were on a line: there can be fewer groups.
    """
    some = np.flatnonzero(weights)
    middles = np.cumsum(weights[some]) - weights[some] / 2
    groups = (number * middles / weights.sum()).astype(np.intp)
    return np.asarray(some[1:][np.diff(groups) > 0])


def _without_small_counts(fine: Histogram, cuts: NDArray[np.intp], least: int) -> bool:
    """Return whether no group between bins at which it is cut has from 1 to ``least - 1`` rows of a label."""
    counts = np.array([np.add.reduceat(side, [0, *cuts]) for side in (fine.positives, fine.negatives)])
    return bool(((counts == 0) | (counts >= least)).all())


def _in_cuts(fine: Histogram, cuts: NDArray[np.intp]) -> CalibrationCurve:
    """Return share of positive rows, mean score and rows of each group of bins; a score of 0 where there are none."""
    sums = (fine.positives, fine.counts * fine.centres, fine.counts)
    positives, scores, rows = (np.add.reduceat(each, [0, *cuts]) for each in sums)
    some = np.maximum(rows, 1)
    return CalibrationCurve(positives / some, scores / some, rows)


def _wrong(histogram: Histogram, within: float) -> float:
    """Return how many rows have a score so near to the end that is not their label's."""
    scores = histogram.centres
    return float(histogram.positives[scores < within].sum() + histogram.negatives[scores > 1 - within].sum())


def _of_auc(histogram: Histogram, level: float) -> Interval | None:
    """Return DeLong's interval."""
    auc, standard_error = of_bins(histogram.positives, histogram.negatives)
    if standard_error is None:
        return None
    interval = on_logit_scale(auc, standard_error, level, DELONG)
    ties = int((histogram.positives * histogram.negatives).sum())
    pairs = int(histogram.positives.sum()) * int(histogram.negatives.sum())
    return widened(interval, standard_error, ties / (2 * pairs))


def _of_average_precision(histogram: Histogram, level: float) -> Interval | None:
    estimate, error = metrics.average_precision_score(histogram), metrics.average_precision_error(histogram)
    # Around the value less half its bias: of all of it, intervals held too little where models are good.
    return _wald_logit(estimate, error, level, metrics.average_precision_bias(histogram) / 2)


def _of_brier(histogram: Histogram, level: float) -> Interval | None:
    return _wald_logit(metrics.brier_score_loss(histogram), metrics.brier_score_error(histogram), level)


def _wald_logit(estimate: Estimate, error: float, level: float, bias: float = 0.0) -> Interval | None:
    interval = on_logit_scale(Fraction(estimate.value - bias), error, level, WALD_LOGIT)
    return widened(interval, error, estimate.half_width)


_INTERVALS: Mapping[str, Callable[[Histogram, float], Interval | None]] = {
    "roc_auc": _of_auc,
    "average_precision": _of_average_precision,
    "brier": _of_brier,
}


def _calibration_measures(histogram: Histogram, level: float | None) -> tuple[Measure, ...]:
    def around(estimate: Estimate, error: float) -> Interval | None:
        if level is None:
            return None
        reach = quantile(level) * error
        interval = Interval(level, estimate.value - reach, estimate.value + reach, WALD)
        return widened(interval, error, estimate.half_width, (-math.inf, math.inf))

    large, large_error = metrics.calibration_in_the_large(histogram)
    ratio = _or_none(metrics.observed_expected_ratio, histogram)
    of_ratio = None
    if ratio is not None and level is not None:
        # On the log scale, as Debray et al., BMJ 356 (2017), i6460, but events vary by what the scores leave open, and
        # not as if all rows had one risk: that covers too much for good models.
        error = metrics.observed_expected_error(histogram)
        factor = math.exp(quantile(level) * error)
        of_ratio = Interval(level, ratio.value / factor, ratio.value * factor, WALD)
        of_ratio = widened(of_ratio, ratio.value * error, ratio.half_width, (0.0, math.inf))
    line = _or_none(metrics.calibration_line, histogram)
    slope = intercept = None
    of_slope = of_intercept = None
    if line is not None:
        slope, intercept = (
            Estimate(value, value - off, value + off)
            for value, off in ((line.slope, line.slope_off), (line.intercept, line.intercept_off))
        )
        of_slope, of_intercept = around(slope, line.slope_error), around(intercept, line.intercept_error)
    return (
        Measure(
            "observed_expected_ratio",
            "Observed : expected",
            "Positive rows over the sum of all scores; below 1, scores are too high.",
            ratio,
            of_ratio,
        ),
        Measure(
            "calibration_in_the_large",
            "Calibration in the large",
            "What to add to the log odds of every score, for scores and positive rows to agree in all; 0 is best.",
            large,
            around(large, large_error),
        ),
        Measure(
            "calibration_slope",
            "Calibration slope",
            "Slope of the label on the log odds of the score (logistic); below 1, scores are too extreme.",
            slope,
            of_slope,
        ),
        Measure("calibration_intercept", "Calibration intercept", "Of the same line.", intercept, of_intercept),
    )


def _or_none(metric: Callable[..., _T], *arguments: Any) -> _T | None:
    try:
        return metric(*arguments)
    except UndefinedMetricError:
        return None


def _operating_points(histogram: Histogram, decide: Callable[[str, float], Decision]) -> Iterator[OperatingPoint]:
    for held, title, find in (
        ("specificity", "Specificity", metrics.threshold_of_specificity),
        ("recall", "Sensitivity", metrics.threshold_of_recall),
    ):
        for least in _HELD:
            threshold = _or_none(find, histogram, least)
            decision = None if threshold is None else decide(f"{title} at least {least:.2f}", threshold)
            yield OperatingPoint(held, title, least, decision)


def _decision(histogram: Histogram, title: str, threshold: float, *, level: float | None) -> Decision:
    confusion = metrics.confusion_matrix(histogram, threshold)
    (tn, fp), (fn, tp) = confusion.tolist()
    rates = {
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
        "specificity": (tn, tn + fp),
        "npv": (tn, tn + fn),
        "accuracy": (tp + tn, tp + tn + fp + fn),
    }
    measures = []
    for name, heading, meaning, metric in _OF_DECISIONS:
        interval = _of_rate(*rates[name], level) if name in rates else None
        measures.append(Measure(name, heading, meaning, _or_none(metric, histogram, threshold), interval))
    return Decision(title, float(threshold), tuple(measures), confusion)


def as_dict(card: ReportCard, facts: Facts) -> dict[str, Any]:
    """Return the whole content of the report as plain types, ready for ``json.dumps``.

    Undefined metrics, the infinite first threshold of the ROC curve, and ends that are not known are None.
    """
    roc, precision_recall, calibration, decision_curve = (
        {name: values.tolist() for name, values in curve._asdict().items()}
        for curve in (card.roc, card.precision_recall, card.calibration, card.decision_curve)
    )
    roc["thresholds"][0] = None
    merged = card.histogram.bins < card.fine_bins
    if merged:
        calibration["prob_pred"] = [round(each, _DIGITS) for each in calibration["prob_pred"]]
    for curve, name, band in (
        (roc, "tpr", card.tpr_band),
        (roc, "fpr", card.fpr_band),
        (calibration, "prob_true", card.observed_band),
    ):
        curve |= {f"{name}_{end}": values.tolist() for end, values in (band._asdict() if band else {}).items()}
    return {
        "title": facts.title,
        "date": facts.date.isoformat(),
        "privacy": facts.privacy,
        "warnings": list(facts.warnings),
        "noisy": card.noisy,
        "session": {str(name): _plain(value) for name, value in facts.session.items()},
        "rows": float(card.histogram.counts.sum()),
        "positive_rows": float(card.histogram.positives.sum()),
        "prevalence": {"value": card.prevalence, "interval": _plain_interval(card.prevalence_interval)},
        "small_cells": {"min_cell": card.min_cell, "bins": card.histogram.bins, "bins_before": card.fine_bins},
        "metrics": {
            name: entry and (entry | _ERROR_BINS if name == "expected_calibration_error" else entry)
            for name, entry in _measures(card.measures, rounded=merged).items()
        },
        "calibration": _measures(card.calibration_measures, rounded=merged),
        "brier_decomposition": _rounded(card.brier._asdict()) if merged else card.brier._asdict(),
        "decisions": {
            "best_f1": _plain_decision(card.best),
            "chosen": _plain_decision(card.chosen),
            **{
                f"{held}_{least:.2f}": decision and _plain_decision(decision)
                for held, _, least, decision in card.operating_points
            },
        },
        "groups": [_rounded(each.as_dict()) for each in facts.groups],
        "sites": None if facts.sites is None else _rounded(asdict(facts.sites)),
        "roc_curve": roc,
        "precision_recall_curve": precision_recall,
        "calibration_curve": calibration,
        "decision_curve": decision_curve,
        "histogram": {
            "edges": card.histogram.edges.tolist(),
            "positives": card.histogram.positives.tolist(),
            "negatives": card.histogram.negatives.tolist(),
        },
    }


def _rounded(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers with the digits that a paper gives: all of them would be more equations about the rows."""
    found: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, Mapping):
            found[name] = _rounded(value)
        elif name != "fraction":
            found[name] = round(value, _DIGITS) if isinstance(value, float) else value
    return found


def _measures(measures: Sequence[Measure], *, rounded: bool = False) -> dict[str, Any]:
    found = {
        measure.name: {
            **{name: value if math.isfinite(value) else None for name, value in asdict(measure.estimate).items()},
            "interval": _plain_interval(measure.interval),
        }
        if measure.estimate
        else None
        for measure in measures
    }
    return {name: entry and _rounded(entry) for name, entry in found.items()} if rounded else found


def _plain_interval(interval: Interval | None) -> dict[str, Any] | None:
    return None if interval is None else asdict(interval)


def _plain_decision(decision: Decision) -> dict[str, Any]:
    return {
        "threshold": decision.threshold,
        "metrics": _measures(decision.measures),
        "confusion_matrix": decision.confusion.tolist(),
    }


def _plain(value: object) -> Any:
    """Return what JSON can hold; anything else as text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)

"""What the report says, before it is drawn or written: numbers, points of the curves, and facts of the session."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc import metrics
from fhe_auc.base.errors import InputError
from fhe_auc.metrics import (
    BrierDecomposition,
    CalibrationCurve,
    DecisionCurve,
    Estimate,
    Histogram,
    PrecisionRecallCurve,
    RocCurve,
)
from fhe_auc.metrics.calibration import CALIBRATION_BINS
from fhe_auc.results.estimates import Comparison, GroupEstimate
from fhe_auc.results.group_decisions import GroupDecision
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import DEFAULT_LEVEL, Interval, wilson
from fhe_auc.results.report_measures import (
    Decision,
    Measure,
    OperatingPoint,
    calibration_measures,
    decision,
    operating_points,
    rate_interval,
    score_measures,
)

DIGITS = 4  # of numbers that are not of the counts shown, also in figures: all of them would tell where single rows lie


class Band(NamedTuple):
    """Ends of the pointwise intervals of a curve's points, both of the points' shape."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ReportCard:
    """All numbers of the report, from cleaned counts. Make it with `report_card`.

    The histogram has the counts shown, also by all curves and at thresholds: small cells are merged already. Measures
    without a threshold are of the bins before: merging moves them by more than their standard errors. Each is one
    equation about all rows at once, and is written with four digits where bins are merged.
    """

    histogram: Histogram
    fine_bins: int  # before merging
    min_cell: int  # the least count, but for 0, that is shown; 1 where nothing was merged on purpose
    noisy: bool  # whether the counts carry privacy noise, which no range covers; there are no intervals then
    level: float | None  # of all confidence intervals; None: there are none
    measures: tuple[Measure, ...]  # without a threshold; the first is the AUC
    calibration_measures: tuple[Measure, ...]  # likewise
    brier: BrierDecomposition | None  # by the bins shown, whose rows have their mean score; None: no probabilities
    best: Decision  # at the threshold with the best F1
    chosen: Decision  # at the reader's own
    operating_points: tuple[OperatingPoint, ...]  # the best recall at a specificity that is held, and the other way
    roc: RocCurve
    precision_recall: PrecisionRecallCurve
    calibration: CalibrationCurve | None  # as `_groups` makes its groups; None: scores are no probabilities
    decision_curve: DecisionCurve | None  # likewise
    tpr_band: Band | None  # Wilson's intervals of the rates at each point of the ROC curve,
    fpr_band: Band | None
    observed_band: Band | None  # and of the share of positive rows at each point of the calibration curve
    prevalence_interval: Interval | None  # Wilson's, of the share of positive rows
    model: str = ""  # its name; empty where it is the only one

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


class TwoModels(NamedTuple):
    """A second model beside that of a card, and both compared."""

    card: ReportCard  # of the second
    comparison: Comparison | None  # of the two AUCs; None where one is undefined
    net_benefits: tuple[Measure, ...]  # of both, and their difference; none where small counts leave other thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the report says of the session and cannot compute itself; the page shows it as text, whatever it holds.

    Groups and sites name their model as its card does.
    """

    title: str  # what was evaluated
    date: datetime.date  # of the report
    privacy: str  # the privacy statement; a blank line starts a new paragraph
    session: Mapping[str, object]  # by name, in the order shown: texts, numbers, or sequences and mappings of them
    warnings: tuple[str, ...] = ()  # what the reader ought to know first
    groups: tuple[GroupEstimate, ...] = ()  # AUCs of groups of rows, from a session of their own
    group_decisions: tuple[GroupDecision, ...] = ()  # these groups at the chosen threshold, from another one
    sites: tuple[SiteSummary, ...] = ()  # what sites have in common, from the same session as groups
    models: TwoModels | None = None  # a second model of the same rows

    def cards(self, first: ReportCard) -> tuple[ReportCard, ...]:
        """Return the cards of all models, of which this is the first."""
        return (first,) if self.models is None else (first, self.models.card)

    def of_model(self, name: str) -> Facts:
        """Return the facts of one model alone."""
        return replace(
            self,
            groups=tuple(each for each in self.groups if each.model == name),
            group_decisions=tuple(each for each in self.group_decisions if each.model == name),
            sites=tuple(each for each in self.sites if each.model == name),
            models=None,
        )


def report_card(
    histogram: Histogram,
    *,
    threshold: float = 0.5,
    level: float | None = DEFAULT_LEVEL,
    min_cell: int = 1,
    noisy: bool = False,
) -> ReportCard:
    """Compute all numbers of the report, of counts in bins of scores, exact or with privacy noise.

    Where edges leave [0, 1] scores are no probabilities: what needs these is missing.

    `threshold` is the reader's own. Where small cells are merged the nearest edge stands for it, so that all counts at
    it are whole, and none is small; the edge nearest to it before stays one if it can. `level`, from 0.5 to 0.9999, is
    that of the confidence intervals; None for none. Bins are merged (`fhe_auc.metrics.merge_small_cells`) until no
    count that is shown is from 1 to ``min_cell - 1``, and no edge tells where fewer rows lie; 1 merges nothing. `noisy`
    counts, and those that are no integers, have no intervals and, since the noise hides small counts, are not merged.

    Raises `UndefinedAucError` without positive or negative rows, `EvaluationError` if a class has fewer than `min_cell`
    rows; `InputError` if the threshold is not finite, or `level` or `min_cell` is out of range.
    """
    fine = usable = histogram.cleaned()
    if noisy or any((side % 1).any() for side in (fine.positives, fine.negatives)):
        level, min_cell = None, 1
    probabilities, calibration = metrics.of_probabilities(fine), None
    if min_cell > 1:
        # Groups of the reliability diagram end at edges of merged bins: else differences of both would be small counts.
        nearest = _nearest(fine.edges[:-1], threshold)
        crowded = metrics.crowded(fine, min_cell, first=nearest)
        mean_scores = _in_cuts(fine, np.searchsorted(fine.edges, crowded.edges[1:-1])).prob_pred
        ends = crowded.edges[_groups(crowded, mean_scores, nearest, min_cell)] if probabilities else np.empty(0)
        usable = metrics.merge_small_cells(crowded, min_cell, keep=[nearest, *ends])
        if probabilities:
            calibration = _in_cuts(fine, np.searchsorted(fine.edges, ends))
            calibration = calibration._replace(prob_pred=calibration.prob_pred.round(DIGITS))
        mean_scores = _in_cuts(fine, np.searchsorted(fine.edges, usable.edges[1:-1])).prob_pred
        chosen = _nearest(usable.edges[:-1], threshold)
    else:
        calibration = metrics.calibration_curve(fine, strategy="quantile") if probabilities else None
        mean_scores, chosen = fine.centres, threshold
    positives, negatives = float(usable.positives.sum()), float(usable.negatives.sum())
    roc = metrics.roc_curve(usable)
    return ReportCard(
        histogram=usable,
        fine_bins=fine.bins,
        min_cell=min_cell,
        noisy=noisy,
        level=level,
        measures=tuple(score_measures(fine, usable, level, min_cell)),
        calibration_measures=calibration_measures(fine, level),
        brier=metrics.brier_decomposition(usable, mean_scores) if probabilities else None,
        best=decision(usable, "Best F1", metrics.best_f1_threshold(usable), level),
        chosen=decision(usable, "Chosen" if chosen == threshold else f"Nearest to {threshold:.4g}", chosen, level),
        operating_points=tuple(operating_points(usable, level)),
        roc=roc,
        precision_recall=metrics.precision_recall_curve(usable),
        calibration=calibration,
        decision_curve=metrics.decision_curve(usable) if probabilities else None,
        tpr_band=_band(roc.tpr, positives, level),
        fpr_band=_band(roc.fpr, negatives, level),
        observed_band=calibration and _band(calibration.prob_true, calibration.rows, level),
        prevalence_interval=rate_interval(positives, positives + negatives, level),
    )


def _nearest(edges: NDArray[np.float64], threshold: float) -> float:
    if not math.isfinite(threshold):
        raise InputError(f"threshold is {threshold}; it must be finite")
    return float(edges[np.argmin(np.abs(edges - threshold))])


def _band(rates: NDArray[np.float64], rows: NDArray[np.float64] | float, level: float | None) -> Band | None:
    return None if level is None else Band(*wilson(np.round(rates * rows), rows, level))


def _groups(fine: Histogram, scores: NDArray[np.float64], threshold: float, min_cell: int) -> NDArray[np.intp]:
    """Return the first bin of each group of the reliability diagram but the first.

    Of the most groups that leave no count from 1 to ``min_cell - 1``, neither in a group nor between the threshold and
    its ends: if need be the end nearest to the threshold moves there. Groups have about equally many rows. Where events
    are rare, or scores sure, few such groups would do: they then are about equally uncertain. Labels decide no more.
    `scores` are the bins' means.
    """
    at = np.flatnonzero(fine.edges[1:-1] == threshold) + 1
    held = at if _without_small_counts(fine, at, min_cell) else at[:0]
    rows = np.append(0, np.cumsum(fine.counts))
    for number in range(CALIBRATION_BINS, 1, -1):
        for weights in (fine.counts, fine.counts * scores * (1 - scores)):
            cuts = _cuts(fine, weights, number)
            moved = cuts.copy()
            if len(held) and len(cuts):
                moved[np.abs(rows[cuts] - rows[held]).argmin()] = held[0]
            for ends in (cuts, moved):
                if _without_small_counts(fine, np.union1d(ends, held), min_cell):
                    return ends
    return at[:0]


def _cuts(fine: Histogram, weights: NDArray[np.float64], number: int) -> NDArray[np.intp]:
    """Return the first bin of each of at most so many groups of neighbours of about equal weight, but the first's."""
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

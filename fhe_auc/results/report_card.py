"""What the report says, before it is drawn or written: numbers, points of the curves, and facts of the session."""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.metrics import ranking, small_cells
from fhe_auc.metrics.calibration import CALIBRATION_BINS, CalibrationCurve, calibration_curve
from fhe_auc.metrics.histogram import Estimate, Floats, Histogram
from fhe_auc.metrics.precision_recall import DecisionCurve, best_f1_threshold, decision_curve, net_benefit_error
from fhe_auc.metrics.private_curves import CountNoise
from fhe_auc.metrics.probabilities import BrierDecomposition, brier_decomposition, of_probabilities
from fhe_auc.metrics.ranking import PrecisionRecallCurve, RocCurve
from fhe_auc.metrics.small_cells import Shown
from fhe_auc.results.asked import ReportAsked
from fhe_auc.results.decisions import LABELS, Decision, OperatingPoint, decision, operating_points, share
from fhe_auc.results.estimates import Comparison, GroupEstimate
from fhe_auc.results.group_decisions import GroupCalibration, GroupDecision
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import DEFAULT_LEVEL, Interval, noise_of_rate, quantile, rate_interval, wilson
from fhe_auc.results.private_measures import PrivateNumbers, private_numbers
from fhe_auc.results.report_measures import Measure, calibration_measures, in_steps_of_rows, score_measures

DIGITS = 4  # of numbers that are not of the counts shown, also in figures: all of them would tell where single rows lie


NO_DECISIONS = ReportAsked()


class Band(NamedTuple):
    """Ends of the pointwise intervals of a curve's points, both of the points' shape."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ReportCard:
    """All numbers of the report, from cleaned counts. Make it with `report_card`.

    The histogram has the counts shown, also by all curves and at thresholds: small cells are merged already. Measures
    without a threshold are of the bins before: merging moves them by more than their standard errors. Each is one
    equation about all rows at once, and is written with four digits where bins are merged. With weights what is shown
    is in steps (`small_cells.rounded`), and with it the curves; rates at thresholds are not of these, but rounded.
    """

    histogram: Histogram
    fine_bins: int  # before merging, which leaves fewer: thresholds asked for are among them
    min_cell: int  # the least count, but for 0, that is shown; 1 where nothing was merged on purpose
    level: float | None  # of all confidence intervals; None: there are none
    measures: tuple[Measure, ...]  # without a threshold; the first is the AUC
    calibration_measures: tuple[Measure, ...]  # likewise
    brier: BrierDecomposition | None  # by the bins shown, whose rows have their mean score; None: no probabilities
    best: Decision  # at the threshold with the best F1
    chosen: tuple[Decision, ...]  # at the reader's own thresholds, in their order
    operating_points: tuple[OperatingPoint, ...]  # by Youden, at a rate that is held, and what else was asked for
    roc: RocCurve
    precision_recall: PrecisionRecallCurve
    calibration: CalibrationCurve | None  # as `_groups` makes its groups; None: scores are no probabilities
    decision_curve: DecisionCurve | None  # likewise
    tpr_band: Band | None  # Wilson's intervals of the rates at each point of the ROC curve,
    fpr_band: Band | None
    observed_band: Band | None  # and of the share of positive rows at each point of the calibration curve
    net_benefit_band: Band | None  # Wald's intervals of the model's net benefit along the decision curve
    prevalence_estimate: Estimate  # share of positive rows, by weight,
    prevalence_interval: Interval | None  # and Wilson's interval
    model: str = ""  # its name; empty where it is the only one
    groups: tuple[GroupEstimate, ...] = ()  # AUCs of groups of rows, from a session of their own
    group_decisions: tuple[GroupDecision, ...] = ()  # these groups at the first chosen threshold, from another one
    group_calibrations: tuple[GroupCalibration, ...] = ()  # from the same session as that
    sites: SiteSummary | None = None  # what sites have in common, from the session of groups
    private: PrivateNumbers | None = None  # what is known of counts that carry privacy noise; None: they are exact

    @property
    def title(self) -> str:
        """How people are told of the model."""
        return f"model {self.model}" if self.model else "classifier"

    @property
    def level_text(self) -> str:
        """Write the level of the intervals for people."""
        return f"{100 * (self.level or 0):.6g} %"

    @property
    def noisy(self) -> bool:
        """Whether the counts carry privacy noise."""
        return self.private is not None

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
    def rows(self) -> int | None:
        """All rows, also those censored before a horizon; None where noise hides them."""
        return None if self.noisy else round(self.total)

    @property
    def total(self) -> float:
        """All rows, also those censored before a horizon; with noise about so many."""
        unknown = self.histogram.unknown
        return float(self.histogram.real.sum() + (0 if unknown is None else unknown.sum()))

    @property
    def weighted(self) -> bool:
        """Whether rows have weights: all numbers but those of rows are of these."""
        return self.histogram.squares is not None

    @property
    def prevalence(self) -> float:
        """Share of positive rows, by weight."""
        return self.prevalence_estimate.value


class Bootstrap(NamedTuple):
    """What a report has from replicates: of how many, in how many bins, and the differences of two models."""

    replicates: int
    bins: int
    differences: tuple[Measure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the report says of the sessions, and of two models; the page shows it as text, whatever it holds."""

    title: str  # what was evaluated
    date: datetime.date  # of the report
    privacy: str  # the privacy statement; a blank line starts a new paragraph
    session: Mapping[str, object]  # by name, in the order shown: texts, numbers, or sequences and mappings of them
    warnings: tuple[str, ...] = ()  # what the reader ought to know first
    comparison: Comparison | None = None  # of two models' AUCs; None where one is undefined
    weighting: Mapping[str, object] = field(default_factory=dict)
    """Of rows with weights "text", and what it tells: "step", "effective_rows" by label, and at a horizon
    "horizon", "event", "competing", "censored_before"."""
    net_benefits: tuple[Measure, ...] = ()  # of both, and their difference; none without a threshold at which both are
    bootstrap: Bootstrap | None = None  # where intervals by it were asked for


def report_card(
    histogram: Histogram,
    *,
    wanted: ReportAsked = NO_DECISIONS,
    added: Sequence[float] = (),
    level: float | None = DEFAULT_LEVEL,
    min_cell: int = 1,
    noise: CountNoise | None = None,
) -> ReportCard:
    """Compute all numbers of the report, of counts in bins of scores, exact or with privacy noise.

    Where edges leave [0, 1] scores are no probabilities: what needs these is missing.

    Thresholds that are `wanted` are edges, as numbers (`fhe_auc.question.score_bins`). Those that are `added` to the
    grid for this alone part no bin of measures without a threshold. `level`, from 0.5 to 0.9999, is that of the
    confidence intervals; None for none. Bins are merged (`small_cells.merge_small_cells`) until no count that is shown
    is from 1 to ``min_cell - 1``, and no edge tells where fewer rows lie; 1 merges nothing. A threshold stays where it
    is asked for: what would show a small count there is missing. Counts with `noise`, which hides small ones, are not
    merged, and have values and intervals by `private_numbers`; those that are no integers otherwise have no intervals.

    Raises `UndefinedAucError` without positive or negative rows, `EvaluationError` if a class has fewer than `min_cell`
    rows; `InputError` if a threshold is no edge, or `level` or `min_cell` is out of range.
    """
    counted = histogram.cleaned()
    fine = usable = merged = counted if noise else small_cells.joined(counted, added)
    private, variance = (private_numbers(histogram, noise, level), noise.deviation**2) if noise else (None, 0.0)
    if private or (fine.real % 1).any():
        level, min_cell = private.level if private else None, 1
    of_curves = None if private else level
    bins = [counted.bin_of(threshold) for threshold in wanted.threshold]
    probabilities, calibration = of_probabilities(fine), None
    hidden = [""] * len(bins)
    if min_cell > 1:
        # Groups of the reliability diagram end at edges of merged bins: else differences of both would be small counts.
        shown = small_cells.shown_at(counted, bins, min_cell)
        crowded = small_cells.crowded(counted, min_cell, shown)
        at = np.searchsorted(counted.edges[:-1], crowded.edges[1:-1])
        mean_scores = _in_cuts(counted, at).prob_pred
        ends = at[_groups(crowded, counted, mean_scores, shown, min_cell) - 1] if probabilities else at[:0]
        merged = small_cells.merge_small_cells(counted, min_cell, keep=counted.edges[ends], shown=shown)
        usable, in_steps = small_cells.rounded(merged), small_cells.rounded(counted)
        if probabilities:
            pred = _in_cuts(counted, ends).prob_pred
            calibration = _in_cuts(in_steps, ends)._replace(prob_pred=pred.round(DIGITS))
        mean_scores = _in_cuts(counted, np.searchsorted(counted.edges[:-1], usable.edges[1:-1])).prob_pred
        told = [dict(zip(LABELS, (at == 0 or at in own for own in shown), strict=True)) for at in bins]
        hidden = [" and ".join(label for label in LABELS if not each[label]) for each in told]
    else:
        calibration, in_steps = calibration_curve(fine) if probabilities else None, counted
        mean_scores = fine.centres
    positives, negatives = usable.sides.sum(axis=1).tolist()
    in_all, coarse = dict(zip(("TP", "TN"), merged.sides.sum(axis=1).tolist(), strict=True)), False
    squares, share_of = None, float(merged.positives.sum() / merged.counts.sum())
    prevalence = Estimate(share_of, share_of, share_of)
    if merged.squares is not None:
        squares, coarse = dict(zip(in_all, merged.squares.sum(axis=1), strict=True)), min_cell > 1
    of_all = share(in_all, squares, "TP", "TP TN", coarse=coarse)
    roc, of_label = ranking.roc_curve(usable), counted.bins * variance
    heavy = usable.spread.sum(axis=1) / usable.sides.sum(axis=1)  # Σw²/Σw of each label; 1 without weights
    curve = decision_curve(usable) if probabilities else None
    of_share: ArrayLike = 0.0
    of_benefit: ArrayLike = 0.0
    known: Callable[[Iterable[Measure]], tuple[Measure, ...]] = private.told if private else tuple
    if private is not None and curve is not None:
        # A threshold asked for may leave few rows beside an edge, which are no group.
        cuts = _cuts(usable.counts, min(CALIBRATION_BINS, usable.bins - len(bins)))
        at = np.searchsorted(private.spread.edges[:-1], usable.edges[cuts])
        calibration = _in_cuts(usable, cuts)._replace(prob_pred=_in_cuts(private.spread, at).prob_pred)
        of_group = np.diff(cuts, prepend=0, append=usable.bins) * variance
        of_share = noise_of_rate(calibration.prob_true, of_group, of_group)
        above, odds = usable.bins - np.arange(len(curve.model)), curve.thresholds / (1 - curve.thresholds)
        of_benefit = np.sqrt(variance * above * (1 + odds**2)) / usable.counts.sum()
    return ReportCard(
        histogram=usable,
        fine_bins=counted.bins if min_cell > 1 else fine.bins,
        min_cell=min_cell,
        level=level,
        measures=known(score_measures(fine, merged, of_curves, min_cell)),
        calibration_measures=known(calibration_measures(fine, of_curves)),
        brier=brier_decomposition(usable, mean_scores) if probabilities and not private else None,
        best=decision(merged, "Best F1", best_f1_threshold(merged), level, min_cell=min_cell, noise=variance),
        chosen=tuple(
            decision(counted, "Asked for", threshold, level, few=few, min_cell=min_cell, noise=variance)
            for threshold, few in zip(wanted.threshold, hidden, strict=True)
        ),
        operating_points=tuple(
            operating_points(merged, level, wanted.cost_ratio, wanted.alert_rate, min_cell, variance)
        ),
        roc=roc,
        precision_recall=ranking.precision_recall_curve(usable),
        calibration=calibration,
        decision_curve=curve,
        tpr_band=_band(roc.tpr, positives, of_curves, heavy[[0, 0]]),
        fpr_band=_band(roc.fpr, negatives, of_curves, heavy[[1, 1]]),
        observed_band=calibration and _band(calibration.prob_true, calibration.rows, level, heavy, of_share),
        net_benefit_band=curve and _around(curve.model, np.hypot(net_benefit_error(usable), of_benefit), level),
        prevalence_estimate=in_steps_of_rows(prevalence, of_all[1]) if coarse else prevalence,
        prevalence_interval=rate_interval(*of_all, level, float(noise_of_rate(share_of, of_label, of_label))),
        private=private,
    )


def _around(values: NDArray[np.float64], errors: NDArray[np.float64], level: float | None) -> Band | None:
    reach = quantile(level or DEFAULT_LEVEL) * errors
    return None if level is None else Band(values - reach, values + reach)


def _band(
    rates: Floats, rows: Floats | float, level: float | None, heavy: Floats, noise: ArrayLike = 0.0
) -> Band | None:
    """Return Wilson's intervals of rates of so many rows; `heavy` is Σw²/Σw of hits, and of others."""
    if level is None:
        return None
    effective = np.maximum(rows / (heavy[0] * (1 - rates) + heavy[1] * rates), 1e-9)
    return Band(*wilson(np.minimum(np.round(rates * effective, 6), effective), effective, level, noise))


def _groups(
    bins: Histogram, counted: Histogram, scores: NDArray[np.float64], shown: Shown, min_cell: int
) -> NDArray[np.intp]:
    """Return the first bin of each group of the reliability diagram but the first.

    Of the most groups that leave no count from 1 to ``min_cell - 1``, neither in a group nor between its ends and
    thresholds that are shown: if need be the end nearest to one moves there. Groups have about equally many rows. Where
    events are rare, or scores sure, few such groups would do: they then are about equally uncertain. Labels decide no
    more. `scores` are the means of `bins`, which are merged from those that were `counted`.
    """
    at = np.searchsorted(counted.edges[:-1], bins.edges[:-1])
    held = np.flatnonzero(np.isin(at, np.intersect1d(*shown)))
    rows = np.append(0, np.cumsum(bins.counts))
    for number in range(CALIBRATION_BINS, 1, -1):
        for weights in (bins.counts, bins.counts * scores * (1 - scores)):
            cuts = _cuts(weights, number)
            moved = cuts.copy()
            for each in held if len(cuts) else ():
                moved[np.abs(rows[cuts] - rows[each]).argmin()] = each
            for ends in (cuts, np.unique(moved)):
                if small_cells.clear_of(counted, at[ends], shown, min_cell):
                    return ends
    return held[:0]


def _cuts(weights: NDArray[np.float64], number: int) -> NDArray[np.intp]:
    """Return the first bin of each of at most so many groups of neighbours of about equal weight, but the first's."""
    some = np.flatnonzero(weights)
    middles = np.cumsum(weights[some]) - weights[some] / 2
    groups = (number * middles / weights.sum()).astype(np.intp)
    return np.asarray(some[1:][np.diff(groups) > 0])


def _in_cuts(fine: Histogram, cuts: NDArray[np.intp]) -> CalibrationCurve:
    """Return share of positive rows, mean score and rows of each group of bins; a score of 0 where there are none."""
    sums = (fine.positives, fine.counts * fine.centres, fine.counts)
    positives, scores, rows = (np.add.reduceat(each, [0, *cuts]) for each in sums)
    some = np.where(rows > 0, rows, 1)
    return CalibrationCurve(positives / some, scores / some, rows)

"""Intervals by the bootstrap, from replicates of all counts: of thresholds that the rows choose, of differences.

- Of a **threshold** an interval lies between percentiles of those that replicates choose, and ends at edges that are
  shown. A threshold jumps, at the rate n^(1/3): turned around, or corrected for bias, intervals of 95 % held 58 to 87 %
  of the true ones, percentiles 93 to 98 % (`docs/evidence/intervals.md`).
- Of a **difference** of two models it is d ± t·s, with s the standard deviation of differences in replicates, whose
  percentiles scatter more.

Means and maxima of absolute values have none: with copies of rows all of them are larger, so that a true 0 is left out.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fhe_auc.metrics.histogram import Estimate, Histogram
from fhe_auc.metrics.probabilities import of_probabilities
from fhe_auc.results.asked import ReportAsked
from fhe_auc.results.decisions import OperatingPoint, chosen_thresholds
from fhe_auc.results.evaluation import Replicates
from fhe_auc.results.intervals import Interval, student_t
from fhe_auc.results.report_card import Bootstrap, ReportCard
from fhe_auc.results.report_measures import Measure, calibration_measures, score_measures

BINS = 256  # of replicates, of all models together
_NONE = ("ks", "expected_calibration_error", "ici", "ici_by_chance", "e50", "e90", "emax", "roc_auc")
"""Measures whose difference has no interval here: not smooth, or, of AUCs, by a formula."""


def bins_of_replicates(histograms: Sequence[Histogram]) -> NDArray[np.float64]:
    """Return where bins begin in which replicates are counted, from each model's pooled rows in finer ones.

    Each holds about as large a share of positive as of negative rows, together; few bins stay as they are. Where scores
    are no probabilities, the last one is among them: a party's rows may all lie in the last few.
    """
    edges = list[NDArray[np.float64]]()
    for each in histograms:
        shares = each.positives / each.positives.sum() + each.negatives / each.negatives.sum()
        starts = np.searchsorted(np.cumsum(shares), np.linspace(0, 2, BINS // len(histograms), endpoint=False), "right")
        merged = each.edges[np.minimum(starts, each.bins - 1)] if each.bins > BINS else each.edges[:-1]
        edges += [merged, each.edges[:1], each.edges[:0] if of_probabilities(each) else each.edges[-2:-1]]
    return np.unique(np.concatenate(edges))


def with_bootstrap(
    cards: Sequence[ReportCard], fine: Sequence[Histogram], found: Replicates, wanted: ReportAsked, by: str
) -> tuple[tuple[ReportCard, ...], Bootstrap]:
    """Return cards with an interval of each threshold that the rows choose, and what else the replicates tell.

    `fine` are each model's bins as counted; `by` is what counts as often as chance has it: "rows", "patients".
    """
    number, bins = found.counts.shape[0], found.counts.shape[-1]
    method = f"bootstrap by {by}, {number} replicates in {bins} bins"
    of_models = [_of_model(found, model, own) for model, own in enumerate(fine)]
    made = list[ReportCard]()
    for card, own, replicates in zip(cards, fine, of_models, strict=True):
        spread = (_spread(own, each) for each in replicates)
        chosen = [chosen_thresholds(each, wanted.cost_ratio, wanted.alert_rate) for each in spread]
        points = tuple(
            point._replace(interval=_of_threshold(card, point, [each[point.name] for each in chosen], method))
            for point in card.operating_points
        )
        made.append(replace(card, operating_points=points))
    return tuple(made), Bootstrap(number, bins, _differences(cards, of_models, method) if len(cards) > 1 else ())


def _of_model(found: Replicates, model: int, fine: Histogram) -> list[Histogram]:
    """Return the replicates of a model, by index, that have both labels, in bins that begin where fine ones do."""
    starts = np.union1d(0, np.flatnonzero(np.isin(found.grid, fine.edges[1:-1])))
    edges = np.array([fine.edges[0], *found.grid[starts[1:]], fine.edges[-1]])
    counts = np.add.reduceat(found.counts[:, model], starts, axis=-1)
    return [Histogram(edges, *each) for each in counts if each.sum(axis=-1).all()]


def _spread(fine: Histogram, replicate: Histogram) -> Histogram:
    """Return a replicate in fine bins: rows of each of its own bins are spread over these as all rows are."""
    at = np.searchsorted(replicate.edges[:-1], fine.edges[:-1], side="right") - 1
    sides = list[NDArray[np.float64]]()
    for own, drawn in ((fine.positives, replicate.positives), (fine.negatives, replicate.negatives)):
        together = np.bincount(at, own, minlength=replicate.bins)
        sides.append(own * (drawn / np.where(together > 0, together, 1))[at])
    return Histogram(fine.edges, *sides)


def _of_threshold(
    card: ReportCard, point: OperatingPoint, found: Sequence[float | None], method: str
) -> Interval | None:
    """Return the interval, if all replicates have such a threshold."""
    known = [each for each in found if each is not None]
    if card.level is None or point.decision is None or len(known) < len(found):
        return None
    edges, own = card.histogram.edges, point.decision.threshold
    ends = f"to edges of the {card.histogram.bins} bins shown"
    tail = (1 - card.level) / 2
    low = float(np.quantile(known, tail, method="lower"))
    high = float(np.quantile(known, 1 - tail, method="higher"))
    below, above = edges[edges <= min(low, own)], edges[edges >= max(high, own)]
    return Interval(card.level, float(below[-1]), float(above[0]), f"percentile {method}, {ends}")


def _differences(
    cards: Sequence[ReportCard], of_models: Sequence[Sequence[Histogram]], method: str
) -> tuple[Measure, ...]:
    """Return the second model's measures minus the first's; not of calibration where rows are unknown at a horizon."""
    shown = [(*card.measures, *(card.calibration_measures if card.histogram.unknown is None else ())) for card in cards]
    drawn = [[_values(each) for each in own] for own in of_models]
    level, found = cards[0].level, list[Measure]()
    for old, new in zip(*shown, strict=True):
        pairs = [(first.get(old.name), second.get(old.name)) for first, second in zip(*drawn, strict=True)]
        moved = [second - first for first, second in pairs if first is not None and second is not None]
        if old.name in _NONE or not (level and old.estimate and new.estimate) or len(moved) < len(pairs):
            continue
        by = new.estimate.value - old.estimate.value
        reach = student_t(len(moved) - 1, level) * float(np.std(moved, ddof=1))
        title = f"{old.title}, {cards[1].model} minus {cards[0].model}"
        interval = Interval(level, by - reach, by + reach, method)
        ends = new.estimate.low - old.estimate.high, new.estimate.high - old.estimate.low
        found.append(Measure(old.name, title, old.meaning, Estimate(by, *ends), interval))
    return tuple(found)


def _values(histogram: Histogram) -> dict[str, float]:
    """Return all measures of one replicate."""
    measures = (*score_measures(histogram, histogram, None, 1), *calibration_measures(histogram, None, smooth=False))
    return {each.name: each.estimate.value for each in measures if each.estimate is not None}

"""Decisions at one threshold, asked for or chosen by the counts: their metrics, each rate with its interval."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from fhe_auc.metrics import precision_recall
from fhe_auc.metrics.histogram import Estimate, Histogram
from fhe_auc.metrics.small_cells import enough, rounded
from fhe_auc.results.evaluation import CellCounts
from fhe_auc.results.intervals import FEWEST, WALD, Interval, effective, noise_of_rate, quantile, rate_interval
from fhe_auc.results.report_measures import HELD, NOT_SHOWN, TOO_FEW, Measure, in_steps_of_rows

_ACTS = {"first": (0, 0, 1, 1), "second": (0, 1, 0, 1), "difference": (0, 1, -1, 0)}
"""Who acts on rows above by neither model, by the second alone, by the first alone, and by both."""

LABELS = ("positive", "negative")
_RATES = {
    "precision": ("TP", "TP FP"),
    "recall": ("TP", "TP FN"),
    "specificity": ("TN", "FP TN"),
    "npv": ("TN", "FN TN"),
    "accuracy": ("TP TN", "TP FP FN TN"),
}
"""Rates with Wilson's intervals: which rows, of which."""

_JACCARD = "TP", "TP FP FN"  # J; F1 is 2J/(1 + J)
_OF_BOTH = "none: both its parts have theirs"
_LABELS_OF = {"recall": LABELS[:1], "specificity": LABELS[1:]}
"""Rows of which label tell a rate at a threshold; others are told by both together."""


OfBothLabels: TypeAlias = CellCounts | Histogram
"""Rows of each label in cells of some kind, with weights Σw; then Σw² and rows besides."""


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The classifier at one threshold: a score at or above it is predicted positive.

    `title` says which threshold this is; `confusion` counts whole rows, ((TN, FP), (FN, TP)), or sums their weights;
    None is not shown.
    """

    title: str
    threshold: float
    measures: tuple[Measure, ...]
    confusion: tuple[tuple[float | None, float | None], tuple[float | None, float | None]]
    hidden: str = ""  # why some of it is not shown


class OperatingPoint(NamedTuple):
    """A decision at a threshold that the counts choose, by name and title; none where no bin begins there."""

    name: str
    title: str
    decision: Decision | None
    interval: Interval | None = None  # of the threshold, by the bootstrap


_OF_DECISIONS = {
    "precision": ("Precision (PPV)", "Of rows predicted positive, the share that truly are."),
    "recall": ("Recall (sensitivity)", "Of positive rows, the share that is found."),
    "specificity": ("Specificity", "Of negative rows, the share that is left alone."),
    "npv": ("Negative predictive value", "Of rows predicted negative, the share that truly are."),
    "f1": ("F1", "Harmonic mean of precision and recall."),
    "accuracy": ("Accuracy", "Share of rows predicted right."),
    "balanced_accuracy": ("Balanced accuracy", "Mean of recall and specificity; 0.5 is chance."),
}


def operating_points(
    histogram: Histogram,
    level: float | None,
    cost_ratio: float | None,
    alert_rate: float | None,
    min_cell: int = 1,
    noise: float = 0.0,
) -> Iterator[OperatingPoint]:
    """Yield decisions at each of `chosen_thresholds`; `noise` as of `decision`."""
    titles = [f"{rate} at least {least:.2f}" for rate in ("Specificity", "Sensitivity") for least in HELD]
    titles.append("Youden's index")
    if cost_ratio is not None:
        titles.append(f"Least cost, ratio {cost_ratio:g} (in theory {1 / (1 + cost_ratio):.4g})")
    if alert_rate is not None:
        titles.append(f"At most {100 * alert_rate:.4g}% flagged")
    chosen = chosen_thresholds(histogram, cost_ratio, alert_rate)
    for (name, at), title in zip(chosen.items(), titles, strict=True):
        made = None if at is None else decision(histogram, title, at, level, min_cell=min_cell, noise=noise)
        yield OperatingPoint(name, title, made)


def chosen_thresholds(
    histogram: Histogram, cost_ratio: float | None, alert_rate: float | None
) -> dict[str, float | None]:
    """Return the threshold at each specificity and sensitivity that is held, by Youden, a cost and an alert rate."""
    youdens = histogram.negatives.sum() / histogram.positives.sum()
    find = {
        **{f"specificity_{least:.2f}": precision_recall.threshold_of_specificity(histogram, least) for least in HELD},
        **{f"recall_{least:.2f}": precision_recall.threshold_of_recall(histogram, least) for least in HELD},
        "youden": precision_recall.cheapest_threshold(histogram, youdens),
    }
    if cost_ratio is not None:
        find["least_cost"] = precision_recall.cheapest_threshold(histogram, cost_ratio)
    if alert_rate is not None:
        find["alert_rate"] = precision_recall.threshold_of_alert_rate(histogram, alert_rate)
    return find


def decision(
    histogram: Histogram,
    title: str,
    threshold: float,
    level: float | None,
    *,
    few: str = "",
    min_cell: int = 1,
    noise: float = 0.0,
) -> Decision:
    """Return the classifier at a threshold; rates have Wilson's intervals, with the variance of `noise` on each count.

    `few` names the labels, of `LABELS`, whose counts are not shown there, nor what would tell them. Where small counts
    are hidden, sums of weights are in steps (`rounded`), and so are rates, but these are of the sums as they are.
    """
    told, exact = (
        precision_recall.confusion_matrix(each, threshold).tolist()
        for each in (rounded(histogram) if min_cell > 1 else histogram, histogram)
    )
    (tn, fp), (fn, tp) = exact
    counts, squares, coarse = {"TP": tp, "FP": fp, "FN": fn, "TN": tn}, None, False
    below = histogram.bin_of(threshold)
    if histogram.squares is not None:
        of_zero, of_one = np.split(histogram.squares, [below], axis=1)
        squares = dict(zip(counts, (*of_one.sum(axis=1), *of_zero.sum(axis=1)), strict=True))
        coarse = min_cell > 1
    of_rates = {**_RATES, "f1": _JACCARD} if noise else _RATES
    rates = {name: share(counts, squares, *of, coarse=coarse) for name, of in of_rates.items()}
    rows = {name: of for name, (_, of) in rates.items()}
    rows |= {"f1": share(counts, squares, *_JACCARD)[1], "balanced_accuracy": min(rows["recall"], rows["specificity"])}
    found = precision_recall.decision_metrics(histogram, threshold)
    bins = {"TP": histogram.bins - below, "FP": histogram.bins - below, "FN": below, "TN": below}
    by_noise = {name: _by_noise(rates[name], *share(bins, None, *of), noise) for name, of in of_rates.items()}
    why = few and f"{NOT_SHOWN}: from 1 to {min_cell - 1} {few} rows lie on one side, or up to another threshold"
    measures = []
    for name, texts in _OF_DECISIONS.items():
        if any(label in few for label in _LABELS_OF.get(name, LABELS)):
            measures.append(Measure(name, *texts, None, missing=why))
        else:
            value, rate = found[name], rates.get(name, (0.0, 0.0))
            estimate = None if value is None else Estimate(value, value, value)
            estimate = in_steps_of_rows(estimate, rows[name]) if coarse and estimate else estimate
            interval = rate_interval(*rate, level, by_noise.get(name, 0.0))
            if interval and name == "f1":
                low, high = (2 * end / (1 + end) for end in (interval.low, interval.high))
                interval = replace(interval, low=low, high=high)
            no_interval = TOO_FEW if 0 < rate[1] < FEWEST else _OF_BOTH * (noise > 0 and name == "balanced_accuracy")
            measures.append(Measure(name, *texts, estimate, interval, no_interval=no_interval))
    of_positive, of_negative = (
        (None, None) if label in few else tuple(row) for label, row in zip(LABELS, reversed(told), strict=True)
    )
    return Decision(title, float(threshold), tuple(measures), (of_negative, of_positive), why)


def _by_noise(rate: tuple[float, float], hits: float, among: float, noise: float) -> float:
    """Return the variance that `wilson` takes of a rate, of so many noisy counts; `noise` is that of one."""
    return float(noise_of_rate(rate[0] / max(rate[1], 1), hits * noise, (among - hits) * noise))


def share(
    counts: Mapping[str, float], squares: Mapping[str, float] | None, hits: str, among: str, *, coarse: bool = False
) -> tuple[float, float]:
    """Return so many rows of so many, each some cells of `counts`; with weights effective ones, by Σw² of the cells.

    A `coarse` share is in steps (`in_steps_of_rows`), and n, which ends of intervals tell, a multiple of about √n.
    """
    others = " ".join(cell for cell in among.split() if cell not in hits.split())
    hit, other = (sum(counts[cell] for cell in cells.split()) for cells in (hits, others))
    if squares is None:
        return hit, hit + other
    k, n = effective(hit, other, [sum(squares[cell] for cell in cells.split()) for cells in (hits, others)])
    if coarse and n:
        rate, n = float(k / n), n - n % math.isqrt(int(n))
        k = n * in_steps_of_rows(Estimate(rate, rate, rate), n).value
    return float(k), float(n)


def net_benefits(
    names: tuple[str, ...], cells: OfBothLabels, threshold: float, level: float | None, min_cell: int
) -> tuple[Measure, ...]:
    """Return the net benefit at a threshold below 1 of two models on the same rows, and the second's minus the first's.

    `cells` are four, as in `_ACTS`. What acting on a row is worth is 1 if it is positive, else -t/(1 - t);
    intervals are Wald's of its mean over rows. The difference has none where it could give away a count from 1 to
    ``min_cell - 1``.
    """
    counts, measures = np.stack([cells.positives, cells.negatives]), list[Measure]()
    squares, rows = (counts if each is None else each for each in (cells.squares, cells.rows))
    odds = threshold / (1 - threshold)
    for (name, acts), title in zip(_ACTS.items(), (*names, f"{names[1]} minus {names[0]}"), strict=True):
        worth = np.outer([1, -odds], acts)
        value = float((counts * worth).sum() / counts.sum())
        error = math.sqrt((squares * (worth - value) ** 2).sum()) / float(counts.sum())
        shown = error > 0 and (name != "difference" or bool(enough(min_cell, rows, counts, squares).all()))
        reach = quantile(level or 0.5) * error
        interval = Interval(level, value - reach, value + reach, WALD) if level and shown else None
        meaning = f"True positives a row at the threshold {threshold:.4g}, less {odds:.4g} of each false one."
        measures.append(Measure(name, f"Net benefit, {title}", meaning, Estimate(value, value, value), interval))
    return tuple(measures)

"""Groups of rows at one threshold: their decisions, and how far these are apart, under Fairlearn's names.

Of k groups with x_i of n_i rows, rates p_i = x_i/n_i, and p of all rows together:

    difference  max p_i − min p_i, ratio  min p_i / max p_i      Weerts et al., JMLR 24 (2023)
    p_i − p_j   from (p_i − p_j) − √((p_i − l_i)² + (u_j − p_j)²)
                to   (p_i − p_j) + √((u_i − p_i)² + (p_j − l_j)²)      l, u: ends of Wilson's intervals
                                            Newcombe, Stat. Med. 17 (1998), 873-890, method 10
    all alike   Σ (x_i − n_i·p)²/(n_i·p(1 − p)), χ² with k − 1 degrees of freedom      Pearson
    AUCs alike  Σ w_i(θ_i − θ̄)², the same χ²; θ the logits, w 1/their variances, θ̄ = Σwθ/Σw      Cochran's Q

**Groups that are not shown.** All groups that are not shown make one more group, of known counts: those of all rows
less those shown. A difference over more groups is no smaller, a ratio no larger, and of groups that are put together
the least rate is no larger than theirs together, and the largest no smaller. So what is known bounds all.

**Chance.** The largest of many differences is above 0 also where groups are alike: beside it stands what it is then on
average, in simulated counts of so many rows with the rate of all. Each group is compared with the largest one that is
shown, as Aequitas does: its rate is known best, and, unlike that of all others, has no hidden group in it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.numerics import chi_squared_tail
from fhe_auc.metrics import Histogram
from fhe_auc.metrics.small_cells import hidden_rows
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.intervals import Interval
from fhe_auc.results.report_measures import rate_interval

CELLS = ("TP", "FP", "FN", "TN")
RATES = {
    "true_positive_rate": ("TP", "TP FN"),
    "true_negative_rate": ("TN", "FP TN"),
    "precision": ("TP", "TP FP"),
    "selection_rate": ("TP FP", "TP FP FN TN"),
    "false_positive_rate": ("FP", "FP TN"),
    "false_negative_rate": ("FN", "TP FN"),
}
"""Rates by Fairlearn's names: which rows, of which."""

SHOWN_RATES = dict(zip(RATES, ("Sensitivity", "Specificity", "PPV", "Selected"), strict=False))
NEWCOMBE = "Newcombe"
_DRAWS = 2000
_FAIRNESS = {
    "demographic_parity": ("selection_rate",),
    "equalized_odds": ("true_positive_rate", "false_positive_rate"),  # the worse of both
    "equal_opportunity": ("true_positive_rate",),
}


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """The rows of one group at a threshold, `counts` by `CELLS`; None where they are too few to be shown.

    `together` then are those of all groups of the variable that are not shown, where none of these counts is small.
    """

    variable: str
    level: str
    counts: tuple[int, ...] | None
    together: tuple[int, ...] | None = None

    def rate(self, name: str) -> tuple[int, int]:
        """Return numerator and denominator of a rate; both 0 where counts are not shown."""
        of = dict(zip(CELLS, self.counts or (0,) * len(CELLS), strict=True))
        hit, among = (sum(of[cell] for cell in cells.split()) for cells in RATES[name])
        return hit, among

    def rates(self) -> dict[str, float]:
        """Return the group's rows ("count") and its rates; NaN for what is not shown, or undefined."""
        count = math.nan if self.counts is None else sum(self.counts)
        return {"count": count, **{name: hit / n if n else math.nan for name in RATES for hit, n in [self.rate(name)]}}

    def as_dict(self, level: float | None) -> dict[str, Any]:
        """Return plain types: counts, rates and the ends of Wilson's intervals; None for NaN."""
        ends = ((name, rate_interval(*self.rate(name), level)) for name in RATES)
        return {
            "variable": self.variable,
            "level": self.level,
            **dict(zip(CELLS, self.counts or [None] * len(CELLS), strict=True)),
            **{name: None if math.isnan(value) else value for name, value in self.rates().items()},
            "intervals": {name: None if each is None else [each.low, each.high] for name, each in ends},
        }


def of_cells(
    histogram: Histogram, analysis: Analysis, min_cell: int, hidden: Collection[str]
) -> Iterator[GroupDecision]:
    """Yield each group's decision, of a histogram whose bins are levels of `analysis.by`: below the threshold, above.

    Groups named in `hidden` are not shown, nor those with a count from 1 to ``min_cell - 1``, nor, of the variable,
    the next smallest ones where the counts of all rows would give these away.
    """
    (fn, tp), (tn, fp) = (side.reshape(-1, 2).T for side in (histogram.positives, histogram.negatives))
    cells = np.stack([tp, fp, fn, tn], axis=1).astype(np.int64)
    for variable in analysis.by:
        own, cells = np.split(cells, [len(variable.levels)])
        named = [at for at, level in enumerate(variable.levels) if f"{variable.name}: {level}" in hidden]
        left_out = hidden_rows(own, min_cell, also=named)
        rest = own[list(left_out)].sum(axis=0)
        known = None if ((rest > 0) & (rest < min_cell)).any() else tuple(rest.tolist())
        for at, level in enumerate(variable.levels):
            counts, together = (None, known) if at in left_out else (tuple(own[at].tolist()), None)
            yield GroupDecision(variable.name, level, counts, together)


class Disparity(NamedTuple):
    """A difference or ratio between all groups of a variable, or a bound on it where groups are left out."""

    value: float | None
    bound: str  # "at least", "at most"; empty where the value is of all groups
    left_out: tuple[str, ...]  # levels that are not shown, or have no such rows
    by_chance: float | None  # a difference's mean where all groups are alike

    def as_dict(self) -> dict[str, Any]:
        """Return plain types: a bound is no "value", but stands under its name, such as "at_least"."""
        found = {"value": self.value, "at_least": None, "at_most": None}
        if self.bound:
            found |= {"value": None, self.bound.replace(" ", "_"): self.value}
        return {**found, "hidden": list(self.left_out), "by_chance": self.by_chance}

    def __str__(self) -> str:
        return "undefined" if self.value is None else f"{self.bound} {self.value:.4f}".lstrip()


class GroupDifference(NamedTuple):
    """A group's rates, less those of the largest group shown, with Newcombe's interval; those that both have."""

    variable: str
    level: str
    reference: str
    rates: dict[str, tuple[float, Interval | None]]


def fairness(decisions: Sequence[GroupDecision]) -> dict[str, dict[str, Disparity]]:
    """Return, by variable, the largest difference between groups, and the smallest ratio, of each measure.

    By the names of Fairlearn's functions; None where fewer than two groups are known, or a ratio has no denominator.
    """
    found: dict[str, dict[str, Disparity]] = {}
    for variable, own in _by_variable(decisions).items():
        found[variable], known = {}, _known(own)
        for measure, names in _FAIRNESS.items():
            counts = [np.array([each.rate(name) for each in known if each.rate(name)[1]]).T for name in names]
            out = tuple(each.level for each in own if not all(each.rate(name)[1] for name in names))
            difference, ratio, chance = (None,) * 3
            if all(each.size and each.shape[1] > 1 for each in counts):
                rates = [hits / rows for hits, rows in counts]
                difference, chance = max(float(np.ptp(each)) for each in rates), _by_chance(counts)
                ratio = min(float(each.min() / each.max()) for each in rates) if all(map(np.max, rates)) else None
            for what, value, bound in (("difference", difference, "at least"), ("ratio", ratio, "at most")):
                by_chance = chance if what == "difference" else None
                known_by = bound if out and value is not None else ""
                found[variable][f"{measure}_{what}"] = Disparity(value, known_by, out, by_chance)
    return found


def differences(decisions: Sequence[GroupDecision], level: float | None) -> list[GroupDifference]:
    """Return, of each variable, each group shown but the largest, compared with that; `level` None: no intervals."""
    found = []
    for variable, own in _by_variable(decisions).items():
        shown = [each for each in own if each.counts is not None]
        largest = max(shown, key=lambda each: sum(each.counts or ()), default=None)
        for each in shown:
            if largest is not None and each is not largest:
                pairs = ((name, each.rate(name), largest.rate(name)) for name in SHOWN_RATES)
                rates = {name: _newcombe(of, to, level) for name, of, to in pairs if of[1] and to[1]}
                found.append(GroupDifference(variable, each.level, largest.level, rates))
    return found


def alike(decisions: Sequence[GroupDecision], estimates: Sequence[GroupEstimate]) -> dict[str, dict[str, float | None]]:
    """Return, by variable, the p-value of each rate, and of the AUC of each model, that all groups are alike in it.

    All groups that are not shown count as one, of rates. By rate, and "roc_auc", or "roc_auc: model" of several; None
    where fewer than two groups are known, or all are alike.
    """
    found: dict[str, dict[str, float | None]] = {}
    for variable, own in _by_variable(decisions).items():
        found[variable], known = {}, _known(own)
        for name in SHOWN_RATES:
            x, n = np.array([each.rate(name) for each in known if each.rate(name)[1]] or [(0, 1)], float).T
            p = x.sum() / n.sum()
            found[variable][name] = _tail((x - n * p) / np.sqrt(n * p * (1 - p))) if 0 < p < 1 else None
        levels = {f"{variable}: {each.level}" for each in own}
        for model in dict.fromkeys(each.model for each in estimates):
            of_model = (each for each in estimates if each.model == model and each.group in levels)
            usable = [(each.auc, each.standard_error) for each in of_model if each.standard_error and each.auc]
            a, error = np.array([(auc, error) for auc, error in usable if auc < 1] or [(0.5, 1)], float).T
            logit, w = np.log(a / (1 - a)), (a * (1 - a) / error) ** 2
            deviations = np.sqrt(w) * (logit - np.average(logit, weights=w))
            found[variable][f"roc_auc: {model}" if model else "roc_auc"] = _tail(deviations)
    return found


def _by_variable(decisions: Sequence[GroupDecision]) -> dict[str, list[GroupDecision]]:
    names = dict.fromkeys(each.variable for each in decisions)
    return {name: [each for each in decisions if each.variable == name] for name in names}


def _known(decisions: Sequence[GroupDecision]) -> list[GroupDecision]:
    """Return the groups of a variable that are shown, and those that are not as one."""
    rest = {GroupDecision(each.variable, "", each.together) for each in decisions if each.together is not None}
    return [*(each for each in decisions if each.counts is not None), *rest]


def _by_chance(counts: Sequence[NDArray[np.int64]]) -> float:
    """Return the mean of the largest difference of the worst rate where groups are alike, of (hits, rows) of each."""
    random = np.random.default_rng(0)  # one number for one page
    drawn = (random.binomial(rows, hits.sum() / rows.sum(), (_DRAWS, len(rows))) / rows for hits, rows in counts)
    return float(np.maximum.reduce([np.ptp(each, axis=1) for each in drawn]).mean())


def _newcombe(of: tuple[int, int], to: tuple[int, int], level: float | None) -> tuple[float, Interval | None]:
    p, q = (hit / rows for hit, rows in (of, to))
    own, other = (rate_interval(*each, level) for each in (of, to))
    if level is None or own is None or other is None:
        return p - q, None
    low, high = math.hypot(p - own.low, other.high - q), math.hypot(own.high - p, q - other.low)
    return p - q, Interval(level, p - q - low, p - q + high, NEWCOMBE)


def _tail(deviations: NDArray[np.float64]) -> float | None:
    """Return how often independent groups deviate as much by chance, in their standard errors; None of one group."""
    return chi_squared_tail(float((deviations**2).sum()), len(deviations) - 1) if len(deviations) > 1 else None

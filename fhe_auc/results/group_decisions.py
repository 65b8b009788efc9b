"""Groups of rows at one threshold: their decisions, and how far these are apart, under Fairlearn's names.

Of groups with x_i of n_i rows, rates p_i = x_i/n_i, and l_i, u_i the ends of Wilson's interval of each:

    max p_i − min p_i, and min p_i / max p_i                                               Weerts et al., JMLR 24 (2023)
    p_i − p_j, less √((p_i − l_i)² + (u_j − p_j)²), plus √((u_i − p_i)² + (p_j − l_j)²)    Newcombe, Stat. Med. 17
                                                                                           (1998), 873, method 10
    Σ w_i(v_i − Σwv/Σw)² is χ² with one degree less than there are groups, if all are alike:
        v_i = p_i, w_i = n_i/(p(1 − p)) with p of all (Pearson); v_i = logit AUC_i, w_i 1/its variance (Cochran's Q)

**Groups that are not shown** make one more group, whose counts are those of all rows less those shown. With more groups
a difference is no smaller, and a ratio no larger; of groups put together one has a rate no larger, one no smaller: so
what is known bounds all. Each group is compared with the largest one shown, as Aequitas does: it is known best.

**With weights** counts are sums of these, shown in steps (`fhe_auc.metrics.small_cells.rounded`); x_i and n_i are
effective rows, with rates of the sums as they are, in steps of their own (`fhe_auc.results.decisions.share`).
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.special_functions import chi_squared_tail
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.small_cells import enough, hidden_rows, in_steps
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.score_bins import bins_of
from fhe_auc.results.decisions import OfBothLabels, share
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.intervals import Interval, rate_interval
from fhe_auc.results.report_measures import Measure, calibration_measures

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
_CALIBRATION = ("observed_expected_ratio", "calibration_slope")
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
    counts: tuple[float, ...] | None
    together: tuple[float, ...] | None = None
    squares: tuple[float, ...] | None = None  # Σw² of either; None without weights
    sums: tuple[float, ...] | None = field(default=None, repr=False)  # Σw as they are, where either is in steps

    def rate(self, name: str) -> tuple[float, float]:
        """Return numerator and denominator of a rate; both 0 where counts are not shown."""
        counts, squares = (
            dict(zip(CELLS, (each if self.counts else None) or (0,) * len(CELLS), strict=True))
            for each in (self.sums or self.counts, self.squares)
        )
        known = self.counts and self.squares
        return share(counts, squares if known else None, *RATES[name], coarse=self.sums is not None)

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
    of_levels: OfBothLabels, analysis: Analysis, min_cell: int, hidden: Collection[str], above: int = 1
) -> Iterator[GroupDecision]:
    """Yield each group's decision, of counts in as many bins for each level of `analysis.by`.

    Of these the first at or above the threshold is `above`. Groups named in `hidden` are not shown, nor those with a
    count from 1 to ``min_cell - 1``, nor, of the variable, the next smallest ones where the counts of all rows would
    give these away.
    """
    levels, weighted = sum(len(variable.levels) for variable in analysis.by), of_levels.squares is not None
    sums = np.stack([of_levels.positives, of_levels.negatives])
    tables = list[NDArray[Any]]()  # of rows, Σw and Σw²: of each level, cells as in `CELLS`
    for sides in (of_levels.rows, sums, of_levels.squares):
        table = (sums if sides is None else sides).reshape(2, levels, -1)
        tables.append(np.concatenate([table[..., above:].sum(axis=-1), table[..., :above].sum(axis=-1)]).T)
    for variable in analysis.by:
        (own, counts, squares), tables = zip(*(np.split(each, [len(variable.levels)]) for each in tables), strict=True)
        named = [at for at, level in enumerate(variable.levels) if f"{variable.name}: {level}" in hidden]
        few = np.flatnonzero(~enough(min_cell, own, counts, squares).all(axis=1))
        left_out = hidden_rows(own, min_cell, also=[*named, *few.tolist()])
        known = bool(enough(min_cell, *(each[list(left_out)].sum(axis=0) for each in (own, counts, squares))).all())
        exact, coarse = counts.copy(), weighted and min_cell > 1
        for label in (0, 1) if coarse else ():
            side = counts[:, label::2]
            side[:] = in_steps(side, side.sum(), squares[:, label::2].sum())
        for at, level in enumerate(variable.levels):
            rows, out = (list(left_out) if at in left_out else [at]), at in left_out
            told, squared = (tuple(each[rows].sum(axis=0).tolist()) for each in (counts, squares))
            together, own_sums = (told if out and known else None), tuple(exact[rows].sum(axis=0).tolist())
            of_both = (squared if weighted else None), (own_sums if coarse and (known or not out) else None)
            yield GroupDecision(variable.name, level, None if out else told, together, *of_both)


@dataclass(frozen=True, slots=True)
class GroupCalibration:
    """How well scores are calibrated in one group: observed over expected events, and calibration slope."""

    variable: str
    level: str
    measures: tuple[Measure, ...]


def calibrations(
    cells: OfBothLabels, analysis: Analysis, pooled: Histogram, edges: NDArray[np.float64], level: float | None
) -> Iterator[GroupCalibration]:
    """Yield the calibration of each group with rows of both labels, of counts in bins that begin at a few `edges`.

    In each of these a group's rows of a label are taken to be spread as the `pooled` ones of that label are.
    """
    groups = [(variable.name, each) for variable in analysis.by for each in variable.levels]
    bins = bins_of(pooled.edges[:-1], edges)
    starts = np.searchsorted(bins, np.arange(len(edges)))

    def of_group(at: int, own: NDArray[Any] | None, of_all: NDArray[Any] | None) -> NDArray[np.float64] | None:
        if own is None or of_all is None:
            return None
        in_all = np.add.reduceat(of_all, starts, axis=-1)
        part = of_all / np.where(in_all > 0, in_all, 1)[..., bins]
        return np.asarray(own.reshape(*own.shape[:-1], len(groups), -1)[..., at, :][..., bins] * part)

    names = ("positives", "negatives", "squares", "rows", "unknown")
    for at, group in enumerate(groups):
        sides: dict[str, Any] = {name: of_group(at, getattr(cells, name), getattr(pooled, name)) for name in names}
        spread = Histogram(pooled.edges, **sides)
        if spread.positives.any() and spread.negatives.any():
            found = calibration_measures(spread, level, smooth=False)
            measures = tuple(each for each in found if each.name in _CALIBRATION)
            yield GroupCalibration(group[0], group[1], measures)


class Disparity(NamedTuple):
    """A difference or ratio between all groups of a variable, or a bound on it where groups are left out."""

    value: float | None
    bound: str  # "at least", "at most"; empty where the value is of all groups
    left_out: tuple[str, ...]  # levels that are not shown, or have no such rows
    by_chance: float | None = None  # a difference's mean where all groups are alike

    def as_dict(self) -> dict[str, Any]:
        """Return plain types: a bound is no "value", but stands under its name, such as "at_least"."""
        known = {"value": None, "at_least": None, "at_most": None, self.bound.replace(" ", "_") or "value": self.value}
        return {**known, "hidden": list(self.left_out), "by_chance": self.by_chance}

    def __str__(self) -> str:
        return "undefined" if self.value is None else f"{self.bound} {self.value:.4f}".lstrip()


def fairness(decisions: Sequence[GroupDecision]) -> dict[str, dict[str, Disparity]]:
    """Return, by variable, the largest difference between groups, and the smallest ratio, of each measure.

    By the names of Fairlearn's functions; None where fewer than two groups are known, or a ratio has no denominator.
    """
    found: dict[str, dict[str, Disparity]] = {}
    for variable, own in _by_variable(decisions).items():
        found[variable] = {}
        for measure, names in _FAIRNESS.items():
            counts = [_counts(own, name) for name in names]
            rates = [hits / rows for hits, rows in counts]
            out = tuple(each.level for each in own if not all(each.rate(name)[1] for name in names))
            difference = ratio = chance = None
            if all(len(each) > 1 for each in rates):
                difference, chance = max(float(np.ptp(each)) for each in rates), _by_chance(counts)
                ratio = min(float(each.min() / each.max()) for each in rates) if all(map(np.max, rates)) else None
            found[variable] |= {
                f"{measure}_difference": Disparity(difference, "at least" * bool(out), out, chance),
                f"{measure}_ratio": Disparity(ratio, "at most" * bool(out), out),
            }
    return found


def differences(
    decisions: Sequence[GroupDecision], level: float | None
) -> Iterator[tuple[str, str, str, dict[str, tuple[float, Interval | None]]]]:
    """Yield variable, group, the largest group, and by rate the difference and its interval, of all but the largest."""
    for variable, own in _by_variable(decisions).items():
        shown = sorted((each for each in own if each.counts), key=lambda each: -sum(each.counts or ()))
        for each in shown[1:]:
            pairs = ((name, each.rate(name), shown[0].rate(name)) for name in SHOWN_RATES)
            rates = {name: _newcombe(of, to, level) for name, of, to in pairs if of[1] and to[1]}
            yield variable, each.level, shown[0].level, rates


def alike(decisions: Sequence[GroupDecision], estimates: Sequence[GroupEstimate]) -> dict[str, dict[str, float | None]]:
    """Return, by variable, the p-values that all groups are alike in each rate, and in the AUC of one model, "roc_auc".

    None where fewer than two groups are known. Without decisions, at no threshold, there is that of AUCs alone.
    """
    found: dict[str, dict[str, float | None]] = {}
    without = dict[str, list[GroupDecision]]((each.group.partition(": ")[0], []) for each in estimates if each.group)
    for variable, own in (_by_variable(decisions) or without).items():
        found[variable] = {}
        for name in SHOWN_RATES:
            hits, rows = _counts(own, name)
            spread = (p := hits.sum() / max(rows.sum(), 1)) * (1 - p)
            found[variable][name] = _tail(hits / rows, rows / spread) if spread else None
        of = (each for each in estimates if each.group.startswith(f"{variable}: ") and each.standard_error)
        usable = [(each.auc, each.standard_error) for each in of]
        aucs, errors = np.array([each for each in usable if 0 < (each[0] or 0) < 1], float).reshape(-1, 2).T
        found[variable]["roc_auc"] = _tail(np.log(aucs / (1 - aucs)), (aucs * (1 - aucs) / errors) ** 2)
    return found


def _by_variable(decisions: Sequence[GroupDecision]) -> dict[str, list[GroupDecision]]:
    names = dict.fromkeys(each.variable for each in decisions)
    return {name: [each for each in decisions if each.variable == name] for name in names}


def _counts(decisions: Sequence[GroupDecision], name: str) -> NDArray[np.float64]:
    """Return hits and rows, shape (2, k), of a variable's groups that have such rows; those not shown are one."""
    known = [*((each.counts, each.squares, each.sums) for each in decisions if each.counts)]
    known += {(each.together, each.squares, each.sums) for each in decisions if each.together}
    pairs = (GroupDecision("", "", counts, None, squares, sums).rate(name) for counts, squares, sums in known)
    return np.array([(hits, rows) for hits, rows in pairs if rows], float).reshape(-1, 2).T


def _by_chance(counts: Sequence[NDArray[np.float64]]) -> float:
    """Return the mean of the largest difference of the worst rate where groups are alike."""
    random = np.random.default_rng(0)  # a page has the same number each time
    drawn = (
        random.binomial(rows.astype(int), hits.sum() / rows.sum(), (_DRAWS, len(rows))) / rows for hits, rows in counts
    )
    return float(np.maximum.reduce([np.ptp(each, axis=1) for each in drawn]).mean())


def _newcombe(of: tuple[float, float], to: tuple[float, float], level: float | None) -> tuple[float, Interval | None]:
    p, q = (hit / rows for hit, rows in (of, to))
    own, other = (rate_interval(*each, level) for each in (of, to))
    if level is None or own is None or other is None:
        return p - q, None
    low, high = math.hypot(p - own.low, other.high - q), math.hypot(own.high - p, q - other.low)
    return p - q, Interval(level, p - q - low, p - q + high, NEWCOMBE)


def _tail(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float | None:
    """Return how often independent groups that are alike differ as much by chance; None of fewer than two."""
    if len(values) < 2:
        return None
    return chi_squared_tail(float(weights @ (values - np.average(values, weights=weights)) ** 2), len(values) - 1)

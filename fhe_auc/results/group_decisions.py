"""Groups of rows at one threshold: their decisions, and how far these are apart, under Fairlearn's names."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fhe_auc.metrics import Histogram
from fhe_auc.metrics.small_cells import hidden_rows
from fhe_auc.question.analysis import Analysis
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
_FAIRNESS = {
    "demographic_parity": ("selection_rate",),
    "equalized_odds": ("true_positive_rate", "false_positive_rate"),  # the worse of both
    "equal_opportunity": ("true_positive_rate",),
}


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """The rows of one group at a threshold, `counts` by `CELLS`; None where they are too few to be shown."""

    variable: str
    level: str
    counts: tuple[int, ...] | None
    model: str = ""  # empty where it is the only one

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
            "model": self.model,
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
        for at, level in enumerate(variable.levels):
            yield GroupDecision(variable.name, level, None if at in left_out else tuple(own[at].tolist()))


def fairness(decisions: Sequence[GroupDecision]) -> dict[str, dict[str, float | None]]:
    """Return, by variable, the largest difference between groups shown, and the smallest ratio, of each measure.

    By the names of Fairlearn's functions (Weerts et al., JMLR 24, 2023); None where undefined.
    """
    found: dict[str, dict[str, float | None]] = {}
    for variable in dict.fromkeys(each.variable for each in decisions):
        shown = [each.rates() for each in decisions if each.variable == variable and each.counts is not None]
        found[variable] = {}
        for measure, names in _FAIRNESS.items():
            values = [[each[name] for each in shown] for name in names]
            known = len(shown) > 1 and not np.isnan(values).any()
            difference = max(max(each) - min(each) for each in values) if known else None
            ratio = min(min(each) / max(each) for each in values) if known and all(map(max, values)) else None
            found[variable] |= {f"{measure}_difference": difference, f"{measure}_ratio": ratio}
    return found

"""What several sessions tell together: an evaluation, and a report on it, as their parties and `check` read it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from fhe_auc.base.errors import InputError
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.results.evaluation import LEAST_REPLICATES, MOST_REPLICATES
from fhe_auc.results.intervals import DEFAULT_LEVEL

MOST_THRESHOLDS = 10  # asked for: what is not shown at one of many would tell where single rows lie

OptionValues = dict[str, bool | int | float | str]
EXACT_COUNTS, NOISY_COUNTS = "histogram-federated", "histogram-distributed-dp"
_NAMED = (*grids.GRIDS, grids.QUANTILE, grids.VALUES)
_NO_NOISE = (
    "AUCs of groups, sites and patients, and differences of models, are exact: they do not go with a model that adds "
    "noise"
)


class ReportAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What a report has beside the evaluation; fields as of `fhe_auc.federated_report`.

    `threshold` are cut-offs, counted exactly, of which the first is that of groups and of two models' net benefits.
    `min_cell` is that of the page; groups of the evaluation have that of its analysis.

    Raises `InputError` where a number cannot be that.
    """

    protocol: str = EXACT_COUNTS
    options: OptionValues = {}
    threshold: tuple[float, ...] = ()
    cost_ratio: float | None = None
    alert_rate: float | None = None
    min_cell: int = 10
    title: str = ""
    bootstrap: int = 0  # replicates, for intervals of thresholds and differences; 0: none

    def __post_init__(self) -> None:
        for each in self.threshold:
            if not math.isfinite(each):
                raise InputError(f"threshold is {each}; it must be a finite number")
        if len(self.threshold) > MOST_THRESHOLDS or len(set(self.threshold)) < len(self.threshold):
            got = ", ".join(map("{:g}".format, self.threshold))
            raise InputError(f"threshold: got {got}; give at most {MOST_THRESHOLDS} different ones")
        if self.cost_ratio is not None and not 0 < self.cost_ratio < math.inf:
            raise InputError(f"cost_ratio is {self.cost_ratio}; it must be above 0 and finite")
        if self.alert_rate is not None and not 0 < self.alert_rate < 1:
            raise InputError(f"alert_rate is {self.alert_rate}; it must be above 0 and below 1")
        if self.bootstrap and not LEAST_REPLICATES <= self.bootstrap <= MOST_REPLICATES:
            possible = f"{LEAST_REPLICATES} to {MOST_REPLICATES:,}"
            raise InputError(f"bootstrap is {self.bootstrap}; give {possible} replicates")
        if self.bootstrap and self.protocol != EXACT_COUNTS:
            raise InputError("bootstrap: replicates are of exact counts, and do not go with a model that adds noise")


def counts_by(options: Mapping[str, object]) -> str:
    """Return the protocol of a report for which none is named: with an epsilon the one that adds noise."""
    return EXACT_COUNTS if options.get("epsilon") is None else NOISY_COUNTS


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """One question, whether it takes one session or several.

    Attributes
    ----------
    analysis : Analysis
        Models, groups, patients. A model with another name than `PLAIN`'s is a column of scores.
    thresholds : str or tuple of float
        As ``--thresholds`` takes them, but for files; or the numbers. ``quantile:200`` takes a session before.
    interval : float or None
        Level of all intervals; None: none.
    protocol, options
        Of the evaluation.
    report : ReportAsked or None
        What a report asks besides. There is an evaluation only where it has several models, groups, sites or patients.

    Raises `InputError` for a report of what it cannot have.
    """

    analysis: Analysis = PLAIN
    thresholds: str | tuple[float, ...] = "hybrid:5000"
    interval: float | None = DEFAULT_LEVEL
    protocol: str = "verified"
    options: OptionValues = {}
    report: ReportAsked | None = None

    def __post_init__(self) -> None:
        named = isinstance(self.thresholds, str) and self.thresholds.partition(":")[0] in _NAMED
        if isinstance(self.thresholds, str) and not named:  # a file is somebody's own, and read where it is named
            raise InputError(f"thresholds {self.thresholds[:40]!r}: name a grid or quantile:SIZE, or give numbers")
        if self.report is None:
            return
        if self.evaluates and "epsilon" in self.report.options:
            raise InputError(_NO_NOISE)
        if self.report.bootstrap and self.interval is None:
            raise InputError("bootstrap: replicates are for intervals, and none are asked for")
        if (self.analysis.weights or self.analysis.follow_up) and "epsilon" in self.report.options:
            raise InputError("weights and follow-up times do not go with a model that adds noise")
        if (models := len(self.analysis.models)) > 2:
            raise InputError(f"a report is of one model, or of two; got {models} columns of scores")
        if self.analysis.follow_up and len(self.analysis.follow_up.horizons) > 1:
            told = ", ".join(map("{:g}".format, self.analysis.follow_up.horizons))
            raise InputError(f"a report is at one horizon, got {told}; make one for each, or an evaluation at all")
        if self.analysis.classes or self.analysis.cross_groups:
            raise InputError("a report has no classes and no AUCs across groups: an evaluation has both")

    @property
    def panels(self) -> bool:
        """Whether there are groups, sites or patients."""
        return bool(self.analysis.by or self.analysis.heterogeneity or self.analysis.cluster)

    @property
    def evaluates(self) -> bool:
        """Whether one of the sessions is an evaluation by `protocol`."""
        return self.report is None or self.panels or len(self.analysis.models) > 1

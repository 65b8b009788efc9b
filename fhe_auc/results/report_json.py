"""The report as plain types for JSON, with no more digits than readers may know."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fhe_auc.metrics.calibration import CALIBRATION_BINS
from fhe_auc.results.decisions import Decision
from fhe_auc.results.group_decisions import alike, differences, fairness
from fhe_auc.results.intervals import Interval
from fhe_auc.results.private_measures import PrivateNumbers
from fhe_auc.results.report_card import DIGITS, Facts, ReportCard
from fhe_auc.results.report_measures import Measure

_NOISY = {
    **dict.fromkeys(("roc_curve", "precision_recall_curve"), "points of noisy counts: private_curves has the bands"),
    "calibration_curve": "prob_pred is interpolated, rows are noisy: prob_true has an interval",
    "decision_curve": "treat_all follows from the prevalence; model has an interval",
    "histogram": "noisy counts: private_curves has the deviation of the noise on each",
    "decisions": "thresholds that noisy counts choose, and confusion matrices, have none: metrics have",
}
"""Which numbers of noisy counts have no interval, and why; other reasons are beside the numbers."""


def as_dict(cards: Sequence[ReportCard], facts: Facts) -> dict[str, Any]:
    """Return the report as plain types, ready for ``json.dumps``; what is undefined, infinite or not known is None.

    Of two models, what is of the first alone is where it is of one; "models" has both names, the differences, and the
    second.
    """
    first, *others = cards
    plain = {
        "title": facts.title,
        "date": facts.date.isoformat(),
        "privacy": facts.privacy,
        "warnings": list(facts.warnings),
        "noisy": first.noisy,
        "session": _plain(facts.session),
        **({"weighting": _plain(facts.weighting)} if facts.weighting else {}),
        "rows": first.total,
        "positive_rows": float(first.histogram.real[0].sum()),
        "prevalence": {
            **(asdict(first.prevalence_estimate) if first.weighted else {"value": first.prevalence}),
            "interval": _interval(first.prevalence_interval),
        },
        **_of_card(first),
    }
    if facts.bootstrap is not None:
        plain["bootstrap"] = {"replicates": facts.bootstrap.replicates, "bins": facts.bootstrap.bins}
    compared = asdict(facts.comparison) if facts.comparison else {}
    difference = {name: each for name, each in compared.items() if (name, each) != ("horizon", None)} or None
    for second in others:
        plain["models"] = {
            "names": [first.model, second.model],
            "auc_difference": difference and _rounded(difference),
            "net_benefit": _measures(facts.net_benefits, rounded=second.min_cell > 1),
            **({"differences": _measures(facts.bootstrap.differences, rounded=True)} if facts.bootstrap else {}),
            "second": _of_card(second),
        }
    return plain


def _of_card(card: ReportCard) -> dict[str, Any]:
    roc, precision_recall, calibration, decision_curve = (
        {name: values.tolist() for name, values in curve._asdict().items()} if curve is not None else None
        for curve in (card.roc, card.precision_recall, card.calibration, card.decision_curve)
    )
    assert roc is not None  # noqa: S101 - only the last two need probabilities
    roc["thresholds"][0] = None
    merged, level = card.histogram.bins < card.fine_bins, card.level
    few = card.weighted and card.min_cell > 1  # of weights, in steps: ends of intervals would tell them
    for curve, name, band in (
        (roc, "tpr", card.tpr_band),
        (roc, "fpr", card.fpr_band),
        (calibration, "prob_true", card.observed_band),
        (decision_curve, "model", card.net_benefit_band),
    ):
        if curve is not None and band is not None:
            ends = {f"{name}_{end}": values for end, values in band._asdict().items()}
            curve |= {end: (values.round(DIGITS) if few else values).tolist() for end, values in ends.items()}
    score_metrics = _measures(card.measures, rounded=merged)
    if score_metrics.get("expected_calibration_error"):
        score_metrics["expected_calibration_error"] |= {"bins": CALIBRATION_BINS, "strategy": "quantile"}
    brier = None if card.brier is None else card.brier._asdict()
    decisions: dict[str, Decision | None] = {f"threshold_{each.threshold:.6g}": each for each in card.chosen}
    decisions |= {"best_f1": card.best} | {point.name: point.decision for point in card.operating_points}
    intervals = {point.name: _interval(point.interval) for point in card.operating_points if point.interval}
    return {
        "small_cells": {"min_cell": card.min_cell, "bins": card.histogram.bins, "bins_before": card.fine_bins},
        "metrics": score_metrics,
        "calibration": _measures(card.calibration_measures, rounded=merged),
        "brier_decomposition": _rounded(brier) if brier and merged else brier,
        "decisions": {name: each and _decision(each, rounded=few) for name, each in decisions.items()},
        **({"threshold_intervals": intervals} if intervals else {}),
        "groups": [_rounded(estimate.as_dict()) for estimate in card.groups],
        "group_decisions": [_rounded({"model": card.model, **each.as_dict(level)}) for each in card.group_decisions],
        "group_calibration": [
            {"variable": each.variable, "level": each.level, **_measures(each.measures, rounded=True)}
            for each in card.group_calibrations
        ],
        "group_differences": [
            {"variable": variable, "level": group, "reference": largest}
            | {name: {"value": value, "interval": _interval(interval)} for name, (value, interval) in rates.items()}
            for variable, group, largest, rates in differences(card.group_decisions, level)
        ],
        "group_p_values": _rounded(alike(card.group_decisions, card.groups)),
        "fairness": {
            variable: {name: each.as_dict() for name, each in found.items()}
            for variable, found in fairness(card.group_decisions).items()
        },
        "sites": card.sites and _rounded(asdict(card.sites)),
        "roc_curve": roc,
        "precision_recall_curve": precision_recall,
        "calibration_curve": calibration,
        "decision_curve": decision_curve,
        "histogram": {name: getattr(card.histogram, name).tolist() for name in ("edges", "positives", "negatives")},
        **({} if card.private is None else _with_noise(card.private)),
    }


def _with_noise(private: PrivateNumbers) -> dict[str, Any]:
    """Return what noisy counts alone have: intervals of numbers of rows, the curves with their bands, and reasons."""
    whole = dict.fromkeys(
        ("rows", "positive_rows", "prevalence", "private_curves", *_NOISY), private.why_none or "none was asked for"
    )
    return {
        **{f"{name}_interval": _interval(private.intervals.get(name)) for name in ("rows", "positive_rows")},
        "private_curves": {
            "noise_deviation": private.noise.deviation,
            "level": private.level,
            **{name: {key: each.tolist() for key, each in columns.items()} for name, columns in private.curves.items()},
        },
        "no_interval": whole if not private.level else _NOISY if private.bands else whole | _NOISY,
    }


def _rounded(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers with the digits that a paper gives: all of them would be more equations about the rows."""
    rounded: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, Mapping):
            rounded[name] = _rounded(value)
        elif name != "fraction":
            rounded[name] = round(value, DIGITS) if isinstance(value, float) else value
    return rounded


def _measures(measures: Sequence[Measure], *, rounded: bool = False) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for measure in measures:
        plain[measure.name] = None
        if measure.estimate is not None:
            ends = {name: end if math.isfinite(end) else None for name, end in asdict(measure.estimate).items()}
            entry = ends | {"interval": _interval(measure.interval)}
            entry |= {"no_interval": measure.no_interval} if measure.no_interval else {}
            plain[measure.name] = _rounded(entry) if rounded else entry
    return plain


def _interval(interval: Interval | None) -> dict[str, Any] | None:
    return None if interval is None else asdict(interval)


def _decision(decision: Decision, *, rounded: bool) -> dict[str, Any]:
    return {
        "threshold": decision.threshold,
        "metrics": _measures(decision.measures, rounded=rounded),
        "confusion_matrix": [list(row) for row in decision.confusion],
        "hidden": decision.hidden,
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

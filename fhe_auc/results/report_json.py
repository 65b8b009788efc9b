"""The report as plain types for JSON, with no more digits than readers may know."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from fhe_auc.metrics.calibration import CALIBRATION_BINS
from fhe_auc.results.group_decisions import fairness
from fhe_auc.results.intervals import Interval
from fhe_auc.results.report_card import DIGITS, Facts, ReportCard
from fhe_auc.results.report_measures import Decision, Measure

_OF_SECOND = ("small_cells", "metrics", "calibration", "brier_decomposition", "decisions", "histogram")
_CURVES = ("roc_curve", "precision_recall_curve", "calibration_curve", "decision_curve")


def as_dict(card: ReportCard, facts: Facts) -> dict[str, Any]:
    """Return the report as plain types, ready for ``json.dumps``; what is undefined, infinite or not known is None."""
    roc, precision_recall, calibration, decision_curve = (
        {name: values.tolist() for name, values in curve._asdict().items()}
        for curve in (card.roc, card.precision_recall, card.calibration, card.decision_curve)
    )
    roc["thresholds"][0] = None
    merged = card.histogram.bins < card.fine_bins
    for curve, name, band in (
        (roc, "tpr", card.tpr_band),
        (roc, "fpr", card.fpr_band),
        (calibration, "prob_true", card.observed_band),
    ):
        curve |= {f"{name}_{end}": values.tolist() for end, values in (band._asdict() if band else {}).items()}
    score_metrics = _measures(card.measures, rounded=merged)
    score_metrics["expected_calibration_error"] |= {"bins": CALIBRATION_BINS, "strategy": "quantile"}
    decisions: dict[str, Decision | None] = {"best_f1": card.best, "chosen": card.chosen}
    decisions |= {f"{point.held}_{point.least:.2f}": point.decision for point in card.operating_points}
    plain = {
        "title": facts.title,
        "date": facts.date.isoformat(),
        "privacy": facts.privacy,
        "warnings": list(facts.warnings),
        "noisy": card.noisy,
        "session": _plain(facts.session),
        "rows": float(card.histogram.counts.sum()),
        "positive_rows": float(card.histogram.positives.sum()),
        "prevalence": {"value": card.prevalence, "interval": _interval(card.prevalence_interval)},
        "small_cells": {"min_cell": card.min_cell, "bins": card.histogram.bins, "bins_before": card.fine_bins},
        "metrics": score_metrics,
        "calibration": _measures(card.calibration_measures, rounded=merged),
        "brier_decomposition": _rounded(card.brier._asdict()) if merged else card.brier._asdict(),
        "decisions": {name: decision and _decision(decision) for name, decision in decisions.items()},
        "groups": [_rounded(estimate.as_dict()) for estimate in facts.groups],
        "group_decisions": [_rounded(each.as_dict(card.level)) for each in facts.group_decisions],
        "fairness": fairness(facts.group_decisions),
        "sites": None if facts.sites is None else _rounded(asdict(facts.sites)),
        "roc_curve": roc,
        "precision_recall_curve": precision_recall,
        "calibration_curve": calibration,
        "decision_curve": decision_curve,
        "histogram": {name: getattr(card.histogram, name).tolist() for name in ("edges", "positives", "negatives")},
    }
    if models := facts.models:
        other = as_dict(models.card, replace(facts, models=None))
        plain["models"] = {
            "names": list(models.names),
            "net_benefit": _measures(models.net_benefits, rounded=models.card.min_cell > 1),
            "second": {name: other[name] for name in (*_OF_SECOND, *_CURVES)},
        }
    return plain


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


def _decision(decision: Decision) -> dict[str, Any]:
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

"""Sessions of a protocol by its name, with every option by its own name, as the command line gives them."""

import inspect
from dataclasses import fields
from typing import Any

import fhe_auc
from fhe_auc.base.options import chosen
from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
from fhe_auc.session import registry


def federated_auc(rows: Any, *, protocol: Any = "verified", **values: Any) -> Evaluation:
    """`fhe_auc.federated_auc`, where what it does not take is an option of the protocol."""
    return fhe_auc.federated_auc(rows, **_sorted_out(fhe_auc.federated_auc, protocol, values))


def federated_thresholds(
    rows: Any, bins: int, *, protocol: Any = "boundaries-federated", **values: Any
) -> QuantileThresholds:
    """`fhe_auc.federated_thresholds`, likewise."""
    return fhe_auc.federated_thresholds(rows, bins, **_sorted_out(fhe_auc.federated_thresholds, protocol, values))


def federated_report(rows: Any, *, protocol: Any = "histogram-federated", **values: Any) -> fhe_auc.Report:
    """`fhe_auc.federated_report`, likewise."""
    return fhe_auc.federated_report(rows, **_sorted_out(fhe_auc.federated_report, protocol, values))


def _sorted_out(function: Any, protocol: Any, values: dict[str, Any]) -> dict[str, Any]:
    parts = (each.name for kind in (fhe_auc.Columns, fhe_auc.Breakdown, fhe_auc.Setup) for each in fields(kind))
    others = {name: values.pop(name) for name in (*inspect.signature(function).parameters, *parts) if name in values}
    return {"protocol": chosen(registry.load(protocol).options, protocol, values) if values else protocol, **others}

"""Sessions of a protocol by its name, with options by theirs, as the command line gives them."""

from __future__ import annotations

import inspect
from typing import Any

import fhe_auc
from fhe_auc.base.options import chosen
from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
from fhe_auc.session import registry


def federated_auc(rows: Any, *, protocol: str = "verified", **values: Any) -> Evaluation:
    """`fhe_auc.federated_auc`, where what it does not take is an option of the protocol."""
    return fhe_auc.federated_auc(rows, **_sorted_out(fhe_auc.federated_auc, protocol, values))


def federated_thresholds(
    rows: Any, bins: int, *, protocol: str = "boundaries-federated", **values: Any
) -> QuantileThresholds:
    """`fhe_auc.federated_thresholds`, likewise."""
    return fhe_auc.federated_thresholds(rows, bins, **_sorted_out(fhe_auc.federated_thresholds, protocol, values))


def _sorted_out(function: Any, protocol: str, values: dict[str, Any]) -> dict[str, Any]:
    own = inspect.signature(function).parameters
    options = {name: value for name, value in values.items() if name not in own}
    others = {name: value for name, value in values.items() if name in own}
    return {"protocol": chosen(registry.load(protocol).options, protocol, options) if options else protocol, **others}

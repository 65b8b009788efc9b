"""Sessions of a protocol by its name, with every option by its own name, as the command line gives them."""

import inspect
from dataclasses import fields
from typing import Any

import fhe_auc
from fhe_auc.base.options import chosen
from fhe_auc.session import registry


def _by_name(function: Any) -> Any:
    """Return a public function, where what it does not take is an option of the protocol."""
    taken = inspect.signature(function).parameters
    kinds = fhe_auc.Columns, fhe_auc.Breakdown, fhe_auc.Decisions, fhe_auc.Setup
    parts = [each.name for kind in kinds for each in fields(kind)]

    def called(*rows: Any, protocol: Any = taken["protocol"].default, **values: Any) -> Any:
        others = {name: values.pop(name) for name in (*taken, *parts) if name in values}
        return function(
            *rows, protocol=chosen(registry.load(protocol).options, protocol, values) if values else protocol, **others
        )

    return called


federated_auc, federated_thresholds, federated_report = map(
    _by_name, (fhe_auc.federated_auc, fhe_auc.federated_thresholds, fhe_auc.federated_report)
)

"""AUC of a shared classifier over many parties' data, computed on encrypted counts.

>>> import fhe_auc
>>> evaluation = fhe_auc.federated_auc([([0, 1], [0.2, 0.9]), ([1, 0], [0.4, 0.6])])
>>> round(evaluation.auc, 6)
0.75

These names are public, and keep their meaning within a version:

- functions that evaluate: `federated_auc`, `federated_report` and `federated_thresholds`;
- `PartyData`, the checked rows of one party;
- their results: `Evaluation`, `Report` and `QuantileThresholds`;
- functions that draw on given axes: `plot_forest` draws an evaluation; `plot_roc`, `plot_precision_recall`,
  `plot_calibration`, `plot_decision_curve` and `plot_scores` draw a report or its card;
- errors: `FheAucError`, `InputError`, `EvaluationError` and `UndefinedAucError`;
- the interfaces of plug-ins, which docs/guide/write-a-protocol.md names.

All other modules are internal, whatever their names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fhe_auc.api import federated_auc, federated_thresholds
    from fhe_auc.base.errors import EvaluationError, FheAucError, InputError, UndefinedAucError
    from fhe_auc.figures.forest_plot import plot_forest
    from fhe_auc.figures.report_card import (
        plot_calibration,
        plot_decision_curve,
        plot_precision_recall,
        plot_roc,
        plot_scores,
    )
    from fhe_auc.report import Report, federated_report
    from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
    from fhe_auc.rows.party_data import PartyData

__all__ = [
    "Evaluation",
    "EvaluationError",
    "FheAucError",
    "InputError",
    "PartyData",
    "QuantileThresholds",
    "Report",
    "UndefinedAucError",
    "federated_auc",
    "federated_report",
    "federated_thresholds",
    "plot_calibration",
    "plot_decision_curve",
    "plot_forest",
    "plot_precision_recall",
    "plot_roc",
    "plot_scores",
]
__version__ = "0.2.0"


_MODULES = {
    "api": {"federated_auc", "federated_thresholds"},
    "base.errors": {"EvaluationError", "FheAucError", "InputError", "UndefinedAucError"},
    "figures.forest_plot": {"plot_forest"},
    "report": {"Report", "federated_report"},
    "results.evaluation": {"Evaluation", "QuantileThresholds"},
    "rows.party_data": {"PartyData"},
}
"""Where the public names come from; all others come from `figures.report_card`."""


def __getattr__(name: str) -> Any:
    """Import a public name on first use: numpy alone takes longer to load than ``import fhe_auc`` may."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "figures.report_card")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

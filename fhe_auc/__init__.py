"""AUC of a shared classifier over many parties' data, computed on encrypted counts.

>>> import fhe_auc
>>> evaluation = fhe_auc.federated_auc([([0, 1], [0.2, 0.9]), ([1, 0], [0.4, 0.6])])
>>> round(evaluation.auc, 6)
0.75

What is public, and stays as it is within a version:

- the names in `__all__` here: `federated_auc`, `federated_report` and `federated_thresholds`, which evaluate;
  `Columns`, `Breakdown` and `Setup`, which they are given; `Evaluation`, `Report` and `QuantileThresholds`, which they
  return; `PartyData`, checked rows; the errors
  `FheAucError`, `InputError`, `EvaluationError` and `UndefinedAucError`; and the functions that draw, on the axes that
  they are given: `plot_forest` an evaluation, `plot_roc`, `plot_precision_recall`, `plot_calibration`,
  `plot_decision_curve` and `plot_scores` a report, or its card;
- `fhe_auc_protocols.options`, the options of protocols;
- the interfaces of plug-ins, which docs/guide/write-a-protocol.md names.

All other modules are internal, whatever their names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fhe_auc.api import federated_auc, federated_thresholds
    from fhe_auc.base.errors import EvaluationError, FheAucError, InputError, UndefinedAucError
    from fhe_auc.figures.forest_plot import plot_forest
    from fhe_auc.report import (
        Report,
        federated_report,
        plot_calibration,
        plot_decision_curve,
        plot_precision_recall,
        plot_roc,
        plot_scores,
    )
    from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
    from fhe_auc.rows.frames import Breakdown, Columns
    from fhe_auc.rows.party_data import PartyData
    from fhe_auc.session.protocol import Setup

__all__ = [
    "Breakdown",
    "Columns",
    "Evaluation",
    "EvaluationError",
    "FheAucError",
    "InputError",
    "PartyData",
    "QuantileThresholds",
    "Report",
    "Setup",
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


_HOMES = {
    "Breakdown": "rows.frames",
    "Columns": "rows.frames",
    "Evaluation": "results.evaluation",
    "EvaluationError": "base.errors",
    "FheAucError": "base.errors",
    "InputError": "base.errors",
    "PartyData": "rows.party_data",
    "QuantileThresholds": "results.evaluation",
    "Setup": "session.protocol",
    "UndefinedAucError": "base.errors",
    "federated_auc": "api",
    "federated_thresholds": "api",
    "plot_forest": "figures.forest_plot",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: numpy alone takes longer to load than all that ``import fhe_auc`` may."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'report')}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

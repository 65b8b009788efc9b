"""AUC of a shared classifier over many parties' data, computed on encrypted counts.

>>> import fhe_auc
>>> evaluation = fhe_auc.federated_auc([([0, 1], [0.2, 0.9]), ([1, 0], [0.4, 0.6])])
>>> round(evaluation.auc, 6)
0.75
"""

from fhe_auc.api import federated_auc, federated_thresholds
from fhe_auc.counts import PartyData
from fhe_auc.errors import EvaluationError, FheAucError, InputError, UndefinedAucError
from fhe_auc.evaluation import Evaluation, QuantileThresholds

__all__ = [
    "Evaluation",
    "EvaluationError",
    "FheAucError",
    "InputError",
    "PartyData",
    "QuantileThresholds",
    "UndefinedAucError",
    "federated_auc",
    "federated_thresholds",
]
__version__ = "0.1.0"

"""The metrics of a classifier from its score histogram: two counts a bin are all they need.

Names and conventions are scikit-learn's, with a `Histogram` where scikit-learn takes rows. Where the bins leave a
metric undecided, it comes as an `Estimate`: the value, and the range that the rows' own value cannot leave. A metric
that the rows give no value raises `UndefinedMetricError` (the AUC: `UndefinedAucError`); one that takes scores for
probabilities raises `InputError` where the edges leave [0, 1].

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023, arXiv
2210.12526.
"""

from fhe_auc.metrics.bayesian_binning import bayesian_binning
from fhe_auc.metrics.calibration import (
    CalibrationCurve,
    CalibrationMap,
    calibration_curve,
    expected_calibration_error,
    histogram_binning,
)
from fhe_auc.metrics.histogram import Estimate, Histogram
from fhe_auc.metrics.precision_recall import (
    accuracy_score,
    balanced_accuracy_score,
    best_f1_threshold,
    confusion_matrix,
    f1_score,
    precision_score,
    recall_score,
    specificity_score,
)
from fhe_auc.metrics.probabilities import brier_score_loss, log_loss, normalised_entropy
from fhe_auc.metrics.ranking import (
    PrecisionRecallCurve,
    RocCurve,
    average_precision_score,
    ks_statistic,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)

__all__ = [
    "CalibrationCurve",
    "CalibrationMap",
    "Estimate",
    "Histogram",
    "PrecisionRecallCurve",
    "RocCurve",
    "accuracy_score",
    "average_precision_score",
    "balanced_accuracy_score",
    "bayesian_binning",
    "best_f1_threshold",
    "brier_score_loss",
    "calibration_curve",
    "confusion_matrix",
    "expected_calibration_error",
    "f1_score",
    "histogram_binning",
    "ks_statistic",
    "log_loss",
    "normalised_entropy",
    "precision_recall_curve",
    "precision_score",
    "recall_score",
    "roc_auc_score",
    "roc_curve",
    "specificity_score",
]

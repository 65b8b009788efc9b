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
from fhe_auc.metrics.decision_curve import DecisionCurve, decision_curve
from fhe_auc.metrics.histogram import Estimate, Histogram
from fhe_auc.metrics.precision_recall import (
    accuracy_score,
    balanced_accuracy_score,
    best_f1_threshold,
    confusion_matrix,
    f1_score,
    negative_predictive_value,
    precision_score,
    recall_score,
    specificity_score,
    threshold_of_recall,
    threshold_of_specificity,
)
from fhe_auc.metrics.probabilities import (
    BrierDecomposition,
    brier_decomposition,
    brier_score_error,
    brier_score_loss,
    log_loss,
    normalised_entropy,
)
from fhe_auc.metrics.ranking import (
    PrecisionRecallCurve,
    RocCurve,
    average_precision_bias,
    average_precision_error,
    average_precision_score,
    ks_statistic,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)
from fhe_auc.metrics.recalibration import (
    CalibrationLine,
    calibration_in_the_large,
    calibration_line,
    observed_expected_error,
    observed_expected_ratio,
)
from fhe_auc.metrics.small_cells import merge_small_cells

__all__ = [
    "BrierDecomposition",
    "CalibrationCurve",
    "CalibrationLine",
    "CalibrationMap",
    "DecisionCurve",
    "Estimate",
    "Histogram",
    "PrecisionRecallCurve",
    "RocCurve",
    "accuracy_score",
    "average_precision_bias",
    "average_precision_error",
    "average_precision_score",
    "balanced_accuracy_score",
    "bayesian_binning",
    "best_f1_threshold",
    "brier_decomposition",
    "brier_score_error",
    "brier_score_loss",
    "calibration_curve",
    "calibration_in_the_large",
    "calibration_line",
    "confusion_matrix",
    "decision_curve",
    "expected_calibration_error",
    "f1_score",
    "histogram_binning",
    "ks_statistic",
    "log_loss",
    "merge_small_cells",
    "negative_predictive_value",
    "normalised_entropy",
    "observed_expected_error",
    "observed_expected_ratio",
    "precision_recall_curve",
    "precision_score",
    "recall_score",
    "roc_auc_score",
    "roc_curve",
    "specificity_score",
    "threshold_of_recall",
    "threshold_of_specificity",
]

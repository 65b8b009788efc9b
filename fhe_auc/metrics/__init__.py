"""The metrics of a classifier from its score histogram: two counts a bin are all they need.

Names and conventions are scikit-learn's, with a `Histogram` where scikit-learn takes rows. Where the bins leave a
metric undecided, it comes as an `Estimate`: the value, and the range that the rows' own value cannot leave. Without the
rows that it needs, a metric raises `UndefinedMetricError`, or `UndefinedAucError` where it needs both labels; one that
takes scores for probabilities raises `InputError` where the edges leave [0, 1].

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023, arXiv
2210.12526.
"""

from fhe_auc.metrics.calibration import CalibrationCurve as CalibrationCurve
from fhe_auc.metrics.calibration import CalibrationMap as CalibrationMap
from fhe_auc.metrics.calibration import bayesian_binning as bayesian_binning
from fhe_auc.metrics.calibration import calibration_curve as calibration_curve
from fhe_auc.metrics.calibration import expected_calibration_error as expected_calibration_error
from fhe_auc.metrics.calibration import histogram_binning as histogram_binning
from fhe_auc.metrics.histogram import Estimate as Estimate
from fhe_auc.metrics.histogram import Histogram as Histogram
from fhe_auc.metrics.precision_recall import DecisionCurve as DecisionCurve
from fhe_auc.metrics.precision_recall import best_f1_threshold as best_f1_threshold
from fhe_auc.metrics.precision_recall import cheapest_threshold as cheapest_threshold
from fhe_auc.metrics.precision_recall import confusion_matrix as confusion_matrix
from fhe_auc.metrics.precision_recall import decision_curve as decision_curve
from fhe_auc.metrics.precision_recall import decision_metrics as decision_metrics
from fhe_auc.metrics.precision_recall import net_benefit_error as net_benefit_error
from fhe_auc.metrics.precision_recall import threshold_of_alert_rate as threshold_of_alert_rate
from fhe_auc.metrics.precision_recall import threshold_of_recall as threshold_of_recall
from fhe_auc.metrics.precision_recall import threshold_of_specificity as threshold_of_specificity
from fhe_auc.metrics.probabilities import BrierDecomposition as BrierDecomposition
from fhe_auc.metrics.probabilities import brier_decomposition as brier_decomposition
from fhe_auc.metrics.probabilities import brier_score_error as brier_score_error
from fhe_auc.metrics.probabilities import brier_score_loss as brier_score_loss
from fhe_auc.metrics.probabilities import log_loss as log_loss
from fhe_auc.metrics.probabilities import normalised_entropy as normalised_entropy
from fhe_auc.metrics.probabilities import of_probabilities as of_probabilities
from fhe_auc.metrics.probabilities import scaled_brier_score as scaled_brier_score
from fhe_auc.metrics.ranking import PrecisionRecallCurve as PrecisionRecallCurve
from fhe_auc.metrics.ranking import RocCurve as RocCurve
from fhe_auc.metrics.ranking import average_precision_bias as average_precision_bias
from fhe_auc.metrics.ranking import average_precision_error as average_precision_error
from fhe_auc.metrics.ranking import average_precision_score as average_precision_score
from fhe_auc.metrics.ranking import ks_statistic as ks_statistic
from fhe_auc.metrics.ranking import of_one_score as of_one_score
from fhe_auc.metrics.ranking import partial_auc_score as partial_auc_score
from fhe_auc.metrics.ranking import precision_recall_curve as precision_recall_curve
from fhe_auc.metrics.ranking import roc_auc_score as roc_auc_score
from fhe_auc.metrics.ranking import roc_curve as roc_curve
from fhe_auc.metrics.recalibration import calibration_in_the_large as calibration_in_the_large
from fhe_auc.metrics.recalibration import calibration_line as calibration_line
from fhe_auc.metrics.recalibration import observed_expected_ratio as observed_expected_ratio
from fhe_auc.metrics.small_cells import clear_of as clear_of
from fhe_auc.metrics.small_cells import crowded as crowded
from fhe_auc.metrics.small_cells import joined as joined
from fhe_auc.metrics.small_cells import merge_small_cells as merge_small_cells
from fhe_auc.metrics.small_cells import shown_at as shown_at
from fhe_auc.metrics.smooth_calibration import SmoothCalibration as SmoothCalibration
from fhe_auc.metrics.smooth_calibration import smooth_calibration as smooth_calibration

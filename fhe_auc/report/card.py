"""What the report says, before it is drawn or written: numbers, points of the curves, and texts passed in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc import metrics
from fhe_auc.errors import UndefinedMetricError
from fhe_auc.intervals import DEFAULT_LEVEL, DELONG, Interval, of_bins, on_logit_scale
from fhe_auc.metrics import CalibrationCurve, Estimate, Histogram, PrecisionRecallCurve, RocCurve

__all__ = ["Decision", "Facts", "Measure", "ReportCard", "as_dict", "report_card"]

_CALIBRATION_BINS = 10  # of about equally many rows: they suit scores squeezed into a corner as well


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric of the report; its estimate is None where it is undefined.

    `name` is its key in the JSON, scikit-learn's name where it has one; `title` and `meaning`, one sentence, are for
    people.
    """

    name: str
    title: str
    meaning: str
    estimate: Estimate | None


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The classifier at one threshold: a score at or above it is predicted positive.

    `title` says which threshold this is, for people; `confusion` counts rows, shape (2, 2): ``[[TN, FP], [FN, TP]]``.
    """

    title: str
    threshold: float
    measures: tuple[Measure, ...]
    confusion: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ReportCard:
    """Every number of the report, from cleaned counts. Make it with `report_card`.

    `measures` need no threshold; the first is the AUC. `best` is at the threshold with the best F1, `chosen` at the
    reader's own. `calibration` is in ten bins of about equally many rows. `interval` is DeLong's of the AUC, 95 %; None
    where the counts are no integers, or allow none.
    """

    histogram: Histogram
    measures: tuple[Measure, ...]
    best: Decision
    chosen: Decision
    roc: RocCurve
    precision_recall: PrecisionRecallCurve
    calibration: CalibrationCurve
    interval: Interval | None

    @property
    def auc(self) -> Estimate:
        """Area under the ROC curve."""
        estimate = self.measures[0].estimate
        assert estimate is not None  # noqa: S101 - `report_card` refuses a histogram that has none
        return estimate

    @property
    def prevalence(self) -> float:
        """Share of positive rows."""
        return float(self.histogram.positives.sum() / self.histogram.counts.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the report says of the session and could not compute itself; shown as text, whatever it holds.

    Attributes
    ----------
    title : str
        What was evaluated.
    privacy : str
        The privacy statement; a blank line starts a new paragraph.
    session : Mapping[str, object]
        Facts by name, in the order in which they are shown: texts, numbers, or sequences and mappings of them.
    warnings : tuple of str
        What the reader ought to know first.
    noisy : bool
        Whether the counts carry privacy noise, which no range covers.
    """

    title: str
    privacy: str
    session: Mapping[str, object]
    warnings: tuple[str, ...] = ()
    noisy: bool = False


def _calibration_error(histogram: Histogram) -> Estimate:
    return metrics.expected_calibration_error(histogram, n_bins=_CALIBRATION_BINS, strategy="quantile")


_OF_SCORES: tuple[tuple[str, str, str, Callable[[Histogram], Estimate]], ...] = (
    (
        "roc_auc",
        "AUC",
        "How often a positive row scores above a negative one: 0.5 is chance, 1 is perfect.",
        metrics.roc_auc_score,
    ),
    (
        "average_precision",
        "Average precision",
        "Mean precision as recall grows; chance gives the share of positive rows.",
        metrics.average_precision_score,
    ),
    (
        "ks",
        "Kolmogorov–Smirnov",
        "Largest gap between true and false positive rate over all thresholds.",
        metrics.ks_statistic,
    ),
    (
        "expected_calibration_error",
        "Calibration error",
        "Mean distance between score and observed share of positive rows; 0 is best.",
        _calibration_error,
    ),
    ("brier", "Brier score", "Mean squared distance between score and label; 0 is best.", metrics.brier_score_loss),
    ("log_loss", "Log loss", "Mean surprise at the labels, in nats; 0 is best.", metrics.log_loss),
    (
        "normalised_entropy",
        "Normalised entropy",
        "Log loss, relative to always giving the share of positive rows: below 1 is better than that.",
        metrics.normalised_entropy,
    ),
)

_OF_DECISIONS: tuple[tuple[str, str, str, Callable[[Histogram, float], Estimate]], ...] = (
    ("precision", "Precision", "Of rows predicted positive, the share that truly are.", metrics.precision_score),
    ("recall", "Recall (sensitivity)", "Of positive rows, the share that is found.", metrics.recall_score),
    ("specificity", "Specificity", "Of negative rows, the share that is left alone.", metrics.specificity_score),
    ("f1", "F1", "Harmonic mean of precision and recall.", metrics.f1_score),
    ("accuracy", "Accuracy", "Share of rows predicted right.", metrics.accuracy_score),
    (
        "balanced_accuracy",
        "Balanced accuracy",
        "Mean of recall and specificity; 0.5 is chance.",
        metrics.balanced_accuracy_score,
    ),
)


def report_card(histogram: Histogram, *, threshold: float = 0.5) -> ReportCard:
    """Compute every number of the report.

    Parameters
    ----------
    histogram : Histogram
        Edges in [0, 1]; counts exact or with privacy noise.
    threshold : float
        The reader's own decision threshold.

    Raises
    ------
    UndefinedAucError
        If there are no positive or no negative rows.
    InputError
        If the edges leave [0, 1] or the threshold is not finite.
    """
    usable = histogram.cleaned()
    return ReportCard(
        histogram=usable,
        measures=tuple(Measure(name, title, meaning, metric(usable)) for name, title, meaning, metric in _OF_SCORES),
        best=_decision("Best F1", usable, metrics.best_f1_threshold(usable)),
        chosen=_decision("Chosen", usable, threshold),
        roc=metrics.roc_curve(usable),
        precision_recall=metrics.precision_recall_curve(usable),
        calibration=metrics.calibration_curve(usable, n_bins=_CALIBRATION_BINS, strategy="quantile"),
        interval=_interval(usable),
    )


def _interval(histogram: Histogram) -> Interval | None:
    sides = histogram.positives, histogram.negatives
    if any((side % 1).any() for side in sides):
        return None
    auc, standard_error = of_bins(*sides)
    return None if standard_error is None else on_logit_scale(auc, standard_error, DEFAULT_LEVEL, DELONG)


def _decision(title: str, histogram: Histogram, threshold: float) -> Decision:
    measures = []
    for name, heading, meaning, metric in _OF_DECISIONS:
        try:
            estimate = metric(histogram, threshold)
        except UndefinedMetricError:
            estimate = None
        measures.append(Measure(name, heading, meaning, estimate))
    return Decision(title, float(threshold), tuple(measures), metrics.confusion_matrix(histogram, threshold))


def as_dict(card: ReportCard, facts: Facts) -> dict[str, Any]:
    """Return the whole content of the report as plain types, ready for ``json.dumps``.

    Undefined metrics, and the infinite first threshold of the ROC curve, are None.
    """
    roc, precision_recall, calibration = (
        {name: values.tolist() for name, values in curve._asdict().items()}
        for curve in (card.roc, card.precision_recall, card.calibration)
    )
    roc["thresholds"][0] = None
    return {
        "title": facts.title,
        "privacy": facts.privacy,
        "warnings": list(facts.warnings),
        "noisy": facts.noisy,
        "session": {str(name): _plain(value) for name, value in facts.session.items()},
        "auc_interval": None if facts.noisy or card.interval is None else asdict(card.interval),
        "metrics": _measures(card.measures),
        "decisions": {
            "best_f1": _plain_decision(card.best),
            "chosen": _plain_decision(card.chosen),
        },
        "roc_curve": roc,
        "precision_recall_curve": precision_recall,
        "calibration_curve": calibration,
        "histogram": {
            "edges": card.histogram.edges.tolist(),
            "positives": card.histogram.positives.tolist(),
            "negatives": card.histogram.negatives.tolist(),
        },
    }


def _measures(measures: Sequence[Measure]) -> dict[str, Any]:
    return {measure.name: asdict(measure.estimate) if measure.estimate else None for measure in measures}


def _plain_decision(decision: Decision) -> dict[str, Any]:
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

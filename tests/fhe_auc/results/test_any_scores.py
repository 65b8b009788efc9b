"""A report card of scores that are no probabilities: what needs these is missing, all else is as of any scores."""

import numpy as np
import pytest

from fhe_auc.metrics import Histogram
from fhe_auc.results.report_card import ReportCard, report_card
from fhe_auc.results.report_measures import NOT_PROBABILITIES

POSITIVES, NEGATIVES = np.array([0, 20, 30, 40, 50, 60]), np.array([0, 200, 150, 100, 100, 12])
MISSING = {"expected_calibration_error", "brier", "log_loss", "normalised_entropy"}


def card(edges: np.ndarray, threshold: float, min_cell: int) -> ReportCard:
    return report_card(Histogram(edges, POSITIVES, NEGATIVES), threshold=threshold, min_cell=min_cell)


@pytest.mark.parametrize("min_cell", [1, 10])
def test_only_what_needs_probabilities_is_missing_and_says_why(min_cell: int) -> None:
    points, shares = (card(np.arange(7.0) / of, 3 / of, min_cell) for of in (1, 10))
    assert (points.brier, points.calibration, points.decision_curve, points.observed_band) == (None,) * 4
    for each, other in zip(points.measures, shares.measures, strict=True):
        if each.name in MISSING:
            assert (each.estimate, each.missing) == (None, NOT_PROBABILITIES)
        else:
            assert (each.estimate, each.interval) == (other.estimate, other.interval)
    assert {each.missing for each in points.calibration_measures} == {NOT_PROBABILITIES}
    assert points.chosen.threshold == 3
    assert (points.chosen.confusion == shares.chosen.confusion).all()
    if min_cell == 1:
        assert points.best.confusion.tolist() == shares.best.confusion.tolist()

"""Net benefit is what its definition over rows gives."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fhe_auc import metrics
from fhe_auc.base.errors import InputError, UndefinedMetricError
from fhe_auc.metrics import Histogram
from fhe_auc.rows.party_data import PartyData


def test_net_benefit_is_its_definition_over_rows_as_a_fraction() -> None:
    generator = np.random.default_rng(6)
    scores = np.round(generator.random(300), 2)
    data = PartyData.from_arrays("rows", generator.random(300) < scores, scores)
    edges = np.append(np.arange(0, 100, 5) / 100, [1.0, 1.0])  # the last bin is the score 1 alone
    curve = metrics.decision_curve(Histogram.from_rows(data, edges))
    assert curve.thresholds.tolist() == edges[:-2].tolist()
    for threshold, model, treat_all in zip(*curve, strict=True):
        odds = Fraction(threshold) / (1 - Fraction(threshold))
        for treated, found in ((data.y_score >= threshold, model), (np.ones(300, bool), treat_all)):
            tp, fp = int((treated & data.y_true).sum()), int((treated & ~data.y_true).sum())
            assert found == pytest.approx(float((tp - fp * odds) / 300), abs=1e-12)


def test_the_published_rule_of_thumb_holds() -> None:
    """Treating all is worth nothing at the share of positive rows (Vickers and Elkin, 2006)."""
    curve = metrics.decision_curve(Histogram([0, 0.25, 0.5, 1], [10, 5, 10], [60, 10, 5]))
    assert curve.treat_all[1] == pytest.approx(0, abs=1e-12)


def test_without_rows_or_probabilities_there_is_none() -> None:
    with pytest.raises(UndefinedMetricError, match="no row"):
        metrics.decision_curve(Histogram([0, 1], [0], [0]))
    with pytest.raises(InputError, match="must be probabilities"):
        metrics.decision_curve(Histogram([0, 2], [1], [1]))

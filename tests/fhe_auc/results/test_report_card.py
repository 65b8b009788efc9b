"""A report card: thresholds asked for stay, are exact and tell no small count; what counts choose; any scores."""

import datetime
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc import federated_report
from fhe_auc.base.errors import InputError
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.results.asked import ReportAsked
from fhe_auc.results.report_card import Facts, ReportCard, report_card
from fhe_auc.results.report_json import as_dict
from fhe_auc.results.report_measures import NOT_PROBABILITIES
from fhe_auc.rows.party_data import PartyData
from tests.support.exact_histogram import exact_histogram
from tests.support.lazy import Lazy

sklearn_metrics = Lazy("sklearn.metrics")

GRID = np.linspace(0, 1, 41)[:-1]  # lower edges of bins


def rows(size: int, seed: int, shift: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    risks = 1 / (1 + np.exp(shift - 1.5 * generator.standard_normal(size)))
    labels = generator.random(size) < risks
    labels[:20] = np.arange(20) % 2
    return labels, risks


def card(
    labels: np.ndarray, scores: np.ndarray, asked: Sequence[float] = (), min_cell: int = 10, **wanted: Any
) -> ReportCard:
    added = [each for each in asked if each not in GRID]
    histogram = Histogram.from_rows(PartyData.from_arrays("a", labels, scores), np.append(np.union1d(GRID, added), 1.0))
    return report_card(histogram, wanted=ReportAsked(threshold=tuple(asked), **wanted), added=added, min_cell=min_cell)


def small(count: float) -> bool:
    return 0 < count < 10


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([100, 300, 2000]),
    asked=st.lists(
        st.sampled_from([0.0, 0.02, 0.03, 0.05, 0.051, 0.1, 0.2, 0.33, 0.5, 0.9, 1.0]), max_size=5, unique=True
    ),
)
def test_all_that_a_card_shows_together_tells_no_small_count(seed: int, size: int, asked: list[float]) -> None:
    """Counts of a label at edges of bins, at groups of the diagram, and at thresholds differ by none or by ten."""
    labels, scores = rows(size, seed)
    ours = card(labels, scores, asked)
    groups = ours.calibration
    for label, side in ((1, ours.histogram.positives), (0, ours.histogram.negatives)):
        share = np.abs(1 - label - groups.prob_true)
        below = {0.0, *np.cumsum(side), *np.cumsum(np.rint(share * groups.rows))}
        for decision in ours.chosen:
            without, found = decision.confusion[label]
            at = scores[labels == label] >= decision.threshold
            if without is None:
                assert {each.name for each in decision.measures if each.estimate} <= {
                    "specificity" if label else "recall"
                }
                assert small((~at).sum()) or small(at.sum()) or len(asked) > 1
            else:
                assert (without, found) == ((~at).sum(), at.sum())
                below.add(float(without))
        assert not any(small(high - low) for low, high in pairwise(sorted(below)))
    assert [each.threshold for each in ours.chosen] == asked


@pytest.mark.parametrize(("labels", "scores", "at", "hidden"), [
    # No score reaches it but a few: 0.7048 stood for it once, with recall 0.
    (np.arange(2000) % 20 == 19, np.where(np.arange(2000) < 1900, 0.3 * np.arange(2000) / 2000, 0.6), 0.5, True),
    # 100 rows, of which few are positive: .009 or .36 stood for it.
    (np.arange(100) % 10 == 0, np.arange(100) / 100, 0.2, True),
    (np.arange(400) % 10 == 0, np.arange(400) / 400, 0.25, False),
    (np.arange(400) % 10 == 0, np.arange(400) / 400 / 2, 0.7, False),
])  # fmt: skip
def test_a_threshold_stays_where_it_is_wanted(labels: np.ndarray, scores: np.ndarray, at: float, hidden: bool) -> None:
    (decision,) = card(labels, scores, [at]).chosen
    recall = next(each for each in decision.measures if each.name == "recall")
    assert decision.threshold == at
    if hidden:
        assert recall.estimate is recall.interval is decision.confusion[1][1] is None
        assert "not shown: from 1 to 9 positive rows" in recall.missing
    else:
        assert recall.estimate.value == pytest.approx(np.mean(scores[labels] >= at))
    specificity = next(each for each in decision.measures if each.name == "specificity")
    if decision.confusion[0][0] is not None:
        assert specificity.estimate.value == pytest.approx(np.mean(scores[~labels] < at))


def test_an_edge_more_for_a_threshold_does_not_make_up_for_a_bin_that_is_merged() -> None:
    edges = np.sort(np.append(np.arange(9) / 8, 0.55))
    counts = Histogram(edges, [50, 50, 50, 50, 40, 43, 50, 50, 3], [80, 80, 80, 80, 40, 44, 80, 80, 80])
    ours = report_card(counts, wanted=ReportAsked(threshold=(0.55,)), added=[0.55], min_cell=10)
    assert ours.histogram.bins == len(edges) - 2 < ours.fine_bins
    plain = as_dict([ours], Facts(title="", date=datetime.date(2026, 1, 1), privacy="", session={}))
    shown = plain["metrics"]["roc_auc"]["value"]  # all digits would tell of 3 rows which bin they are in
    assert shown == round(shown, 4) != ours.auc.value


def test_a_threshold_is_a_number_and_else_an_edge() -> None:
    edges = np.array([0, float(np.float32(0.1)), 0.5, 1])
    ours = report_card(Histogram(edges, [10, 20, 30], [40, 20, 10]), wanted=ReportAsked(threshold=(0.1,)), min_cell=10)
    assert (ours.chosen[0].threshold, ours.chosen[0].confusion) == (0.1, ((40, 30), (10, 50)))
    with pytest.raises(InputError, match=r"threshold 0\.3 is no edge"):
        report_card(Histogram(edges, [10, 20, 30], [40, 20, 10]), wanted=ReportAsked(threshold=(0.3,)))


@pytest.mark.parametrize(("options", "message"), [
    ({"threshold": float("inf")}, "must be a finite number"),
    ({"threshold": "half"}, "threshold must be a number, or a list of numbers, got 'half'"),
    ({"threshold": [0.1, 0.1]}, "at most 10 different"),
    ({"threshold": range(11)}, "got 0, 1, .*; give at most 10"),
    ({"cost_ratio": 0.0}, "cost_ratio is 0"),
    ({"alert_rate": 1.0}, "alert_rate is 1"),
])  # fmt: skip
def test_what_cannot_be_wanted_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        federated_report([([0, 1], [0.2, 0.9]), ([0, 1], [0.3, 0.7])], **options)


def test_youden_a_cost_and_an_alert_rate_choose_as_scikit_learns_curve_does() -> None:
    labels, scores = rows(4000, 3)
    scores = np.round(scores, 2)
    histogram = exact_histogram(PartyData.from_arrays("a", labels, scores))
    ours = report_card(histogram, wanted=ReportAsked(cost_ratio=19, alert_rate=0.1))
    found = {each.name: each for each in ours.operating_points}
    fpr, tpr, _ = sklearn_metrics.roc_curve(labels, scores, drop_intermediate=False)
    positives, negatives = labels.sum(), (~labels).sum()
    cost = fpr * negatives + 19 * (1 - tpr) * positives
    flagged = (fpr * negatives + tpr * positives) / len(labels)
    (tn, fp), (fn, tp) = found["youden"].decision.confusion
    assert tn / negatives + tp / positives - 1 == pytest.approx((tpr - fpr).max())
    (_, fp), (fn, _) = found["least_cost"].decision.confusion
    assert fp + 19 * fn == pytest.approx(cost.min())
    assert found["least_cost"].title == "Least cost, ratio 19 (in theory 0.05)"
    (_, fp), (_, tp) = found["alert_rate"].decision.confusion
    assert (fp + tp) / len(labels) == pytest.approx(flagged[flagged <= 0.1].max())
    tied = report_card(Histogram([0, 0.5, 1], [10, 40], [10, 40]), wanted=ReportAsked(alert_rate=0.1))
    assert tied.operating_points[-1][:3] == ("alert_rate", "At most 10% flagged", None)


def test_the_band_of_net_benefit_is_that_of_a_mean_over_rows() -> None:
    labels, scores = rows(3000, 5)
    ours = card(labels, scores, min_cell=1)
    at = list(ours.decision_curve.thresholds).index(GRID[4])
    worth = (scores >= GRID[4]) * np.where(labels, 1, -GRID[4] / (1 - GRID[4]))
    reach = 1.959964 * worth.std() / np.sqrt(len(labels))
    assert ours.decision_curve.model[at] == pytest.approx(worth.mean())
    assert (ours.net_benefit_band.low[at], ours.net_benefit_band.high[at]) == (
        pytest.approx(worth.mean() - reach),
        pytest.approx(worth.mean() + reach),
    )


POSITIVES, NEGATIVES = np.array([0, 20, 30, 40, 50, 60]), np.array([0, 200, 150, 100, 100, 12])
MISSING = {"expected_calibration_error", "brier", "scaled_brier", "log_loss", "normalised_entropy"}


@pytest.mark.parametrize("min_cell", [1, 10])
def test_only_what_needs_probabilities_is_missing_and_says_why(min_cell: int) -> None:
    points, shares = (
        report_card(
            Histogram(np.arange(7.0) / of, POSITIVES, NEGATIVES),
            wanted=ReportAsked(threshold=(3 / of,)),
            min_cell=min_cell,
        )
        for of in (1, 10)
    )
    assert (points.brier, points.calibration, points.decision_curve, points.observed_band) == (None,) * 4
    for each, other in zip(points.measures, shares.measures, strict=True):
        if each.name in MISSING:
            assert (each.estimate, each.missing) == (None, NOT_PROBABILITIES)
        else:
            assert (each.estimate, each.interval) == (other.estimate, other.interval)
    assert {each.missing for each in points.calibration_measures} == {NOT_PROBABILITIES}
    assert points.chosen[0].threshold == 3
    assert points.chosen[0].confusion == shares.chosen[0].confusion
    if min_cell == 1:
        assert points.best.confusion == shares.best.confusion

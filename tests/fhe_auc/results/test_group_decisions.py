"""Groups at a threshold: counts over rows, Fairlearn's measures, and small counts that nothing shown gives away."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc import InputError, Report
from fhe_auc.metrics import Histogram
from fhe_auc.question.analysis import Analysis, Variable
from fhe_auc.results.estimates import NESTED
from fhe_auc.results.group_decisions import CELLS, RATES, GroupDecision, fairness, of_cells
from tests.support.chosen import federated_report
from tests.support.html_page import Page
from tests.support.lazy import Lazy

pd = Lazy("pandas")
proportion_confint = Lazy("statsmodels.stats.proportion").proportion_confint

LEVELS = ("a", "b", "c", "d")
THREE = Analysis(by=(Variable("ward", LEVELS), Variable("sex", ("F", "M"))))


def histogram(cells: Any) -> Histogram:
    """Of groups' (TP, FP, FN, TN), as the session counts them."""
    tp, fp, fn, tn = np.asarray(cells, float).T
    sides = (np.stack(side, axis=1).ravel() for side in ((fn, tp), (tn, fp)))
    return Histogram(np.arange(2 * len(tp) + 1) / (2 * len(tp)), *sides)


counts = st.one_of(st.integers(0, 15), st.integers(0, 300))
tables = st.lists(st.tuples(*[counts] * 4), min_size=4, max_size=4)


@given(cells=tables, hidden=st.sets(st.sampled_from(LEVELS), max_size=2), least=st.sampled_from([2, 10]))
def test_no_small_count_is_shown_or_left_when_those_shown_are_taken_from_all(
    cells: Any, hidden: set[str], least: int
) -> None:
    analysis = Analysis(by=(Variable("ward", LEVELS),))
    found = tuple(of_cells(histogram(cells), analysis, least, {f"ward: {level}" for level in hidden}))
    shown = [each for each in found if each.counts is not None]
    assert not {each.level for each in shown} & hidden
    assert not any(0 < count < least for each in shown for count in each.counts or ())
    left = np.sum(cells, axis=0) - np.sum([each.counts for each in shown] or [[0] * 4], axis=0)
    number = len(LEVELS) - len(shown)
    assert number != 1  # one alone is all less the others
    if shown and number:
        assert all(count == 0 or count >= least for count in left)


@given(cells=tables)
def test_without_small_cells_every_group_has_its_own_counts(cells: Any) -> None:
    found = of_cells(histogram([*cells, (1, 2, 3, 4), (5, 6, 7, 8)]), THREE, 1, ())
    named = [(f"ward: {level}", own) for level, own in zip(LEVELS, cells, strict=True)]
    expected = [*named, ("sex: F", (1, 2, 3, 4)), ("sex: M", (5, 6, 7, 8))]
    assert [(f"{each.variable}: {each.level}", each.counts) for each in found] == expected


@settings(max_examples=10)
@given(cells=tables)
def test_measures_between_groups_are_fairlearns(cells: Any) -> None:
    metrics = pytest.importorskip("fairlearn.metrics")
    if not np.sum(cells):
        return
    groups = np.repeat(np.repeat(LEVELS, len(CELLS)), np.ravel(cells))
    kinds = np.repeat(CELLS * len(LEVELS), np.ravel(cells))
    y_true, y_pred = np.isin(kinds, ("TP", "FN")), np.isin(kinds, ("TP", "FP"))
    found = fairness([GroupDecision("ward", level, own) for level, own in zip(LEVELS, cells, strict=True)])["ward"]
    for name, value in found.items():
        if value is not None:
            assert value == pytest.approx(getattr(metrics, name)(y_true, y_pred, sensitive_features=groups))


def test_measures_between_groups_by_their_definitions() -> None:
    # By hand: selected 30/100, 20/50; of positives 20/25, 10/20; of negatives 10/75, 10/30.
    decisions = [GroupDecision("sex", "F", (20, 10, 5, 65)), GroupDecision("sex", "M", (10, 10, 10, 20))]
    assert fairness(decisions)["sex"] == pytest.approx(
        {
            **{"demographic_parity_difference": 0.1, "demographic_parity_ratio": 0.75},
            **{"equalized_odds_difference": 0.3, "equalized_odds_ratio": 0.4},
            **{"equal_opportunity_difference": 0.3, "equal_opportunity_ratio": 0.625},
        }
    )
    undefined = [decisions[0], GroupDecision("sex", "M", (0, 10, 0, 20))]
    assert fairness(undefined)["sex"]["equal_opportunity_ratio"] is None
    assert fairness([decisions[0], GroupDecision("sex", "M", None)])["sex"]["equalized_odds_difference"] is None


@pytest.fixture(scope="module")
def rows() -> Any:
    random = np.random.default_rng(8)
    died = random.random(1500) < 0.4
    ward = random.choice(LEVELS, 1500, p=[0.5, 0.3, 0.18, 0.02])
    risk = np.clip(random.normal(0.4 + 0.2 * died, 0.2), 0, 0.999).round(2)
    sites, sexes = random.choice(["north", "south"], 1500), random.choice(["F", "M"], 1500)
    return pd.DataFrame({"hospital": sites, "died": died, "risk": risk, "sex": sexes, "ward": ward})


@pytest.fixture(scope="module")
def report(rows: Any) -> Report:
    columns: dict[str, Any] = {"label": "died", "score": "risk", "site": "hospital"}
    return federated_report(rows, **columns, by=["ward", "sex"], threshold=0.5, thresholds=np.arange(100) / 100)


def test_a_report_has_the_counts_of_the_rows_scikit_learns_rates_and_statsmodels_intervals(
    rows: Any, report: Report
) -> None:
    frame, metrics = report.by_group("sex"), Lazy("sklearn.metrics")
    assert (report.card.chosen[0].threshold, frame.index.name) == (0.5, "sex")
    for each in report.facts.group_decisions[len(LEVELS) :]:
        own = rows[rows["sex"] == each.level]
        died, alarm = own["died"], own["risk"] >= 0.5
        assert each.counts == (sum(died & alarm), sum(~died & alarm), sum(died & ~alarm), sum(~died & ~alarm))
        plain = each.as_dict(0.95)
        expected = {
            "true_positive_rate": metrics.recall_score(died, alarm),
            "true_negative_rate": metrics.recall_score(died, alarm, pos_label=0),
            "false_positive_rate": 1 - metrics.recall_score(died, alarm, pos_label=0),
            "false_negative_rate": 1 - metrics.recall_score(died, alarm),
            "precision": metrics.precision_score(died, alarm),
            "selection_rate": alarm.mean(),
        }
        assert frame.loc[each.level].to_dict() == pytest.approx({"count": len(own), **expected})
        assert {name: plain[name] for name in RATES} == pytest.approx(expected)
        for name in RATES:
            theirs = proportion_confint(*each.rate(name), 0.05, "wilson")
            assert plain["intervals"][name] == pytest.approx(theirs)
    assert GroupDecision("sex", "F", None).as_dict(0.9)["intervals"] == dict.fromkeys(RATES)


def test_the_frame_is_that_of_fairlearn(rows: Any, report: Report) -> None:
    frame, at = report.by_group("sex"), report.card.chosen[0].threshold
    metrics = pytest.importorskip("fairlearn.metrics")
    of_frame = {
        name: getattr(metrics, name) for name in ("selection_rate", "true_positive_rate", "false_negative_rate")
    }
    expected = metrics.MetricFrame(
        metrics=of_frame, y_true=rows["died"], y_pred=rows["risk"] >= at, sensitive_features=rows["sex"]
    ).by_group
    pd.testing.assert_frame_equal(frame[list(of_frame)], expected, check_dtype=False)


def test_without_small_cells_a_group_of_one_label_is_shown_too(rows: Any) -> None:
    own = rows[(rows["ward"] != "d") | ~rows["died"]]
    columns: dict[str, Any] = {"label": "died", "score": "risk", "site": "hospital"}
    found = federated_report(own, **columns, by="ward", threshold=0.5, min_cell=1, thresholds=np.arange(100) / 100)
    assert [each.counts is None for each in found.facts.group_decisions] == [False] * 4
    assert found.facts.groups[3].auc is None


def test_hidden_groups_are_hidden_everywhere(report: Report) -> None:
    frame = report.by_group("ward")
    hidden = frame.index[frame["count"].isna()].tolist()
    assert "d" in hidden
    assert len(hidden) == 2
    plain = report.as_dict()
    assert [each["level"] for each in plain["group_decisions"] if each["TP"] is None] == hidden
    assert sum(text == NESTED for text in report.facts.warnings) == 1
    assert json.dumps(plain)
    words = Page(report.html()).words
    for level in LEVELS:
        assert (f"ward: {level} TP " in words) == (level not in hidden)
        assert (f"ward: {level} not shown" in words) == (level in hidden)
    assert math.isnan(frame.loc["d", "precision"])
    with pytest.raises(InputError, match="no groups by 'age'"):
        report.by_group("age")


def test_without_a_threshold_groups_have_no_decisions_and_no_session_for_them(rows: Any) -> None:
    found = federated_report(rows, label="died", score="risk", site="hospital", by="sex")
    assert (found.facts.group_decisions, found.card.chosen, len(found.facts.groups)) == ((), (), 2)
    assert "third session" not in found.facts.privacy
    assert "Groups at the threshold" not in Page(found.html()).words

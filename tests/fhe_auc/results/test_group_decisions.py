"""Groups at a threshold: counts over rows, Fairlearn's measures, and small counts that nothing shown gives away."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc import InputError, Report, federated_report
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.question.analysis import Analysis, Variable
from fhe_auc.results.estimates import NESTED, GroupEstimate
from fhe_auc.results.group_decisions import RATES, SHOWN_RATES, GroupDecision, alike, differences, fairness, of_cells
from fhe_auc.results.intervals import FEWEST
from tests.support.html_page import Page
from tests.support.lazy import Lazy

pytestmark = pytest.mark.usefixtures("without_figures")

pd = Lazy("pandas")
stats = Lazy("scipy.stats")
proportion_confint = Lazy("statsmodels.stats.proportion").proportion_confint
confint_proportions_2indep = Lazy("statsmodels.stats.proportion").confint_proportions_2indep
combine_effects = Lazy("statsmodels.stats.meta_analysis").combine_effects

LEVELS = ("a", "b", "c", "d")


def histogram(cells: Any) -> Histogram:
    """Of groups' (TP, FP, FN, TN), as the session counts them."""
    tp, fp, fn, tn = np.asarray(cells, float).T
    sides = (np.stack(side, axis=1).ravel() for side in ((fn, tp), (tn, fp)))
    return Histogram(np.arange(2 * len(tp) + 1) / (2 * len(tp)), *sides)


counts = st.one_of(st.integers(0, 15), st.integers(0, 300))
tables = st.lists(st.tuples(*[counts] * 4), min_size=4, max_size=4)


@given(cells=tables, hidden=st.sets(st.sampled_from(LEVELS), max_size=2), least=st.sampled_from([2, 10]))
def test_no_small_count_is_shown_or_left_when_these_are_subtracted(cells: Any, hidden: set[str], least: int) -> None:
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


def decisions_of(cells: Any) -> list[GroupDecision]:
    return [GroupDecision("ward", level, own) for level, own in zip(LEVELS, cells, strict=False)]


def rates_of(cells: Any) -> dict[str, NDArray[np.float64]]:
    """Of groups that have such rows."""
    tp, fp, fn, tn = np.asarray(cells, float).T
    pairs = {
        "demographic_parity": (tp + fp, tp + fp + fn + tn),
        "equal_opportunity": (tp, tp + fn),
        "fpr": (fp, fp + tn),
    }
    return {name: hits[rows > 0] / rows[rows > 0] for name, (hits, rows) in pairs.items()}


@given(cells=tables, hidden=st.sets(st.sampled_from(LEVELS), max_size=3), least=st.sampled_from([2, 10]))
def test_of_groups_that_are_not_shown_a_bound_holds(cells: Any, hidden: set[str], least: int) -> None:
    analysis = Analysis(by=(Variable("ward", LEVELS),))
    decisions = tuple(of_cells(histogram(cells), analysis, least, {f"ward: {level}" for level in hidden}))
    found, rates = fairness(decisions)["ward"], rates_of(cells)
    assert all(set(each.left_out) >= {own.level for own in decisions if own.counts is None} for each in found.values())
    for measure in ("demographic_parity", "equal_opportunity"):
        own, plain = rates[measure], found[f"{measure}_ratio"].as_dict()
        if (difference := found[f"{measure}_difference"]).value is not None:
            assert difference.value <= np.ptp(own) + 1e-12
            assert difference.left_out or difference.value == pytest.approx(np.ptp(own))
        if (ratio := found[f"{measure}_ratio"]).value is not None:
            assert ratio.value >= own.min() / own.max() - 1e-12
            assert (plain["value"], plain["at_most"]) == (
                (None, ratio.value) if ratio.left_out else (ratio.value, None)
            )


def test_measures_between_groups_by_their_definitions() -> None:
    # By hand: selected 30/100, 20/50; of positives 20/25, 10/20; of negatives 10/75, 10/30.
    decisions = decisions_of([(20, 10, 5, 65), (10, 10, 10, 20)])
    assert {name: each.value for name, each in fairness(decisions)["ward"].items()} == pytest.approx(
        {
            **{"demographic_parity_difference": 0.1, "demographic_parity_ratio": 0.75},
            **{"equalized_odds_difference": 0.3, "equalized_odds_ratio": 0.4},
            **{"equal_opportunity_difference": 0.3, "equal_opportunity_ratio": 0.625},
        }
    )
    undefined = fairness(decisions_of([(20, 10, 5, 65), (0, 10, 0, 20)]))["ward"]["equal_opportunity_ratio"]
    assert (undefined.value, undefined.left_out, str(undefined)) == (None, ("b",), "undefined")


def test_by_chance_groups_that_are_alike_differ_as_the_range_of_normal_variables() -> None:
    alike_groups = [GroupDecision("ward", f"{k}", (400, 160, 600, 640)) for k in range(6)]
    found = fairness(alike_groups)["ward"]
    for name, rate, rows in (("equal_opportunity", 0.4, 1000), ("demographic_parity", 560 / 1800, 1800)):
        expected = 2.534 * math.sqrt(rate * (1 - rate) / rows)  # Tippett: the mean range of six
        assert found[f"{name}_difference"].by_chance == pytest.approx(expected, rel=0.03)
    assert found["equalized_odds_difference"].by_chance > found["equal_opportunity_difference"].by_chance


@given(cells=tables)
def test_differences_have_newcombes_intervals_and_are_of_the_largest_group(cells: Any) -> None:
    decisions = decisions_of(cells)
    largest = LEVELS[int(np.argmax(np.sum(cells, axis=1)))]
    compared = list(differences(decisions, 0.9))
    assert {(level, reference) for _, level, reference, _ in compared} == {
        (own, largest) for own in LEVELS if own != largest
    }
    of = dict(zip(LEVELS, decisions, strict=True))
    for _, level, _, rates in compared:
        for name, (value, interval) in rates.items():
            own, other = of[level].rate(name), of[largest].rate(name)
            assert value == pytest.approx(own[0] / own[1] - other[0] / other[1])
            if min(own[1], other[1]) < FEWEST:
                assert interval is None
                continue
            theirs = confint_proportions_2indep(*own, *other, method="newcomb", compare="diff", alpha=0.1)
            assert (interval.low, interval.high) == pytest.approx(theirs, abs=1e-9)
    assert {interval for *_, rates in differences(decisions, None) for _, interval in rates.values()} <= {None}


@given(cells=tables)
def test_a_test_of_all_groups_is_pearsons(cells: Any) -> None:
    tp, fp, fn, tn = np.asarray(cells).T
    for name, (hits, others) in {"true_positive_rate": (tp, fn), "selection_rate": (tp + fp, fn + tn)}.items():
        table = np.array([hits, others])[:, hits + others > 0]
        found = alike(decisions_of(cells), ())["ward"][name]
        if table.shape[1] < 2 or not table.sum(axis=1).all():
            assert found is None
        else:
            assert found == pytest.approx(stats.chi2_contingency(table, correction=False).pvalue, rel=1e-9, abs=1e-300)


def test_a_test_of_groups_aucs_is_cochrans() -> None:
    aucs, errors = np.array([0.8, 0.7, 0.75]), np.array([0.02, 0.03, 0.05])
    usable = [
        GroupEstimate(model="", group=f"ward: {level}", auc=auc, standard_error=error)
        for level, auc, error in zip(LEVELS, aucs, errors, strict=False)
    ]
    unusable = [
        GroupEstimate(model="", group="ward: d", auc=None, missing="too few"),
        GroupEstimate(model="", group="ward: d", auc=1.0, standard_error=0.01),
        GroupEstimate(model="", group="sex: F", auc=0.77, standard_error=0.01),
    ]
    found = alike(decisions_of([(1, 2, 3, 4)] * 4), [*usable, *unusable])["ward"]["roc_auc"]
    theirs = combine_effects(np.log(aucs / (1 - aucs)), (errors / (aucs * (1 - aucs))) ** 2)
    assert found == pytest.approx(stats.chi2.sf(theirs.q, 2))
    without = alike((), [*usable, *unusable])  # at no threshold
    assert without["ward"] == {**dict.fromkeys(SHOWN_RATES), "roc_auc": found}
    assert set(without) == {"ward", "sex"}


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


def test_a_report_has_the_rows_counts_scikit_learns_rates_and_statsmodels_intervals(rows: Any, report: Report) -> None:
    frame, metrics = report.by_group("sex"), Lazy("sklearn.metrics")
    assert (report.card.chosen[0].threshold, frame.index.name) == (0.5, "sex")
    for each in report.card.group_decisions[len(LEVELS) :]:
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


def test_a_group_has_the_calibration_of_its_rows(rows: Any, report: Report) -> None:
    for each in report.card.group_calibrations:
        own = rows[rows[each.variable] == each.level]
        ratio, slope = (measure.estimate.value for measure in each.measures)
        middles = np.minimum(np.floor(100 * own["risk"] + 1e-6), 99) / 100 + 0.005
        assert ratio == pytest.approx(own["died"].sum() / middles.sum(), rel=0.005)
        logits = np.log(middles / (1 - middles))
        line = Lazy("sklearn.linear_model").LogisticRegression(C=np.inf).fit(logits.to_numpy()[:, None], own["died"])
        low, high = (getattr(each.measures[1].interval, end) for end in ("low", "high"))
        assert abs(slope - line.coef_[0, 0]) < 0.1 * (high - low)
    shown = [(each.variable, each.level) for each in report.card.group_calibrations]
    assert shown == [tuple(each.group.split(": ")) for each in report.card.groups if each.auc is not None]
    plain = report.as_dict()["group_calibration"]
    assert [(each["variable"], each["level"]) for each in plain] == shown
    assert plain[0]["calibration_slope"]["value"] == round(
        report.card.group_calibrations[0].measures[1].estimate.value, 4
    )


def test_the_bound_is_on_the_page_in_the_json_and_in_the_notebook(report: Report) -> None:
    found = report.as_dict()["fairness"]["ward"]["equal_opportunity_difference"]
    assert found["value"] is None
    assert found["hidden"] == [each.level for each in report.card.group_decisions if each.counts is None]
    text, hidden = f"at least {found['at_least']:.4f}", f"{', '.join(found['hidden'])} not shown: too few"
    for shown in (Page(report.html()).words, report._repr_html_()):
        assert text in shown
        assert hidden in shown
    assert set(report.as_dict()["group_p_values"]["sex"]) >= {"true_positive_rate", "roc_auc"}
    assert report.as_dict()["group_differences"][0]["precision"]["interval"]["method"] == "Newcombe"


def test_without_small_cells_a_group_of_one_label_is_shown_too(rows: Any) -> None:
    own = rows[(rows["ward"] != "d") | ~rows["died"]]
    columns: dict[str, Any] = {"label": "died", "score": "risk", "site": "hospital"}
    found = federated_report(own, **columns, by="ward", threshold=0.5, min_cell=1, thresholds="uniform:20")
    assert [each.counts is None for each in found.card.group_decisions] == [False] * 4
    assert found.card.groups[3].auc is None


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

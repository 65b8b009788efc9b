"""A report of two models: each number is that of the rows themselves, small counts stay hidden, the rest is refused."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc import InputError, Report, federated_report
from fhe_auc.figures.report_card import FIGURES, draw
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.results.decisions import net_benefits
from tests.support import delong
from tests.support.html_page import Page
from tests.support.lazy import Lazy
from tests.support.synthetic_scores import two_models

pd = Lazy("pandas")
roc_auc_score = Lazy("sklearn.metrics").roc_auc_score
DescrStatsW = Lazy("statsmodels.stats.weightstats").DescrStatsW

pytestmark = pytest.mark.usefixtures("without_figures")  # in pages

GRID = np.arange(20) / 20
BOTH: dict[str, Any] = {"label": "died", "score": ["risk", "$<b>_old"], "site": "hospital"}
AT = 0.25


def worth(died: NDArray[np.bool_], acts: NDArray[np.bool_], at: float) -> NDArray[np.float64]:
    """Return what acting is worth, row by row (Vickers and Elkin, 2006)."""
    return np.where(acts, np.where(died, 1.0, -at / (1 - at)), 0.0)


cells = st.lists(st.one_of(st.just(0), st.integers(0, 12), st.integers(10, 300)), min_size=8, max_size=8)


@given(counts=cells, at=st.sampled_from([0.0, 0.1, 0.5, 0.9]), least=st.sampled_from([1, 10]))
def test_net_benefits_and_their_intervals_are_those_of_means_over_rows_and_small_counts_give_no_difference(
    counts: list[int], at: float, least: int
) -> None:
    if sum(counts) < 2:
        return
    died, first, second = (np.repeat(side, counts) for side in np.array(list(np.ndindex(2, 2, 2)), bool).T)
    told = net_benefits(("a", "b"), Histogram(np.arange(5) / 4, counts[4:], counts[:4]), at, 0.95, least)
    of_rows = [worth(died, acts, at) for acts in (first, second)]
    for each, rows in zip(told, (*of_rows, of_rows[1] - of_rows[0]), strict=True):
        assert each.estimate is not None
        assert each.estimate.value == pytest.approx(rows.mean(), abs=1e-12)
        if each.name == "difference" and any(0 < count < least for count in counts):
            assert each.interval is None
        elif each.interval is None:
            assert rows.std() < 1e-9
        else:
            # By the normal distribution; statsmodels' variance is over n - 1.
            expected = DescrStatsW(rows).zconfint_mean()
            scale = np.sqrt(1 - 1 / len(rows))
            expected = rows.mean() + (np.array(expected) - rows.mean()) * scale
            assert (each.interval.low, each.interval.high) == pytest.approx(tuple(expected), abs=1e-9)


@pytest.fixture(scope="module")
def rows() -> Any:
    """With scores of 20 values, which are bins: no number differs from the rows' by these."""
    made = pd.DataFrame(two_models(3000))
    return made.assign(**{name: np.floor(20 * made[name]) / 20 for name in BOTH["score"]})


@pytest.fixture(scope="module")
def report(rows: Any) -> Report:
    return federated_report(rows, **BOTH, thresholds=GRID, threshold=AT)


def test_both_models_and_the_difference_of_their_net_benefit_are_of_the_rows(rows: Any, report: Report) -> None:
    said = json.loads(json.dumps(report.as_dict()))
    at = said["decisions"][f"threshold_{AT:g}"]["threshold"]
    assert at == AT
    died = rows["died"].to_numpy()
    first, second = (worth(died, (rows[name] >= at).to_numpy(), at) for name in BOTH["score"])
    for name, values in {"first": first, "second": second, "difference": second - first}.items():
        found, reach = said["models"]["net_benefit"][name], 1.959964 * values.std() / np.sqrt(len(values))
        expected = values.mean(), values.mean() - reach, values.mean() + reach
        assert (found["value"], found["interval"]["low"], found["interval"]["high"]) == pytest.approx(
            expected, abs=6e-5
        )
    aucs = [each["metrics"]["roc_auc"]["value"] for each in (said, said["models"]["second"])]
    assert aucs == pytest.approx([roc_auc_score(died, rows[name]) for name in BOTH["score"]], abs=6e-5)


def test_page_notebook_and_figures_name_both_as_text(report: Report, assert_texts_apart: Callable[..., None]) -> None:
    html = report.html()
    assert "<b>_old" not in html + report._repr_html_()
    assert "model $&lt;b&gt;_old: ROC curve" in html
    words = Page(html).words
    values = [f"{each.estimate.value:.4f}" for each in report.facts.net_benefits if each.estimate]
    assert f"Net benefit, $<b>_old minus risk {values[2]} CI" in words
    assert "small" in report.facts.privacy
    assert [*report.cards] == BOTH["score"]
    assert len(repr(report)) <= 3 * 80
    for name, card in report.cards.items():
        assert f"AUC, {name} {card.auc.value:.3f} 95 % confidence interval" in words
        assert f"{name} AUC {card.auc.value:.4f} (95 % interval" in str(report)
        assert f"{name} value" in Page(report._repr_html_()).words
    for name in FIGURES:
        figure = draw(report, name)
        assert_texts_apart(figure, least=8, beyond=1)
        (axes,) = figure.axes
        legend = axes.get_legend()
        assert legend is not None
        labels = [text.get_text() for text in legend.get_texts()]
        for model in ("model risk", r"model \$<b>_old"):
            assert any(label.startswith(model) for label in labels), (name, labels)


def test_the_difference_of_aucs_is_that_of_the_pages_with_delongs_interval_over_rows(rows: Any) -> None:
    random = np.random.default_rng(4)
    unrounded = rows.assign(**{name: rows[name] + random.uniform(0, 0.05, len(rows)) for name in BOTH["score"]})
    report = federated_report(unrounded, **BOTH, thresholds="quantile:150")
    found = report.facts.comparison
    assert found is not None
    assert found.interval is not None
    first, second = (each.auc.value for each in report.cards.values())
    assert found.difference == second - first
    scores = (unrounded[name].to_numpy() for name in BOTH["score"])
    difference, error, p_value = delong.paired_of_rows(rows["died"].to_numpy(), *scores)
    assert second - first == pytest.approx(difference, abs=2e-4)
    assert found.interval.low == pytest.approx(difference - 1.959964 * error, abs=5e-4)
    assert found.p_value == pytest.approx(p_value, rel=0.1)
    told = report.as_dict()["models"]["auc_difference"]
    assert (told["difference"], told["interval"]["low"]) == pytest.approx(
        (second - first, found.interval.low), abs=6e-5
    )
    assert f"{found.difference:+.4f}" in Page(report.html()).words


def test_the_table_has_the_differences_apart_from_either_models_values(report: Report) -> None:
    frame, facts = report.to_frame(), report.facts
    assert facts.comparison is not None
    between = frame[frame["model"] == "$<b>_old minus risk"]
    assert between["section"].tolist() == ["differences", "net benefit"]
    assert between["estimate"].tolist() == [
        round(facts.comparison.difference, 4),
        round(facts.net_benefits[2].estimate.value, 4),
    ]
    for name, card in report.cards.items():
        own = frame[frame["model"] == name]
        assert own.iloc[0]["estimate"] == round(card.auc.value, 4)
        assert own["section"].tolist().count("net benefit") == 1


def test_where_few_rows_change_sides_the_difference_has_no_interval_and_the_page_says_why(rows: Any) -> None:
    nearly = rows["risk"].to_numpy().copy()
    moved = np.flatnonzero(rows["died"] & (nearly >= AT))[:7]
    nearly[moved] = AT - 0.01
    same = federated_report(rows.assign(**{"$<b>_old": nearly}), **BOTH, thresholds=GRID, threshold=AT)
    assert [each.interval is None for each in same.facts.net_benefits] == [False, False, True]
    assert any("difference of net benefit has no interval" in text for text in same.facts.warnings)


def test_where_small_counts_are_hidden_of_a_model_there_is_no_net_benefit(rows: Any) -> None:
    low = rows["risk"].to_numpy() / 5  # 4 rows or so are left at or above the threshold
    low[np.flatnonzero(rows["died"])[:4]] = 0.9
    found = federated_report(rows.assign(**{"$<b>_old": low}), **BOTH, thresholds=GRID, threshold=AT, interval=None)
    said = found.as_dict()["models"]
    assert [each.chosen[0].hidden == "" for each in found.cards.values()] == [True, False]
    assert (found.facts.net_benefits, said["net_benefit"]) == ((), {})
    told = f"$<b>_old: threshold {AT:g}: not shown: from 1 to 9 positive"
    assert any(text.startswith(told) for text in found.facts.warnings)
    counts = np.array([said["second"]["histogram"][side] for side in ("positives", "negatives")])
    assert ((counts == 0) | (counts >= 10)).all()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"score": ["risk", "$<b>_old", "third"]}, "one model, or of two; got 3 columns"),
        ({"protocol": "histogram-local-dp", "epsilon": 1.0}, "differences of models, are exact"),
    ],
)
def test_what_two_models_do_not_go_with_is_refused_first(rows: Any, asked: dict[str, Any], told: str) -> None:
    events: list[object] = []
    tables = rows.assign(third=0.5)
    with pytest.raises(InputError, match=told):
        federated_report(tables, **{**BOTH, **asked}, progress=lambda *each: events.append(each))
    assert not events


def test_beside_probabilities_points_have_all_that_points_have_and_what_is_missing_is_said() -> None:
    rows = pd.DataFrame(two_models(3000))
    points = rows.assign(**{"$<b>_old": np.floor(9 * rows["$<b>_old"])})
    report = federated_report(points, **BOTH, threshold=AT, interval=None)
    said, html = report.as_dict(), report.html()
    second = said["models"]["second"]
    assert said["decision_curve"] is not None
    assert second["decision_curve"] is second["metrics"]["brier"] is None
    assert second["metrics"]["roc_auc"]["value"] == pytest.approx(
        roc_auc_score(points["died"], points["$<b>_old"]), abs=6e-5
    )
    assert "undefined scores are not probabilities" in Page(html).words
    assert "model $&lt;b&gt;_old: Reliability" not in html
    for name in FIGURES:
        legend = draw(report, name).axes[0].get_legend()
        assert legend is not None
        labels = " ".join(text.get_text() for text in legend.get_texts())
        assert (r"\$<b>_old" in labels) == (name not in ("reliability", "decision_curve"))
    only = federated_report(points, **{**BOTH, "score": "$<b>_old"})
    assert "These scores are not probabilities: calibration" in Page(only.html()).words
    assert {"Reliability", "Decision curve"}.isdisjoint(Page(only.html()).texts)
    with pytest.raises(InputError, match="so there is no decision curve"):
        draw(only, "decision_curve")

"""Intervals by the bootstrap in a report: those of rows drawn with replacement, of thresholds and of differences."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from numpy.typing import NDArray

from fhe_auc import InputError, Report, federated_report
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.question.analysis import Analysis
from fhe_auc.report.steps import report_steps
from fhe_auc.results import result_file
from fhe_auc.results.asked import Asked, ReportAsked
from fhe_auc.results.bootstrap import BINS, bins_of_replicates, with_bootstrap
from fhe_auc.results.evaluation import Replicates
from fhe_auc.results.report_card import report_card
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.one_process import play
from fhe_auc.session.protocol import Request
from tests.support.lazy import Lazy

metrics = Lazy("sklearn.metrics")
pytestmark = pytest.mark.usefixtures("without_figures")

MODELS = ["old", "new"]
BOTH: dict[str, Any] = {"label": "died", "score": MODELS}
SUMMED = ("average_precision", "partial_auc", "brier", "scaled_brier", "log_loss", "observed_expected_ratio")


def expit(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-x))


def rows(number: int, seed: int = 3) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(seed)
    died = random.random(number) < 0.2
    old = random.normal(size=number) + 1.2 * died
    new = 0.6 * old + 0.8 * (random.normal(size=number) + 1.2 * died)
    return {"died": died.astype(int), "old": expit(old - 2), "new": expit(new - 2)}


def sites(of: dict[str, NDArray[Any]], number: int = 3) -> list[dict[str, NDArray[Any]]]:
    return [{name: values[each::number] for name, values in of.items()} for each in range(number)]


@pytest.fixture(scope="module")
def played() -> tuple[Asked, list[Any], Report]:
    """A report of two models, and what its sessions have yielded."""
    own, outcomes = rows(1500), list[Any]()
    analysis = Analysis(models=("old", "new"))
    parties = [
        PartyData.from_columns(
            str(each), own["died"][each::3], {name: own[name][each::3] for name in MODELS}, {}, analysis
        )
        for each in range(3)
    ]
    wanted = ReportAsked(bootstrap=100, cost_ratio=5, alert_rate=0.1)
    asked = Asked(analysis=analysis, thresholds="hybrid:1000", report=wanted)

    def kept(step: Any, outcome: Any) -> Any:
        outcomes.append(outcome)
        return outcome

    base = Request(parties=("0", "1", "2"), thresholds=np.empty(0))
    return asked, outcomes, Report(*play(report_steps(asked, base), parties, analysis, None, said=kept))


@pytest.fixture(scope="module")
def report(played: tuple[Asked, list[Any], Report]) -> Report:
    return played[2]


def differences(of: Report) -> dict[str, Any]:
    found: dict[str, Any] = of.as_dict()["models"]["differences"]
    return found


def half(interval: dict[str, float]) -> float:
    return (interval["high"] - interval["low"]) / 2


def test_differences_have_the_intervals_of_rows_drawn_with_replacement(report: Report) -> None:
    found, own, random = differences(report), rows(1500), np.random.default_rng(1)
    scores = {"average_precision": metrics.average_precision_score, "brier": metrics.brier_score_loss}
    drawn: dict[str, list[float]] = {name: [] for name in scores}
    for _ in range(100):
        at = random.integers(0, 1500, 1500)
        for name, score in scores.items():
            drawn[name].append(score(own["died"][at], own["new"][at]) - score(own["died"][at], own["old"][at]))
    for name, score in scores.items():
        value = score(own["died"], own["new"]) - score(own["died"], own["old"])
        assert found[name]["value"] == pytest.approx(value, abs=2e-3)
        assert half(found[name]["interval"]) == pytest.approx(1.96 * np.std(drawn[name]), rel=0.4)  # both are by chance


def test_what_bins_leave_open_of_both_models_adds_up_in_their_difference(report: Report) -> None:
    old, new = ({each.name: each.estimate for each in card.measures} for card in report.cards.values())
    found = {name: each for name, each in differences(report).items() if old.get(name) and new.get(name)}
    assert "brier" in found
    for name, each in found.items():
        ends = new[name].low - old[name].high, new[name].high - old[name].low
        assert (each["low"], each["high"]) == pytest.approx(ends, abs=1e-4)
        assert each["low"] <= each["value"] <= each["high"]


def test_means_and_maxima_of_absolute_values_have_none_nor_what_a_formula_has(report: Report) -> None:
    assert {*SUMMED} < {*differences(report)}
    assert not {"ks", "expected_calibration_error", "ici", "e50", "e90", "emax", "roc_auc"} & {*differences(report)}


def test_thresholds_that_the_rows_choose_have_intervals_that_end_where_bins_shown_do(report: Report) -> None:
    for card in report.cards.values():
        assert [point.name for point in card.operating_points][4:] == ["youden", "least_cost", "alert_rate"]
        for point in card.operating_points:
            assert point.decision is not None
            assert point.interval is not None
            assert point.interval.low <= point.decision.threshold <= point.interval.high
            assert {point.interval.low, point.interval.high} <= {*card.histogram.edges.tolist()}
            assert point.interval.low < point.interval.high or point.name == "recall_0.95"  # by chance, in one bin


def test_page_json_table_and_notebook_say_how_many_replicates_and_bins_there_are(report: Report) -> None:
    plain = report.as_dict()
    bins = plain["bootstrap"]["bins"]
    assert plain["bootstrap"]["replicates"] == 100
    assert BINS // 2 < bins <= BINS + 2
    method = f"bootstrap by rows, 100 replicates in {bins} bins"
    assert plain["threshold_intervals"]["youden"]["method"] == (
        f"percentile {method}, to edges of the {report.cards['old'].histogram.bins} bins shown"
    )
    assert plain["models"]["differences"]["brier"]["interval"]["method"] == method
    page, table = report.html(), report.csv()
    assert f"percentile {method}" in page
    assert "Average precision, new minus old" in page
    assert f"{bins} bins, merged from those above" in page
    assert "how many rows lie in a bin of the one model and one of the other" in page
    assert 'new minus old,differences,average_precision,"Average precision, new minus old"' in table
    assert "old,Youden's index,threshold,Threshold," in table
    assert "Average precision, new minus old" in report._repr_html_()
    json.dumps(plain, allow_nan=False)


def test_without_replicates_nothing_is_said_of_them() -> None:
    plain = federated_report(sites(rows(300)), label="died", score="old", thresholds="uniform:20").as_dict()
    assert not {"bootstrap", "threshold_intervals"} & {*plain}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"bootstrap": 50}, "bootstrap is 50; give 100 to 1,000 replicates"),
        ({"bootstrap": 1001}, "bootstrap is 1001"),
        ({"bootstrap": 200, "interval": None}, "replicates are for intervals, and none are asked for"),
        ({"bootstrap": 200, "protocol": "histogram-distributed-dp", "epsilon": 1}, "do not go with a model that adds"),
    ],
)
def test_replicates_that_cannot_be_are_refused(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        federated_report(sites(rows(300)), label="died", score="old", **asked)


@pytest.mark.slow
def test_a_patients_rows_count_together_and_copies_of_rows_make_no_interval_narrower() -> None:
    own = rows(400)
    copied = {name: np.repeat(values, 4) for name, values in own.items()} | {"patient": np.repeat(np.arange(400), 4)}
    asked: dict[str, Any] = {**BOTH, "bootstrap": 200, "thresholds": "uniform:100"}
    once, rowwise = (differences(federated_report(sites(each, 1), **asked)) for each in (own, copied))
    grouped = federated_report(sites(copied, 1), **asked, cluster="patient")
    for name in ("average_precision", "brier"):
        assert half(differences(grouped)[name]["interval"]) == pytest.approx(half(once[name]["interval"]), rel=0.35)
        assert half(rowwise[name]["interval"]) < 0.7 * half(once[name]["interval"])
    assert "bootstrap by patients" in grouped.html()
    assert any("those of AUCs and by the bootstrap take patients as independent" in each for each in grouped.warnings)


def test_replicates_are_the_last_session_and_all_sites_read_the_same_off_their_files(
    played: tuple[Asked, list[Any], Report],
) -> None:
    asked, outcomes, told = played
    assert [each.protocol for each in outcomes] == ["verified", *["histogram-federated"] * 2, "replicates-federated"]
    read = [result_file._of_plain(json.loads(json.dumps(result_file.as_plain(each), default=str))) for each in outcomes]
    assert isinstance(read[-1], Replicates)
    assert Report.of(asked, read).as_dict()["models"]["differences"] == differences(told)
    with pytest.raises(InputError, match="some sessions are to come"):
        Report.of(asked, read[:-1])
    assert "bootstrap" not in Report.of(structs.replace(asked, report=ReportAsked()), read[:-1]).as_dict()


def replicated(histograms: list[Histogram], number: int, seed: int) -> Replicates:
    """Replicates of one model's pooled counts, which are as good by Poisson's law."""
    random, grid = np.random.default_rng(seed), bins_of_replicates(histograms)
    starts = np.searchsorted(histograms[0].edges[:-1], grid)
    merged = [np.add.reduceat(side, starts) for side in (histograms[0].positives, histograms[0].negatives)]
    counts = random.poisson(np.stack(merged), (number, 2, len(grid))).astype(np.float64)[:, None]
    return Replicates(protocol="", backend="", parties=2, security_bits=0, grid=grid, counts=counts)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "share"), [(500, 0.3), (2000, 0.1)])
def test_intervals_of_thresholds_hold_the_best_one(number: int, share: float) -> None:
    """Of scores N(1.5, 1) and N(0, 1): Youden's is 0.75; at a cost ratio c, 0.75 + log((1 − p)/(p·c))/1.5."""
    edges, random, studies = np.linspace(-6, 8, 5001), np.random.default_rng(11), 200
    true = {"youden": 0.75, "least_cost": 0.75 + np.log((1 - share) / share / 5) / 1.5}
    held = dict.fromkeys(true, 0)
    for study in range(studies):
        positive = random.random(number) < share
        scores = random.normal(size=number) + 1.5 * positive
        sides = [np.histogram(scores[which], edges)[0] for which in (positive, ~positive)]
        histogram = Histogram(edges, *sides)
        wanted = ReportAsked(cost_ratio=5)
        card = report_card(histogram, wanted=wanted, min_cell=1)
        (found,), _ = with_bootstrap([card], [histogram], replicated([histogram], 200, study), wanted, "rows")
        for point in found.operating_points:
            if point.name in true and point.interval:
                held[point.name] += point.interval.low <= true[point.name] <= point.interval.high
    by = 100 * np.sqrt(0.05 * 0.95 / studies)
    for name in held:
        assert 93 - 3 * by <= 100 * held[name] / studies <= 98 + 3 * by


def test_scores_that_are_no_probabilities_and_few_bins_are_replicated_as_they_are() -> None:
    histogram = Histogram(np.arange(-3.0, 9), np.arange(1, 12) * 20, np.arange(11, 0, -1) * 30)
    card = report_card(histogram, min_cell=1)
    found = replicated([histogram], 100, 1)
    assert found.grid.tolist() == histogram.edges[:-1].tolist()
    (one,), bootstrap = with_bootstrap([card], [histogram], found, ReportAsked(), "rows")
    assert (bootstrap.bins, bootstrap.differences) == (11, ())
    assert all(point.interval for point in one.operating_points)
    assert not any(
        point.interval
        for point in with_bootstrap([replace(card, level=None)], [histogram], found, ReportAsked(), "rows")[0][
            0
        ].operating_points
    )

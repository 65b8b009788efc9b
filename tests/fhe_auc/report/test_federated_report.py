"""A report from Python: the same card as the command's, drawn on axes that are given."""

import io
import re
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fhe_auc
from fhe_auc import EvaluationError, InputError, Report, federated_report
from fhe_auc.figures.report_card import FIGURES, draw
from fhe_auc.question import score_bins
from fhe_auc.report import FILES
from tests.support.lazy import Lazy

pd = Lazy("pandas")
Figure = Lazy("matplotlib.figure").Figure
roc_auc_score = Lazy("sklearn.metrics").roc_auc_score
roc_curve = Lazy("sklearn.metrics").roc_curve

pytestmark = pytest.mark.usefixtures("without_figures")  # in pages

GRID = np.arange(20) / 20
COLUMNS: dict[str, Any] = {"label": "died", "score": "risk", "site": "hospital"}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    random = np.random.default_rng(8)
    died = random.random(1500) < 0.4
    risk = np.floor(np.clip(random.normal(0.4 + 0.2 * died, 0.2), 0, 0.99) * 20) / 20
    sites, sexes = random.choice(["north", "south"], 1500), random.choice(["F", "M"], 1500)
    return pd.DataFrame({"hospital": sites, "died": died, "risk": risk, "sex": sexes})


@pytest.fixture(scope="module")
def report(rows: pd.DataFrame) -> Report:
    return federated_report(rows, **COLUMNS, by="sex", threshold=0.5, thresholds=GRID, title="Sepsis", min_cell=1)


def test_the_report_its_line_and_its_roc_curve_are_of_the_rows(rows: pd.DataFrame, report: Report) -> None:
    assert report.card.auc.value == pytest.approx(roc_auc_score(rows["died"], rows["risk"]), abs=1e-12)
    assert report.as_dict()["metrics"]["roc_auc"]["value"] == report.card.auc.value
    expected = [roc_auc_score(own["died"], own["risk"]) for _, own in rows.groupby("sex")]
    assert [each.auc for each in report.card.groups] == pytest.approx(expected, abs=1e-12)
    assert report.facts.title == "Sepsis"
    assert "<title>Sepsis" in report.html()
    auc, share = roc_auc_score(rows["died"], rows["risk"]), 100 * rows["died"].mean()
    line = rf"Sepsis: AUC {auc:.4f} \(95 % interval 0\.\d{{4}} to 0\.\d{{4}}, .*\); 1,500 rows, {share:.3g} % positive"
    line += "; 4 warnings, in .warnings"
    assert re.fullmatch(line, str(report))
    assert repr(report) == f"<Report: {report}>"
    axes = fhe_auc.plot_roc(report.card, Figure().subplots())
    (curve,) = [line for line in axes.lines if str(line.get_label()).startswith("classifier")]
    fpr, tpr, _ = roc_curve(rows["died"], rows["risk"], drop_intermediate=False)
    drawn = np.asarray(curve.get_xydata())
    assert np.interp(drawn[:, 0], fpr, tpr) == pytest.approx(drawn[:, 1], abs=1e-12)


def test_a_notebook_shows_metrics_groups_and_warnings_but_those_of_own_rows(rows: pd.DataFrame, report: Report) -> None:
    odd = "<script>alert(1)</script>"
    facts = replace(report.facts, title=odd, warnings=(odd,))
    shown = replace(report, facts=facts, own_warnings=("party 'north' has few rows",))._repr_html_()
    assert odd not in shown
    assert "few rows" not in shown
    cells = [re.findall("<t[dh][^>]*>([^<]*)<", row) for row in shown.split("<tr>")]
    brier, sexes = report.as_dict()["metrics"]["brier"]["value"], rows["sex"].value_counts()
    assert [row[1] for row in cells if row[:1] == ["Brier score"]] == [f"{brier:.4f}"]
    first, *_ = counts = [each.counts for each in report.card.group_decisions]
    ratios = [each.measures[0].estimate.value for each in report.card.group_calibrations]
    named = [row for row in cells if row and row[0].startswith("sex: ")]
    assert [row[:2] for row in named[:2]] == [[f"sex: {sex}", f"{sexes[sex]:,}"] for sex in ("F", "M")]
    assert [(row[0], f" {own[0]}, " in row[-1]) for row, own in zip(named[2:4], counts, strict=True)] == [
        (f"sex: {sex}", True) for sex in ("F", "M")
    ]
    assert [row[1].startswith(f"{ratio:.4f} (") for row, ratio in zip(named[4:6], ratios, strict=True)] == [True, True]
    assert {row[0] for row in named[6:]} == {
        *(f"sex: {what}" for what in ("M minus F", "F minus M", "all alike")),
        *(f"sex: {what}" for what in ("demographic parity", "equalized odds", "equal opportunity")),
    } - {"sex: M minus F" if sexes["M"] > sexes["F"] else "sex: F minus M"}
    assert sum(first) == sexes["F"]
    assert f"warning: {escape(odd)}" in shown


def test_it_is_saved_as_the_commands_and_a_pdf_of_before_does_not_stay(report: Report, tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(b"%PDF")
    saved = report.save(tmp_path)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.html()
    assert sorted(tmp_path.iterdir()) == sorted(saved)
    assert [path.name for path in saved] == [name for name in FILES if name != "report.pdf"]


def test_with_several_rows_a_patient_intervals_of_aucs_are_by_patients_and_the_page_says_so(rows: pd.DataFrame) -> None:
    rows = rows.assign(risk=(20 * rows["risk"]).round())
    repeated = pd.concat([rows] * 3).assign(patient=np.tile(np.arange(len(rows)), 3))
    asked: dict[str, Any] = {**COLUMNS, "min_cell": 1, "thresholds": "values:0:20"}
    by_rows, by_patients = federated_report(repeated, **asked), federated_report(repeated, **asked, cluster="patient")
    once = federated_report(rows, **asked)
    # Rows that are there three times say as much as once.
    found, expected = by_patients.card.interval, once.card.interval
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-3)
    assert found.low < by_rows.card.interval.low < by_rows.card.interval.high < found.high
    assert "if patients are independent" in by_patients.html()
    assert found.method.startswith("Obuchowski")
    assert any("those of AUCs alone take patients as independent" in text for text in by_patients.facts.warnings)
    assert "how many patients there are" in by_patients.facts.privacy


def test_the_frame_and_the_csv_have_the_values_of_the_json_a_line_each(report: Report) -> None:
    frame, plain = report.to_frame(), report.as_dict()
    csv = pd.read_csv(io.StringIO(report.csv()))
    assert list(csv.columns) == list(frame.columns)
    assert csv["estimate"].to_numpy() == pytest.approx(frame["estimate"].to_numpy(), nan_ok=True)
    auc = frame.iloc[0].to_dict()
    told = plain["metrics"]["roc_auc"]
    assert (auc["section"], auc["name"], auc["n"], auc["confidence"]) == ("scores", "roc_auc", 1500, 0.95)
    assert (auc["estimate"], auc["low"], auc["high"]) == (
        told["value"],
        told["interval"]["low"],
        told["interval"]["high"],
    )
    assert auc["formatted"] == f"{auc['estimate']:.3f} ({auc['low']:.3f} to {auc['high']:.3f})"
    at = frame[frame["section"] == "threshold 0.5"].set_index("name")
    for name, value in plain["decisions"]["threshold_0.5"]["metrics"].items():
        assert at.loc[name, "estimate"] == value["value"]
    groups = frame[frame["section"] == "sex"]
    assert groups["measure"].tolist() == ["AUC, F", "AUC, M"]
    assert groups["estimate"].tolist() == [round(each["auc"], 4) for each in plain["groups"]]


@pytest.mark.parametrize("thresholds", [None, "uniform:40", "quantile:40"])
def test_thresholds_asked_for_are_counted_exactly_and_move_no_other(rows: pd.DataFrame, thresholds: str | None) -> None:
    moved = rows.assign(risk=np.random.default_rng(3).permuted(rows["risk"] * 0.9 + 0.013))
    moved["died"] |= moved["risk"] > 0.6
    asked: dict[str, Any] = {**COLUMNS, "thresholds": thresholds}
    plain, found = federated_report(moved, **asked), federated_report(moved, **asked, threshold=[0.1234, 0.5])
    for decision, at in zip(found.card.chosen, [0.1234, 0.5], strict=True):
        (tn, fp), (fn, tp) = decision.confusion
        died, alarm = moved["died"], moved["risk"] >= at
        assert (tn, fp, fn, tp) == (sum(~died & ~alarm), sum(~died & alarm), sum(died & ~alarm), sum(died & alarm))
    assert found.card.measures[:2] == plain.card.measures[:2]
    assert found.card.calibration_measures == plain.card.calibration_measures
    assert str(found.facts.session["thresholds"]).startswith(thresholds or "hybrid:5000 with ")


@pytest.mark.parametrize(("top", "told"), [(4, True), (400, False)])
def test_a_warning_says_that_counts_hidden_where_scores_are_points_can_be_worked_out(top: int, told: bool) -> None:
    points = np.append(np.repeat([0.1, 0.2, 0.3], 400), [0.9] * top)
    found = federated_report([(np.arange(len(points)) % 2, points)])
    assert (found.card.histogram.bins < 4) == told
    assert any("can be worked out" in each for each in found.facts.warnings) == told


def test_a_threshold_that_cannot_be_is_refused(rows: pd.DataFrame) -> None:
    with pytest.raises(InputError, match=r"threshold 5 is asked for, but scores are from 0 to 1"):
        federated_report(rows, **COLUMNS, threshold=5, thresholds=GRID)
    points = rows.assign(risk=(rows["risk"] * 20).round())
    with pytest.raises(InputError, match=r"threshold 2\.5 is none of the values that scores have: 0 to 20"):
        federated_report(points, **COLUMNS, threshold=2.5, thresholds=score_bins.thresholds_of(range(21)))


def test_groups_do_not_go_with_noise_and_no_budget_is_spent(rows: pd.DataFrame) -> None:
    told: list[object] = []
    with pytest.raises(InputError, match="do not go with a model that adds noise"):
        federated_report(
            rows,
            **COLUMNS,
            by="sex",
            protocol="histogram-local-dp",
            epsilon=1.0,
            progress=lambda *each: told.append(each),
        )
    assert not told
    with pytest.raises(EvaluationError, match="'verified' gives the parties no score histogram"):
        federated_report(rows, **COLUMNS, protocol="verified", thresholds=GRID)


OF_REPORTS = [name for name in fhe_auc.__all__ if name.startswith("plot_") and name != "plot_forest"]


@pytest.fixture(scope="module")
def labels(report: Report) -> list[str]:
    return [draw(report, figure).axes[0].get_xlabel() for figure in FIGURES]


@pytest.mark.parametrize("name", OF_REPORTS)
def test_a_figure_is_drawn_on_the_axes_given_of_report_or_card(name: str, report: Report, labels: list[str]) -> None:
    function = getattr(fhe_auc, name)
    of_report, of_card, empty = Figure().subplots(1, 3)
    assert (function(report, ax=of_report), function(report.card, ax=of_card)) == (of_report, of_card)
    drawn = [[line.get_xydata().tolist() for line in axes.lines] for axes in (of_report, of_card)]
    assert (drawn[0], (of_report.has_data(), empty.has_data())) == (drawn[1], (True, False))
    assert of_report.get_xlabel() in labels


def test_what_a_plot_does_not_draw_is_one_sentence_and_opens_no_figure(report: Report) -> None:
    from matplotlib import pyplot

    evaluation = fhe_auc.federated_auc([([0, 1], [0.2, 0.9])], protocol="dpauc-laplace", epsilon=1.0)
    open_before = pyplot.get_fignums()
    for name in OF_REPORTS:
        with pytest.raises(InputError, match=r"^expected the report .*, got Evaluation; plot_forest draws an"):
            getattr(fhe_auc, name)(evaluation)
        with pytest.raises(InputError, match=r"^expected the report that federated_report returns, .*, got dict$"):
            getattr(fhe_auc, name)(report.as_dict())
    for other in (report, report.card):
        told = f"^expected the evaluation that federated_auc returns, got {type(other).__name__}$"
        with pytest.raises(InputError, match=told):
            fhe_auc.plot_forest(other)  # type: ignore[arg-type]
    assert pyplot.get_fignums() == open_before


def test_without_axes_pyplots_current_ones_are_drawn_on(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot

    monkeypatch.setenv("MPLBACKEND", "Agg")
    pyplot.switch_backend("Agg")
    figure = pyplot.figure()
    try:
        assert fhe_auc.plot_decision_curve(report.card).figure is figure
    finally:
        pyplot.close(figure)


def drawn_rows(scores: str) -> pd.DataFrame:
    """Rows of patients at three sites, with scores of two models."""
    random, size = np.random.default_rng(12), 2000
    died = random.random(size) < 0.2
    risk, other = (1 / (1 + np.exp(-random.normal(-2 + died, 1.2))) for _ in range(2))
    if scores == "points":
        risk, other = np.floor(10 * risk), np.floor(8 * other)
    if scores == "crowded":
        risk, other = 0.5 + risk / 5000, 0.5 + other / 3000
    places, sexes = random.choice(["a", "b", "c"], size), random.choice(["F", "M"], size)
    ids = random.integers(0, 900, size)
    return pd.DataFrame({"hospital": places, "died": died, "risk": risk, "other": other, "sex": sexes, "id": ids})


@pytest.mark.parametrize(
    ("scores", "asked"),
    [
        ("probabilities", {"thresholds": "uniform:50"}),
        *(
            pytest.param(scores, asked, marks=pytest.mark.slow)
            for scores in ("probabilities", "points", "crowded")
            for asked in ({}, {"by": "sex"}, {"cluster": "id"})
        ),
    ],
    ids=str,
)
def test_report_and_evaluation_give_one_auc_interval_and_binning_error(scores: str, asked: dict[str, Any]) -> None:
    rows = drawn_rows(scores)
    both = federated_report(rows, **{**COLUMNS, "score": ["risk", "other"]}, **asked)
    for name, card in both.cards.items():
        named = {**COLUMNS, "score": name}
        alone, expected = federated_report(rows, **named, **asked), fhe_auc.federated_auc(rows, **named, **asked)
        shown = card.groups
        assert [each.auc for each in shown] == [each.auc for each in expected.estimates[1:]]
        assert [each.interval for each in shown] == [each.interval for each in alone.card.groups]
        for found in (card, alone.card):
            assert found.auc.value == pytest.approx(expected.auc, abs=1e-15)
            of_all = expected.interval  # of merged bins; a report's is of all, and there is none where it says nothing
            ends = (0, 1) if found.interval is None else (found.interval.low, found.interval.high)
            assert of_all
            assert (of_all.low, of_all.high) == pytest.approx(ends, abs=2e-5)
            assert found.auc.half_width == pytest.approx(expected.binning_error, abs=2e-4)  # pairs of rare values
        assert card.auc.half_width > 0.01 or scores != "crowded"

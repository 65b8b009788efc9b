"""The report: the same numbers on the page and in JSON, every text escaped, figures that can be read."""

import base64
import dataclasses
import datetime
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fhe_auc import report
from fhe_auc.base.errors import EvaluationError, UndefinedAucError, UndefinedMetricError
from fhe_auc.figures.report_card import FIGURES, _shares, draw, svg
from fhe_auc.metrics import precision_recall, probabilities, ranking, recalibration
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.smooth_calibration import smooth_calibration
from fhe_auc.question import thresholds
from fhe_auc.report.page import tripod_items
from fhe_auc.results.estimates import GroupEstimate, too_few
from fhe_auc.results.group_decisions import GroupDecision
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import Interval
from fhe_auc.rows.party_data import PartyData
from tests.support import delong
from tests.support.exact_histogram import exact_histogram
from tests.support.html_page import Page
from tests.support.lazy import Lazy
from tests.support.quantile_edges import quantile_edges

sklearn_metrics = Lazy("sklearn.metrics")
expit = Lazy("scipy.special").expit
logit = Lazy("scipy.special").logit
binomtest = Lazy("scipy.stats").binomtest
norm = Lazy("scipy.stats").norm

pytestmark = pytest.mark.usefixtures("without_figures")

FACTS = report.Facts(
    title="Three sites",
    date=datetime.date(2026, 11, 23),
    privacy="Only the sum was decrypted.\n\nNothing else left a site.",
    session={
        "protocol": "histogram-federated",
        "parties": 1234,
        "proofs": True,
        "seconds": {"keys": 0.27534567, "submit": np.float64(0.5)},
        "sites": ("north", "south"),
        "epsilon": None,
        "limit": float("inf"),
    },
    warnings=("Pooled quantiles are known to parties.",),
)


HYBRID = np.append(thresholds.resolve("hybrid:1000"), 1.0)


def wanted(threshold: float) -> report.ReportAsked:
    return report.ReportAsked(threshold=(float(threshold),))


def binned(labels: Any, scores: Any, edges: Any = HYBRID) -> Histogram:
    return Histogram.from_rows(PartyData.from_arrays("a", labels, scores), edges)


def rows(kind: str = "plain") -> PartyData:
    generator, size = np.random.default_rng(8), 500 if kind == "extreme" else 4000
    scores = generator.random(size)
    extreme = expit(3 * norm.ppf(scores) - 1)
    scores = {"plain": scores, "rare": 0.05 * scores**2, "sure": np.round(scores), "extreme": extreme}[kind]
    labels = generator.random(size) < np.clip(scores, 0.002, 0.998)
    return PartyData.from_arrays("pool", labels, scores)


@lru_cache
def card(kind: str = "plain", threshold: float = 0.4, **options: Any) -> report.ReportCard:
    data = rows(kind)
    edges = HYBRID
    if kind != "extreme":
        edges = np.union1d(quantile_edges(data.y_score, 30, 10), np.arange(0, 1, 51 / 1024))
    edges = edges if edges[-1] == 1 else np.append(edges, 1.0)
    added = [threshold] * (threshold not in edges[:-1])
    counted = Histogram.from_rows(data, np.append(np.union1d(edges[:-1], added), 1.0))
    return report.report_card(counted, wanted=wanted(threshold), added=added, **options)


def test_the_json_holds_what_the_metrics_say() -> None:
    ours, of = card(), card().histogram
    plain = json.loads(json.dumps(report.as_dict([ours], FACTS), allow_nan=False))
    told = [*plain["metrics"].values(), plain["calibration"]["calibration_slope"]]
    line = recalibration.calibration_line(of)
    auc, slope = ((each["value"], each["low"], each["high"]) for each in (told[0], told[-1]))
    assert auc == tuple(getattr(ranking.roc_auc_score(of), end) for end in ("value", "low", "high"))
    assert slope == (line.slope, line.slope - line.slope_off, line.slope + line.slope_off)
    lines = {"observed_expected_ratio", "calibration_in_the_large", "calibration_slope", "calibration_intercept"}
    smooth = smooth_calibration(of)._asdict()
    assert plain["calibration"].keys() == lines | smooth.keys()
    unknown = {"low": None, "high": None, "interval": None}
    assert all(plain["calibration"][name] == {"value": value, **unknown} for name, value in smooth.items())
    of_scores = {"roc_auc", "average_precision", "ks", "expected_calibration_error", "brier", "scaled_brier"}
    assert plain["metrics"].keys() == {*of_scores, "log_loss", "normalised_entropy", "partial_auc", *RATES_HELD}
    chosen, session = plain["decisions"]["threshold_0.4"], plain["session"]
    for found, expected in (
        (plain["date"], "2026-11-23"),
        (plain["brier_decomposition"], probabilities.brier_decomposition(of)._asdict()),
        (plain["decision_curve"]["model"], precision_recall.decision_curve(of).model.tolist()),
        ((plain["rows"], plain["positive_rows"]), (4000, of.positives.sum())),
        (
            (chosen["threshold"], chosen["metrics"]["recall"]["value"]),
            (0.4, sklearn_metrics.recall_score(rows().y_true, rows().y_score >= 0.4)),
        ),
        (chosen["confusion_matrix"], sklearn_metrics.confusion_matrix(rows().y_true, rows().y_score >= 0.4).tolist()),
        (plain["decisions"]["best_f1"]["threshold"], precision_recall.best_f1_threshold(of)),
        (plain["roc_curve"]["thresholds"][0], None),
        (plain["histogram"]["positives"], of.positives.tolist()),
        ((session["seconds"], session["limit"]), ({"keys": 0.27534567, "submit": 0.5}, "inf")),
    ):
        assert found == expected


def test_the_page_holds_the_numbers_of_the_json() -> None:
    ours = card()
    texts = Page(report.render([ours], FACTS)).texts
    plain = report.as_dict([ours], FACTS)
    for estimate in [
        *plain["metrics"].values(),
        *plain["calibration"].values(),
        *plain["decisions"]["threshold_0.4"]["metrics"].values(),
        *(plain["decisions"]["recall_0.95"]["metrics"][name] for name in ("recall", "specificity", "precision", "npv")),
    ]:
        assert f"{estimate['value']:.4f}" in texts
        if estimate["interval"]:
            assert {f"{estimate['interval']['low']:.4f} to", f"{estimate['interval']['high']:.4f}"} <= set(texts)
    facts = ("Only the sum was decrypted.", "Nothing else left a site.", "Pooled quantiles", "2026-11-23")
    assert all(text in " ".join(texts) for text in facts)
    assert {"1,234", "keys: 0.275346, submit: 0.5", "north, south", "yes"} <= set(texts)


def test_every_text_is_escaped_and_what_a_page_cannot_hold_is_replaced() -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=y>\"'&amp;$title ${privacy}"
    texts = {"title": hostile, "privacy": hostile, "session": {hostile: [hostile]}, "warnings": (hostile,)}
    facts = dataclasses.replace(FACTS, **texts)
    text = report.render([card()], facts)
    page = Page(text)
    assert "<script" not in text
    assert page.texts.count(hostile) == 5
    assert {attributes["src"][:26] for tag, attributes in page.tags if tag == "img"} == {"data:image/svg+xml;base64,"}
    unfit = {"title": "a\x1b\udcff", "privacy": "b\x00", "session": {"c\udcff": "d\x7f"}, "warnings": ("e\x85",)}
    facts = dataclasses.replace(FACTS, **unfit)
    text = report.render([card()], facts)
    assert {"a��", "b�", "c�", "d�", "e�"} <= set(Page(text).texts)
    text.encode()
    json.dumps(report.as_dict([card()], facts)).encode()


def test_the_page_refers_to_nothing_outside_and_has_words_for_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # with figures
    text = report.render([card()], FACTS)
    assert not re.search("https?://", text)
    assert "default-src 'none'" in text
    page = Page(text)
    for tag, attributes in page.tags:
        assert tag not in {"script", "iframe", "object", "form"}
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith("data:")
    images = re.findall('base64,([^"]+)"', text)
    assert len(images) == len(FIGURES)
    for image in map(base64.b64decode, images):
        assert b"dc:date" not in image
        drawing = ElementTree.fromstring(image)  # noqa: S314 - our own
        links = [value for node in drawing.iter() for name, value in node.items() if name.endswith("href")]
        assert all(link.startswith("#") for link in links)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("table") == tags.count("caption") == 6
    assert all(attributes.get("scope") in {"row", "col"} for tag, attributes in page.tags if tag == "th")
    alternatives = [attributes["alt"] for tag, attributes in page.tags if tag == "img"]
    assert f"area of {card().auc.value:.3f}" in str(alternatives[0])
    assert len(set(alternatives)) == 5


@pytest.mark.parametrize("there", [True, False])
def test_the_table_of_tripod_names_places_that_are_on_the_page(there: bool) -> None:
    panels = {"groups": GROUPS, "group_decisions": DECISIONS, "sites": SITES} if there else {}
    texts = Page(report.render([dataclasses.replace(card(), **panels)], FACTS)).texts
    asked = tripod_items(groups=there, sites=there)
    places = {place for _, _, where in asked for place in where.split("; ")[0].split(", ")}
    assert ({"Groups of rows", "Sites"} <= places) == there
    assert places - set(texts) == {"all tables", "and the figures", "top of the page", "not here"} - set(texts)
    assert {"How good its decisions are", "ROC curve", "Reliability"} <= places
    for item, what, where in asked:
        assert texts.index(f"{item} {what}") < texts.index(where, texts.index(f"{item} {what}"))


def test_what_is_undefined_exact_or_without_an_interval_is_said_so() -> None:
    data = rows("rare")
    ours = report.report_card(Histogram.from_rows(data, [0, 0.01, 0.05, 1]), wanted=wanted(0.05))
    plain = report.as_dict([ours], FACTS)
    assert plain["decisions"]["threshold_0.05"]["metrics"]["precision"] is None
    assert all(each in Page(report.render([ours], FACTS)).texts for each in ("undefined", "there are no such rows"))
    facts = dataclasses.replace(FACTS, warnings=())
    texts = Page(report.render([report.report_card(Histogram([0, 0.5, 1], [0, 4], [6, 0]))], facts)).texts
    assert "nothing" in texts
    assert "Read this first" not in texts
    few = report.report_card(Histogram([0, 0.5, 1], [0, 4], [6, 0])).interval  # no pair is wrong: of the rows alone
    assert few is not None
    assert (few.method, few.high) == ("Newcombe, method 5", 1)
    for positives, negatives in (([1, 0], [3, 4]), ([1.5, 3], [4, 2])):
        ours = report.report_card(Histogram([0, 0.5, 1], positives, negatives))
        assert ours.interval is None
        assert "no confidence interval" in Page(report.render([ours], FACTS)).words


@pytest.mark.parametrize(
    ("histogram", "options", "error", "message"),
    [
        (Histogram([0, 1], [3], [0]), {}, UndefinedAucError, "no negative row"),
        (Histogram([0, 0.5, 1], [2, 3], [40, 40]), {"min_cell": 10}, EvaluationError, "fewer than 10 positives"),
    ],
)
def test_what_has_no_report_says_why(
    histogram: Histogram, options: dict[str, int], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        report.report_card(histogram, **options)


def test_the_interval_is_delongs_on_the_rows_as_bins_tell_them_apart_widened_where_these_leave_more_open() -> None:
    ours, data = card(), rows()
    at = np.searchsorted(ours.histogram.edges, data.y_score, side="right")
    auc, standard_error = delong.of_rows(at[data.y_true], at[~data.y_true])
    reach = 1.959964 * standard_error / (auc * (1 - auc))
    open_ = (at[data.y_true][:, None] == at[~data.y_true]).mean() / 2
    assert open_ > standard_error
    low, high = expit(logit(auc) - reach) - open_, expit(logit(auc) + reach) + open_
    assert ours.interval is not None
    assert (ours.interval.low, ours.interval.high) == (pytest.approx(low, abs=1e-7), pytest.approx(high, abs=1e-7))
    told = report.as_dict([ours], FACTS)["metrics"]["roc_auc"]["interval"]
    method = "DeLong, logit scale, widened by the binning error"
    assert told == {"level": 0.95, "low": ours.interval.low, "high": ours.interval.high, "method": method}
    assert f"{low:.3f} to {high:.3f} ({method})" in " ".join(Page(report.render([ours], FACTS)).texts)


def test_without_a_level_nothing_has_an_interval_and_exact_counts_say_nothing_of_noise() -> None:
    exact = Page(report.render([card()], FACTS)).words
    told = ("95 % confidence interval 0.", "(CI)", "95 % interval", "metric of the counted rows lies inside it")
    assert all(text in exact for text in (*told, "from 4,000 rows"))
    assert "noise" not in exact
    plain = report.as_dict([card(level=None)], FACTS)
    assert "There are no confidence intervals" in Page(report.render([card(level=None)], FACTS)).words
    assert (plain["noisy"], "private_curves" in plain) == (False, False)
    assert '"interval": {' not in json.dumps(plain)


@st.composite
def noisy_histograms(draw: st.DrawFn) -> Histogram:
    """Few bins, or one; counts of any sign and size, or none; perhaps a last bin of the score 1 alone."""
    inner = draw(st.lists(st.floats(0, 1), max_size=5))
    edges = np.append(np.unique([0.0, *inner, 1.0]), [1.0] * draw(st.booleans()))
    some = st.one_of(st.just(0), st.integers(-50, 100), st.integers(-(10**9), 10**12).map(lambda k: k / 2**20))
    counts = st.lists(some, min_size=len(edges) - 1, max_size=len(edges) - 1)
    return Histogram(edges, draw(counts), draw(counts))


@settings(max_examples=30, deadline=None)
@given(histogram=noisy_histograms(), threshold=st.integers(0, 6), drawn=st.just(False))
@example(histogram=Histogram([0, 0.3, 1, 1], [-3, 40, 2.5], [30, -1, 0.25]), threshold=1, drawn=True)
@example(histogram=Histogram([0, 1e-264, 1, 1], [1, 0, 0], [1, 0, 0]), threshold=0, drawn=False)
@example(histogram=Histogram([0, 1e-7, 1], [1e-9, 0], [0, 1e-9]), threshold=0, drawn=False)
def test_any_counts_make_a_report_or_an_error_that_says_why(histogram: Histogram, threshold: int, drawn: bool) -> None:
    try:
        ours = report.report_card(histogram, wanted=wanted(histogram.edges[min(threshold, histogram.bins - 1)]))
    except (UndefinedAucError, UndefinedMetricError):
        cleaned = histogram.cleaned()
        assert not (cleaned.positives.sum() > 0 and cleaned.negatives.sum() > 0)
        return
    plain = json.loads(json.dumps(report.as_dict([ours], FACTS), allow_nan=False))
    for decision in filter(None, plain["decisions"].values()):
        assert np.min(decision["confusion_matrix"]) >= 0
        assert {type(rows) for side in decision["confusion_matrix"] for rows in side} == {int}
    scaled = plain["metrics"].pop("scaled_brier")  # has no least value
    assert scaled["low"] <= scaled["value"] <= scaled["high"] <= 1
    for estimate in [*plain["metrics"].values(), *filter(None, plain["decisions"]["best_f1"]["metrics"].values())]:
        assert 0 <= estimate["low"] <= estimate["value"] <= estimate["high"]
    for axis in ("fpr", "tpr"):
        points = plain["roc_curve"][axis]
        assert (points, (points[0], points[-1])) == (sorted(points), (0, 1))
    assert plain["precision_recall_curve"]["recall"] == sorted(plain["precision_recall_curve"]["recall"], reverse=True)
    if drawn:
        Page(report.render([ours], FACTS))
        assert all(svg(report.draw(ours, name)) for name in FIGURES)


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("kind", ["plain", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("rare", "sure"))])
def test_no_text_of_a_figure_overlaps_another_and_none_has_a_colour(
    name: str, kind: str, assert_texts_apart: Callable[..., None]
) -> None:
    figure = report.draw(card(kind, threshold=0.02 if kind == "rare" else 0.4), name)
    assert_texts_apart(figure, least=11, beyond=1)
    assert np.ptp(np.asarray(figure.canvas.buffer_rgba())[..., :3].astype(int), axis=2).max() == 0


def whole_counts(plain: dict[str, Any]) -> list[float]:
    """Every count of rows in report.json, and every difference and sum of neighbours that is one."""
    histogram = plain["histogram"]
    found = [plain["rows"], plain["positive_rows"], plain["rows"] - plain["positive_rows"]]
    for side in (histogram["positives"], histogram["negatives"]):
        found += [*side, *np.cumsum(side), *np.cumsum(side[::-1])]
    for decision in filter(None, plain["decisions"].values()):
        found += [count for count in np.ravel(decision["confusion_matrix"]) if count is not None]
    positives = np.multiply(plain["calibration_curve"]["prob_true"], plain["calibration_curve"]["rows"])
    found += [*positives, *np.subtract(plain["calibration_curve"]["rows"], positives)]
    for rate, total in (("tpr", plain["positive_rows"]), ("fpr", plain["rows"] - plain["positive_rows"])):
        found += (np.diff(plain["roc_curve"][rate]) * total).tolist()
    return found


@pytest.mark.parametrize("kind", ["plain", "rare", "sure"])
@pytest.mark.parametrize("threshold", [0.0, 0.02, 0.4, 0.999, 1.0])
def test_no_count_is_small_and_json_and_page_say_what_was_merged(kind: str, threshold: float) -> None:
    ours = card(kind, threshold, min_cell=10)
    plain = report.as_dict([ours], FACTS)
    assert all(count < 1e-6 or count > 10 - 1e-6 for count in whole_counts(plain))
    bins, of_grid = ours.histogram.bins, card(kind).histogram.edges[:-1]
    before = len(of_grid) + (threshold not in of_grid)
    assert plain["small_cells"] == {"min_cell": 10, "bins": bins, "bins_before": before}
    error = plain["metrics"]["expected_calibration_error"]
    assert (error["bins"], error["strategy"]) == (10, "quantile")
    if kind != "sure":
        assert any(1 <= count < 10 for count in whole_counts(report.as_dict([card(kind, threshold)], FACTS)))
        if threshold == 0.4:
            words = Page(report.render([ours], FACTS)).words
            said = f"{bins} bins of scores, merged from {before} so that no count shown is from 1 to 9"
            assert all(each in words for each in (said, "in ten bins of equally many rows"))


def test_curves_and_counts_are_of_the_merged_bins_and_measures_of_all_rows_of_the_bins_before() -> None:
    """Merging would move measures by more than their standard errors; four digits of them tell no small count."""
    ours = card("rare", 0.02, min_cell=10)
    again = report.report_card(ours.histogram, wanted=wanted(0.02))
    told, retold, fine = (report.as_dict([each], FACTS) for each in (ours, again, card("rare", 0.02)))
    for shown in ("decisions", "roc_curve", "precision_recall_curve", "decision_curve", "histogram"):
        assert told[shown] == retold[shown]
    assert told["metrics"]["ks"]["value"] == pytest.approx(retold["metrics"]["ks"]["value"], abs=1e-4)
    for part in ("metrics", "calibration"):
        for name in fine["calibration"] if part == "calibration" else ("roc_auc", "average_precision", "brier"):
            assert told[part][name]["value"] == round(fine[part][name]["value"], 4) != retold[part][name]["value"]


@pytest.mark.parametrize(
    ("kind", "threshold"), [("plain", 0.02), ("rare", 0.02), ("sure", 0.02), ("extreme", 0.1), ("extreme", 0.5)]
)
def test_groups_of_the_reliability_diagram_are_of_whole_bins_that_are_shown(kind: str, threshold: float) -> None:
    """Else the difference between a group and the bins beside it could be a small count."""
    ours = card(kind, threshold, min_cell=10)
    found, shown = ours.calibration, ours.histogram
    positives = found.prob_true * found.rows
    for in_groups, in_bins in ((positives, shown.positives), (found.rows - positives, shown.negatives)):
        assert set(np.cumsum(in_groups).round().tolist()) <= set(np.cumsum(in_bins).tolist())
        assert ((in_groups.round() == 0) | (in_groups.round() >= 10)).all()
    exact = exact_histogram(rows(kind))
    assert found.prob_pred @ found.rows == pytest.approx(exact.counts @ exact.centres, rel=0.02)


def test_log_loss_and_brier_score_are_left_out_where_they_would_tell_of_a_few_rows() -> None:
    """One negative row with a score of 1 adds 36 nats to the sum, and would show itself."""
    counts = np.full(100, 20.0)
    edges = np.append(np.arange(101) / 100, 1.0)
    for wrong, there in ((0, True), (1, False), (9, False), (10, True)):
        histogram = Histogram(edges, np.append(counts, 50), np.append(counts, wrong))
        told = report.as_dict([report.report_card(histogram, min_cell=10)], FACTS)["metrics"]
        assert [told[name] is not None for name in ("log_loss", "normalised_entropy", "brier")] == [there, there, True]
        assert report.as_dict([report.report_card(histogram)], FACTS)["metrics"]["log_loss"] is not None
    # Of a sure model with 3 rows wrong, 0.0015 times 2,000 rows would be these 3.
    edges = np.append(np.arange(101) / 100, 1.0)
    for wrong, unsure, there in ((0, 0, True), (3, 0, False), (9, 0, False), (10, 0, True), (3, 40, True)):
        positives, negatives = np.zeros((2, 101))
        positives[[-1, 1, 50]], negatives[[0, 50]] = (1000 - wrong, wrong, unsure), (1000, unsure)
        ours = report.report_card(Histogram(edges, positives, negatives), min_cell=10)
        told = report.as_dict([ours], FACTS)["metrics"]
        assert (told["brier"] is not None) == there, wrong
        assert told["roc_auc"] is not None


def test_neither_ranges_nor_figures_tell_where_single_rows_lie() -> None:
    """One positive row in the first bin, or in the next: of ranges that start at a score of 0, one row made up half."""
    data, edges = rows(), np.linspace(0, 1, 101)
    scores, reach, shown = np.clip(data.y_score, 0.03, 1), [], set()
    for place in (0.005, 0.015):
        scores[np.argmax(data.y_true)] = place
        ours = report.report_card(binned(data.y_true, scores, edges), min_cell=10)
        measures = (*ours.measures, *ours.calibration_measures)
        reach.append({each.name: each.estimate.half_width for each in measures if each.estimate is not None})
        shown.add(str(dataclasses.astuple(ours.histogram)))
    assert len(shown) == 1
    assert math.isinf(reach[0]["log_loss"])
    assert {"brier", "calibration_slope", "log_loss"} <= reach[0].keys()
    for name, half_width in reach[0].items():
        assert half_width == pytest.approx(reach[1][name], rel=0.2), name
    (line,) = (each for each in draw(ours, "reliability").axes[0].lines if each.get_label() == "classifier")
    told = report.as_dict([ours], FACTS)["calibration_curve"]["prob_pred"]
    assert np.asarray(line.get_xdata()).tolist() == told == [round(score, 4) for score in told]


def test_parts_of_the_brier_score_take_the_mean_score_of_merged_bins() -> None:
    """By the definition over rows: scores of four bins, of which two are shown."""
    fine = Histogram([0, 0.2, 0.4, 0.7, 1], [0, 12, 5, 30], [40, 10, 5, 3])
    ours = report.report_card(fine, min_cell=10)
    at = np.searchsorted(ours.histogram.edges, [0.1, 0.3, 0.55, 0.85], side="right")
    scores, labels, groups = (
        np.concatenate([np.repeat(each, side.astype(int)) for side in (fine.positives, fine.negatives)])
        for each in (fine.centres, np.zeros(4), at)
    )
    labels[: int(fine.positives.sum())] = 1
    expected = sum(
        (groups == each).mean() * (labels[groups == each].mean() - scores[groups == each].mean()) ** 2
        for each in set(groups)
    )
    assert ours.histogram.bins < 4
    assert ours.brier.reliability == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("size", "mean", "deviation"), [(300, -0.9, 4.2), pytest.param(20_000, -6.2, 1.0, marks=pytest.mark.slow)]
)
def test_intervals_hold_what_is_true_in_19_of_20_studies(size: int, mean: float, deviation: float) -> None:
    """300 rows, 42 % positive, AUC 0.95, and 20,000 rows, 0.3 % positive, AUC 0.76; scores that are right.

    The numbers of one seed; the study has the others.
    """
    random = np.random.default_rng(3)
    quantiles = (np.arange(200_000)[::-1] + 0.5) / 200_000
    risks = expit(norm.ppf(quantiles, mean, deviation))  # of all patients
    above, share = np.cumsum(risks), risks.mean()

    def study() -> Histogram:
        scores = expit(random.normal(mean, deviation, size))
        return binned(random.random(size) < scores, scores)

    assert_intervals_hold(
        study,
        observed_expected_ratio=1,
        calibration_in_the_large=0,
        calibration_slope=1,
        calibration_intercept=0,
        roc_auc=((1 - risks) @ above) / len(risks) ** 2 / share / (1 - share),
        average_precision=(risks @ (above / np.arange(1, len(risks) + 1))) / risks.sum(),
        brier=(risks * (1 - risks)).mean(),
    )


RATES_HELD = {
    f"{one}_{held}" for one in ("sensitivity_at_specificity", "specificity_at_sensitivity") for held in ("0.90", "0.95")
}


def assert_intervals_hold(study: Callable[[], Histogram], **true: float) -> None:
    """95 % of 100 studies, within three standard errors."""
    held = defaultdict(list)
    for _ in range(100):
        ours = report.report_card(study())
        for each in (*ours.calibration_measures, *ours.measures):
            if each.name in true and each.interval is not None:
                held[each.name].append(each.interval.low <= true[each.name] <= each.interval.high)
    assert {name: len(each) for name, each in held.items()} == dict.fromkeys(true, 100)
    assert all(np.mean(each) >= 0.88 for each in held.values()), held


@pytest.mark.slow
def test_the_slopes_interval_holds_where_log_odds_are_not_linear() -> None:
    """Risks are high at both ends of the score. Fisher's errors held the slope of all patients in 84 % of studies."""
    random = np.random.default_rng(6)

    def study(size: int = 500) -> Histogram:
        logits = random.normal(0, 1.5, size)
        return binned(random.random(size) < expit(logits**2 - 2), expit(logits))

    assert_intervals_hold(study, calibration_slope=recalibration.calibration_line(study(2_000_000)).slope)


@pytest.mark.parametrize(("start", "width"), [(0.6, 0.001), (0.6, 0.02), (0.0, 1.0)])
def test_an_interval_holds_what_the_rows_have_or_is_withheld_where_scores_crowd(start: float, width: float) -> None:
    """The numbers of the rows are scikit-learn's; the line of the crowded scores is steep, and bins do not show it."""
    random = np.random.default_rng(5)
    risks = random.random(3000)
    scores, labels = start + width * risks, random.random(3000) < risks
    ours = report.report_card(binned(labels, scores), min_cell=10)
    found = {each.name: each for each in (*ours.measures, *ours.calibration_measures)}
    model = Lazy("sklearn.linear_model").LogisticRegression(C=np.inf, solver="newton-cholesky")
    line = model.fit(logit(scores)[:, None] / width, labels)
    for name, of_rows, widened in (
        ("roc_auc", sklearn_metrics.roc_auc_score(labels, scores), width < 0.1),
        ("average_precision", sklearn_metrics.average_precision_score(labels, scores), width < 0.1),
        ("brier", sklearn_metrics.brier_score_loss(labels, scores), False),
        ("scaled_brier", 1 - sklearn_metrics.brier_score_loss(labels, scores) / labels.var(), False),
        ("observed_expected_ratio", labels.sum() / scores.sum(), False),
    ):
        interval, estimate = found[name].interval, found[name].estimate
        assert interval is not None
        assert estimate is not None
        assert interval.low <= of_rows <= interval.high
        assert estimate.low <= of_rows <= estimate.high
        assert ("widened" in interval.method) == widened
    for name, of_rows in (("slope", line.coef_[0, 0] / width), ("intercept", line.intercept_[0])):
        interval = found[f"calibration_{name}"].interval
        assert (interval is None) == (width < 0.01)  # too crowded
        assert interval is None or interval.low <= of_rows <= interval.high


def test_intervals_are_wilsons_by_scipy_and_those_of_calibration_walds() -> None:
    ours = card(level=0.9)
    plain = report.as_dict([ours], FACTS)
    (tn, fp), (fn, tp) = precision_recall.confusion_matrix(ours.histogram, ours.best.threshold).tolist()
    rates = {"recall": (tp, tp + fn), "precision": (tp, tp + fp), "specificity": (tn, tn + fp), "npv": (tn, tn + fn)}
    for name, (successes, of) in {**rates, "accuracy": (tp + tn, tp + tn + fp + fn)}.items():
        theirs = binomtest(successes, of).proportion_ci(0.9, method="wilson")
        told = plain["decisions"]["best_f1"]["metrics"][name]["interval"]
        assert (told["low"], told["high"]) == (pytest.approx(theirs.low), pytest.approx(theirs.high))
        assert (told["level"], told["method"]) == (0.9, "Wilson")
    roc, calibration = plain["roc_curve"], plain["calibration_curve"]
    positives, rows_ = int(plain["positive_rows"]), int(plain["rows"])
    prevalence = [(plain["prevalence"]["value"], plain["prevalence"]["interval"]["low"], rows_)]
    for rate, low, of in [
        *zip(roc["tpr"], roc["tpr_low"], [positives] * len(roc["tpr"]), strict=True),
        *zip(roc["fpr"], roc["fpr_low"], [rows_ - positives] * len(roc["fpr"]), strict=True),
        *zip(calibration["prob_true"], calibration["prob_true_low"], map(int, calibration["rows"]), strict=True),
        *prevalence,
    ]:
        theirs = binomtest(round(rate * of), of).proportion_ci(0.9, method="wilson")
        assert low == pytest.approx(theirs.low, abs=1e-9)
    # The ratio's by simulation: of so many events as scores, mended in the large, let happen, it strays so far.
    ours = report.report_card(Histogram.from_rows(rows(), HYBRID))
    told, line = report.as_dict([ours], FACTS)["calibration"], recalibration.calibration_line(ours.histogram)
    low, high = line.slope - 1.959964 * line.slope_error, line.intercept + 1.959964 * line.intercept_error
    assert told["calibration_slope"]["interval"]["low"] == pytest.approx(low)
    assert told["calibration_intercept"]["interval"]["high"] == pytest.approx(high)
    ratio, centres, counts = told["observed_expected_ratio"], ours.histogram.centres, ours.histogram.counts.astype(int)
    risks = expit(logit(centres) + told["calibration_in_the_large"]["value"])
    drawn = np.random.default_rng(1).binomial(counts, risks, (5000, len(counts))).sum(axis=1)
    ends = np.quantile(drawn / ours.histogram.positives.sum() * ratio["value"], [0.025, 0.975])
    assert (ratio["interval"]["low"], ratio["interval"]["high"]) == pytest.approx(ends, abs=0.003)


def test_the_outlines_of_scores_hold_all_rows_and_precision_recall_curves_grow_inside_bins_as_both_counts_do() -> None:
    for kind in ("plain", "rare", "sure"):
        cells, shares = _shares(card(kind).histogram)
        assert [share.sum() for share in shares] == pytest.approx([1, 1])
        assert 0 <= cells[0] < cells[-1] <= 1
    # Davis and Goadrich (2006): half of each bin's rows; straight lines and steps are too high or too low there.
    figure = report.draw(report.report_card(Histogram([0, 0.5, 1], [2, 8], [8, 2])), "precision_recall")
    recall, precision = figure.axes[0].lines[0].get_data()
    for tp, fp in ((4, 1), (8, 2), (9, 6), (10, 10)):
        assert np.interp(tp / 10, recall, precision) == pytest.approx(tp / (tp + fp), abs=1e-9)


SITES = SiteSummary(
    **{"model": "", "both_classes": 23, "one_class": 55, "usable": 14},
    **{"within": 0.77261, "mean": 0.77154, "i2": 0.29079, "tau2": 0.04401},
    prediction=Interval(0.95, 0.65969, 0.85457, "prediction for a new site"),
    within_interval=Interval(0.95, 0.72111, 0.81222, "DeLong within sites"),
    **{"random_mean": 0.78123, "random_interval": Interval(0.95, 0.70123, 0.84456, "random effects")},
)
GROUPS = (
    GroupEstimate(
        **{"model": "", "group": "sex: <script>F", "auc": 0.751234567, "fraction": Fraction(3, 4)},
        **{"interval": Interval(0.95, 0.71, 0.79, "DeLong"), "positives": 1234, "negatives": 4321},
    ),
    GroupEstimate(model="", group="sex: M", auc=None, missing=too_few(10)),
)
DECISIONS = (GroupDecision("sex", "<script>F", (1234, 32, 43, 54)), GroupDecision("sex", "M", None))


def test_groups_and_sites_have_a_panel_each_where_there_are_any_and_names_are_escaped() -> None:
    """JSON has four digits: all digits of an AUC of finer bins would be one more equation about the merged ones."""
    plain = report.render([card()], FACTS)
    assert "Groups of rows</h2>" not in plain
    assert 'id="sites"' not in plain
    ours = dataclasses.replace(card(), groups=GROUPS, group_decisions=DECISIONS, sites=SITES)
    page = report.render([ours], FACTS)
    expected = {"sex: <script>F", "5,555", "1,234", "0.751", "CI 0.710 to 0.790", "sex: M", too_few(10)}
    assert {"TP 1,234, FP 32, FN 43, TN 54", "not shown", "sex: equalized odds"} <= set(Page(page).texts)
    expected |= {"0.773", "23", "55", "0.772", "29.1%", "0.210", "0.660 to 0.855", "0.812", "0.781"}
    assert expected | {"0.701 to", "0.721 to"} <= set(Page(page).texts)
    assert "<script>" not in page
    told = json.loads(json.dumps(report.as_dict([ours], FACTS), allow_nan=False))
    (shown, hidden), sites = told["groups"], told["sites"]
    assert (shown["auc"], shown["interval"]["high"], "fraction" in shown) == (0.7512, 0.79, False)
    assert (hidden["auc"], hidden["n"]) == (None, None)
    assert (sites["within"], sites["prediction"]["low"]) == (0.7726, 0.6597)
    assert report.as_dict([card()], FACTS)["sites"] is None

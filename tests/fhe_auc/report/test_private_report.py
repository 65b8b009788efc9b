"""The report of counts with noise: every number has an interval that contains the noise, or says why it has none."""

import csv
import datetime
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from fhe_auc import report
from fhe_auc.figures.report_card import FIGURES
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.precision_recall import decision_metrics
from fhe_auc.metrics.private_curves import CountNoise
from fhe_auc.report import words
from fhe_auc.results.intervals import Interval, noise_of_rate, wilson
from fhe_auc.results.private_measures import refined
from tests.support.html_page import Page
from tests.support.lazy import Lazy

sklearn_metrics = Lazy("sklearn.metrics")
norm = Lazy("scipy.stats").norm
pytestmark = pytest.mark.usefixtures("without_figures")

SCALE = 1 / 0.88  # of the noise on each count, about as `report --epsilon 2` has it
NOISE = CountNoise(math.sqrt(2 * math.exp(-1 / SCALE)) / -math.expm1(-1 / SCALE), SCALE)
AT = 0.1  # the threshold asked for
FACTS = report.Facts(title="Ten sites", date=datetime.date(2026, 11, 30), privacy="Noise.", session={"parties": 10})


def drawn(seed: int, rows: int, share: float = 0.0525) -> tuple[np.ndarray, np.ndarray]:
    """Labels and scores of the issue's first set: an AUC of 0.723, 105 positives of 2,000."""
    random = np.random.default_rng(seed)
    labels = random.random(rows) < share
    odds = 0.8 * (random.normal(size=rows) + math.sqrt(2) * norm.ppf(0.723) * labels) - 3
    return labels, 1 / (1 + np.exp(-odds))


def counted(labels: np.ndarray, scores: np.ndarray, inner: Any) -> Histogram:
    edges = np.concatenate(([0], np.union1d(inner, [AT]), [1]))
    return Histogram(edges, *(np.histogram(scores[labels == side], edges)[0] for side in (True, False)))


def noisy(seed: int, rows: int = 2000) -> Histogram:
    labels, scores = drawn(seed, rows)
    bins = max(6, round(0.5 * math.sqrt(rows * 0.0525)))
    exact = counted(labels, scores, np.quantile(scores, np.arange(1, bins) / bins))
    return Histogram(exact.edges, *(exact.sides + NOISE.drawn(np.random.default_rng(seed), 2, exact.bins)))


@lru_cache
def card(seed: int = 1, rows: int = 2000, **options: Any) -> report.ReportCard:
    noise = options.pop("noise", NOISE)
    wanted = report.ReportAsked(threshold=(AT,), cost_ratio=9.0, alert_rate=0.2)
    return report.report_card(noisy(seed, rows), noise=noise, wanted=wanted, **options)


@lru_cache
def population() -> dict[str, float]:
    labels, scores = drawn(9, 1_000_000)
    at = decision_metrics(counted(labels, scores, [0.05]), AT)
    return {
        "auc": 0.723,
        "average precision": sklearn_metrics.average_precision_score(labels, scores),
        "prevalence": 0.0525,
        "sensitivity": at["recall"],
        "specificity": at["specificity"],
    }


def intervals(of: report.ReportCard) -> dict[str, Interval | None]:
    at = {each.name: each.interval for each in of.chosen[0].measures}
    auc, precision, *_ = (each.interval for each in of.measures)
    names = ("auc", "average precision", "prevalence", "sensitivity", "specificity")
    return dict(zip(names, (auc, precision, of.prevalence_interval, at["recall"], at["specificity"]), strict=True))


def held(seeds: range, rows: int) -> dict[str, float]:
    """How often the intervals of reports of so many rows hold the population's numbers."""
    times = Counter[str]()
    for seed in seeds:
        found = intervals(
            report.report_card(noisy(seed, rows), noise=NOISE, wanted=report.ReportAsked(threshold=(AT,)))
        )
        times.update(name for name, each in found.items() if each and each.low <= population()[name] <= each.high)
    return {name: times[name] / len(seeds) for name in population()}


def test_the_intervals_of_the_issue_s_example_hold_the_truth() -> None:
    for name, each in intervals(card()).items():
        assert each is not None
        assert each.low <= population()[name] <= each.high
        assert each.method in ("percentiles of replicates of rows and noise", "Wilson, with noise")
        assert each.high - each.low < 0.4  # and say something
    assert abs(card().measures[1].estimate.value - population()["average precision"]) < 0.1


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("rows", [2000, 10_000])
def test_intervals_hold_the_truth_as_often_as_they_say(rows: int) -> None:
    assert all(0.9 <= share <= 1 for share in held(range(100, 160), rows).values())


PUBLIC = {"session", "level", "min_cell", "small_cells", "bins", "noise_deviation", "edges", "interval"}
"""What no noise is on: facts of the session, edges and settings; and intervals themselves."""


def unexplained(plain: Any) -> Iterator[str]:
    """Every number of report.json that has no interval, and no reason beside it or for its block."""
    for name, value in plain.items():
        reason = plain["no_interval"].get(name, "")
        if isinstance(value, dict) and name not in PUBLIC and not name.endswith("_interval"):
            yield from _inside(value, bool(reason), reason.endswith("metrics have"), name)
        elif _numbers(value) and not reason and not plain.get(f"{name}_interval"):
            yield name


def _inside(node: Any, covered: bool, but_metrics: bool, path: str) -> Iterator[str]:
    told = covered or bool(node.get("interval") or node.get("no_interval")) or isinstance(node.get("low"), list)
    for name, value in node.items():
        if isinstance(value, dict) and name not in PUBLIC:
            yield from _inside(
                value, covered and not (but_metrics and name == "metrics"), but_metrics, f"{path}/{name}"
            )
        elif _numbers(value) and not told and name not in PUBLIC:
            yield f"{path}/{name}"


def _numbers(value: Any) -> bool:
    return not isinstance(value, dict) and any(type(each) in (int, float) for each in np.ravel(value).tolist())


@pytest.mark.parametrize("kind", ["known", "no law", pytest.param("much", marks=pytest.mark.slow)])
def test_every_number_of_a_private_report_has_an_interval_or_says_why_not(kind: str) -> None:
    noise = {"known": NOISE, "no law": CountNoise(0.0), "much": CountNoise(60.0)}[kind]
    ours = card(noise=noise)
    plain = json.loads(json.dumps(report.as_dict([ours], FACTS), allow_nan=False))
    assert not [*unexplained(plain)]
    assert next(unexplained({**plain, "rows_interval": None, "no_interval": {}})) == "rows"  # the test can fail
    for line in csv.DictReader(io.StringIO(report.Report({"": ours}, FACTS).csv())):
        assert not line["estimate"] or line["note"] or (line["low"] and line["high"]), line
    assert all(each["low"] is None for each in plain["metrics"].values() if each)  # no range that noise may leave
    if kind == "no law":
        assert "its protocol does not say how large the noise is" in " ".join(words.interval_warnings(ours, 0.95))
        assert '"interval": {' not in json.dumps(plain)
    else:
        warned = " ".join(words.interval_warnings(ours, 0.95))
        assert ("there may be none" in warned) == (kind == "much")


def test_bins_that_decide_a_measure_are_in_its_interval_or_it_has_none() -> None:
    ours, coarse = card(), report.report_card(noisy(1), level=None)
    found = {each.name: each for each in (*ours.measures, *ours.calibration_measures)}
    open_ = {each.name: each.estimate for each in (*coarse.measures, *coarse.calibration_measures)}
    for name in ("brier", "scaled_brier", "observed_expected_ratio", "calibration_slope"):
        if found[name].interval is None:
            assert found[name].no_interval == "bins are too wide for an interval"
        else:
            assert found[name].interval.low < open_[name].low < open_[name].high < found[name].interval.high
            assert found[name].interval.method.endswith("widened by the binning error")
    assert found["observed_expected_ratio"].interval is not None
    assert found["brier"].interval is None


def test_scores_inside_bins_are_interpolated_so_that_few_bins_tell_how_well_scores_are_calibrated() -> None:
    labels, scores = drawn(5, 200_000)
    exact = counted(labels, scores, np.quantile(scores, np.arange(1, 6) / 6))
    fine = refined(exact)
    for own, those in zip(fine.sides, exact.sides, strict=True):
        below = np.interp(exact.edges, fine.edges, np.append(0, np.cumsum(own)))
        np.testing.assert_allclose(below[1:], np.cumsum(those), atol=0.1)
    assert fine.sides.sum() == pytest.approx(200_000)
    of = {each.name: each.estimate.value for each in report.report_card(exact, noise=NOISE, level=None).measures}
    assert of["brier"] == pytest.approx(sklearn_metrics.brier_score_loss(labels, scores), rel=5e-3)
    assert of["log_loss"] == pytest.approx(sklearn_metrics.log_loss(labels, scores), rel=5e-3)
    empty = refined(Histogram([0, 0.5, 1], [0, 3], [4, 0]))  # no edge has rows of a label on both sides
    assert empty.sides.sum(axis=1).tolist() == [3, 4]


def test_the_page_says_what_the_noise_is_and_what_intervals_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = report.report_card(Histogram([0, 0.05, 1], [30, 75], [1200, 700]))
    private, plain = (Page(report.render([each], FACTS)).words for each in (card(), exact))
    said = (
        f"off by random noise, drawn for privacy, of standard deviation {NOISE.deviation:.3g}",
        "Intervals and bands hold this noise and the chance by which rows were drawn",
        "Thresholds that the noisy counts choose",
        "above 0 by chance and by noise",
    )
    assert all(text in private and text not in plain for text in said)
    assert "range is what the bins leave open" not in private
    none = Page(report.render([card(level=None)], FACTS)).words
    assert "There are no confidence intervals" in none
    assert '"interval": {' not in json.dumps(report.as_dict([card(level=None)], FACTS))
    few = Histogram([0, 0.5, 1], [2, 30], [40, 3])  # which noise hides, and nobody merges
    assert report.report_card(few, min_cell=10, noise=NOISE, level=None).histogram.bins == 2


def test_numbers_of_rows_have_the_interval_of_the_noise_s_law() -> None:
    of = card().private
    assert of is not None
    rows, ones = of.intervals["rows"], of.intervals["positive_rows"]
    reach = norm.ppf(0.975) * NOISE.deviation * math.sqrt(2 * card().histogram.bins)
    assert (rows.low, rows.high) == pytest.approx((card().total - reach, card().total + reach))
    assert rows.low <= 2000 <= rows.high
    assert ones.high - ones.low == pytest.approx(2 * reach / math.sqrt(2))


def test_curves_and_bands_are_in_the_json_and_the_table() -> None:
    plain = report.as_dict([card()], FACTS)["private_curves"]
    for curve, (x, y) in {"roc": ("fpr", "tpr"), "precision_recall": ("recall", "precision")}.items():
        of = {name: np.array(values) for name, values in plain[curve].items()}
        assert list(of) == [x, y, "low", "high", "lowest", "highest"]
        assert (np.diff(of[x]) > 0).all()
        ordered = [of[name] for name in ("lowest", "low", y, "high", "highest")]
        assert (np.diff(ordered, axis=0) >= -1e-9).all()
    lines = [*csv.DictReader(io.StringIO(report.Report({"": card()}, FACTS).csv()))]
    own = [each for each in lines if each["name"] == "tpr_at_fpr_0.10"]
    assert [each["method"].partition(", ")[2] for each in own] == ["of this point", "of the whole curve"]
    point = plain["roc"]["fpr"].index(pytest.approx(0.1))
    assert float(own[0]["estimate"]) == plain["roc"]["tpr"][point]
    assert float(own[1]["low"]) == plain["roc"]["lowest"][point]


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("level", [0.95, pytest.param(None, marks=pytest.mark.slow)])
def test_no_text_of_a_noisy_figure_overlaps_another(
    name: str, level: float | None, assert_texts_apart: Callable[..., None]
) -> None:
    assert_texts_apart(report.draw(card(level=level), name), least=11, beyond=1)


@pytest.mark.slow
def test_noise_that_is_larger_than_the_rows_leaves_wide_intervals_or_none() -> None:
    much = CountNoise(30.0)
    sides = np.abs(much.drawn(np.random.default_rng(2), 2, 8))
    ours = report.report_card(Histogram(np.linspace(0, 1, 9), *sides), noise=much)
    precision = ours.measures[1].interval
    assert precision is None or precision.high - precision.low > 0.3
    assert not [*unexplained(report.as_dict([ours], FACTS))]


@pytest.mark.parametrize(("p", "positives", "deviation"), [(0.97, 105, 3.0), (0.5, 400, 12.0), (0.05, 300, 8.0)])
def test_wilsons_interval_with_noise_ends_where_the_rate_is_so_far_off_and_holds_it(
    p: float, positives: int, deviation: float
) -> None:
    random = np.random.default_rng(4)
    hits = random.binomial(positives, p, 4000)
    k = np.clip(
        hits + random.normal(0, deviation * (1 - p), 4000) + random.normal(0, deviation * p, 4000), 0, positives
    )
    varied = noise_of_rate(k / positives, deviation**2, deviation**2)
    low, high = wilson(k, positives, 0.95, varied)
    assert 0.93 <= ((low <= p) & (p <= high)).mean() <= 0.985
    for end in (low[0], high[0]):
        reach = norm.ppf(0.975) * math.sqrt(end * (1 - end) / positives + varied[0] / positives**2)
        assert end in (0, 1) or abs(k[0] / positives - end) == pytest.approx(reach)


def test_bands_of_calibration_and_net_benefit_are_as_wide_as_noise_and_rows_make_them() -> None:
    labels, scores = drawn(3, 10_000)
    edges = np.concatenate(([0], np.quantile(scores, np.arange(1, 9) / 9), [1]))
    exact = Histogram(edges, *(np.histogram(scores[labels == side], edges)[0] for side in (True, False)))
    much = CountNoise(20.0)
    ours = report.report_card(exact, noise=much)
    shares = exact.sides.ravel() / exact.counts.sum()
    random, found = np.random.default_rng(1), []
    for _ in range(400):
        sides = random.multinomial(10_000, shares) + much.drawn(random, shares.size)
        positives, negatives = sides.reshape(2, -1)
        above = [np.cumsum(each[::-1])[::-1] for each in (positives, negatives)]
        benefit = (above[0] - above[1] * exact.edges[:-1] / (1 - exact.edges[:-1])) / sides.sum()
        found.append((positives / (positives + negatives), benefit))
    spread = 2 * norm.ppf(0.975) * np.std(found, axis=0)
    for band, expected in ((ours.observed_band, spread[0][-2:]), (ours.net_benefit_band, spread[1])):
        assert band is not None
        np.testing.assert_allclose((band.high - band.low)[-len(expected) :], expected, rtol=0.15)


@pytest.mark.parametrize("top", [[1.0], [1.0, 1.0]])
def test_scores_of_a_confident_model_and_ties_have_a_report(top: list[float]) -> None:
    """Edges beyond the reach of log odds, a bin of the score 1, and bins without rows."""
    edges = np.array([0, 1e-12, 1e-9, 1e-9 + 1e-24, 0.2, 1 - 1e-7, 1 - 1e-12, *top])
    positives, negatives = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    positives[-3:], negatives[:4] = 40, 300
    fine = refined(Histogram(edges, positives, negatives))
    below = [np.interp(edges[1:-1], fine.edges, np.append(0, np.cumsum(side))) for side in fine.sides]
    assert set(edges) <= set(fine.edges)
    np.testing.assert_allclose(below[1][[1, -1]], [600, 1200], atol=1)
    noise = NOISE.drawn(np.random.default_rng(5), 2, len(positives))
    ours = report.report_card(Histogram(edges, positives + noise[0], negatives + noise[1]), noise=NOISE)
    assert not [*unexplained(report.as_dict([ours], FACTS))]
    for each in (*ours.measures, *ours.calibration_measures):
        if each.interval and each.estimate:
            assert each.interval.low <= each.estimate.value <= each.interval.high, each.name
        if each.name in ("ks", "ici", "emax") and each.estimate:
            assert 0 <= each.estimate.value <= 1


def test_a_reversed_model_has_a_ks_statistic_of_0_inside_its_interval() -> None:
    positives, negatives = np.zeros(6), np.full(6, 300.0)
    positives[0], negatives[0] = 100, 0
    found = report.report_card(Histogram(np.linspace(0, 1, 7), positives, negatives), noise=NOISE)
    ks = next(each for each in found.measures if each.name == "ks")
    assert ks.estimate is not None
    assert ks.estimate.value == 0
    assert ks.interval is None or ks.interval.low <= 0 <= ks.interval.high

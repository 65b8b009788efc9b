"""Metrics from score histograms: scikit-learn's to the last digits where the bins are exact, bounded where not.

What is one division of counts equals scikit-learn's to the last bit; sums of fractions, taken in another order, to
`EXACT`.
"""

import warnings
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, UndefinedAucError, UndefinedMetricError
from fhe_auc.metrics import precision_recall, probabilities, ranking, recalibration
from fhe_auc.metrics.histogram import Estimate, Histogram
from fhe_auc.metrics.trapezoid import auc_of_rows
from fhe_auc.rows.party_data import PartyData
from tests.support.exact_histogram import exact_histogram
from tests.support.lazy import Lazy

expit = Lazy("scipy.special").expit
sklearn_metrics = Lazy("sklearn.metrics")
isotonic_regression = Lazy("sklearn.isotonic").isotonic_regression

EXACT = 1e-12


Rows = NDArray[Any]


def sklearn_log_loss(labels: Rows, scores: Rows) -> float:
    return float(sklearn_metrics.log_loss(labels, scores, labels=[0, 1]))


OF_SCORES: dict[str, tuple[Callable[[Histogram], Estimate], Callable[[Rows, Rows], float]]] = {
    "roc_auc": (ranking.roc_auc_score, sklearn_metrics.roc_auc_score),
    "average_precision": (ranking.average_precision_score, sklearn_metrics.average_precision_score),
    "ks": (ranking.ks_statistic, lambda y, s: float(Lazy("scipy.stats").ks_2samp(s[y], s[~y]).statistic)),
    "log_loss": (probabilities.log_loss, sklearn_log_loss),
    "normalised_entropy": (
        probabilities.normalised_entropy,
        lambda y, s: sklearn_log_loss(y, s) / sklearn_log_loss(y, np.full(len(y), y.mean())),
    ),
    "brier": (probabilities.brier_score_loss, sklearn_metrics.brier_score_loss),
}

OF_DECISIONS: dict[str, Callable[[Rows, Rows], float]] = {
    "precision": lambda y, p: sklearn_metrics.precision_score(y, p, zero_division=0),
    "recall": sklearn_metrics.recall_score,
    "npv": lambda y, p: sklearn_metrics.precision_score(y, p, pos_label=0, zero_division=0),
    "specificity": lambda y, p: sklearn_metrics.recall_score(y, p, pos_label=0),
    "accuracy": sklearn_metrics.accuracy_score,
    "balanced_accuracy": sklearn_metrics.balanced_accuracy_score,
    "f1": sklearn_metrics.f1_score,
}


def make_rows(seed: int, rows: int = 400, digits: int = 2) -> PartyData:
    """Scores with many ties; 0 and 1 are among them."""
    generator = np.random.default_rng(seed)
    labels = generator.random(rows) < 0.35
    scores = np.round(expit(1.5 * labels - 0.6 + 1.2 * generator.standard_normal(rows)), digits)
    labels[:4], scores[:4] = [True, False, True, False], [1, 0, 0, 1]
    return PartyData.from_arrays("rows", labels, scores)


@st.composite
def rows_of_both_labels(draw: st.DrawFn, lowest: float = 0, highest: float = 1) -> PartyData:
    """Few rows, scores with ties and extremes."""
    size = draw(st.integers(2, 25))
    some = st.one_of(
        st.sampled_from([lowest, highest, (lowest + highest) / 2]),
        st.floats(lowest, highest, allow_subnormal=False),
        st.integers(0, 8).map(lambda k: lowest + (highest - lowest) * k / 8),
    )
    scores = draw(st.lists(some, min_size=size, max_size=size))
    labels = [True, False, *draw(st.lists(st.booleans(), min_size=size - 2, max_size=size - 2))]
    return PartyData.from_arrays("rows", labels, scores)


def edges_over(lowest: float, highest: float) -> st.SearchStrategy[NDArray[np.float64]]:
    inner = st.lists(st.one_of(st.floats(lowest, highest), st.just((lowest + highest) / 2)), max_size=8)
    return inner.map(lambda inside: np.unique([lowest, *inside, highest]))


def test_decisions_equal_scikit_learns_at_every_distinct_score() -> None:
    data = make_rows(0, rows=60)
    histogram = exact_histogram(data)
    for threshold in np.unique(data.y_score):
        found, predicted = precision_recall.decision_metrics(histogram, float(threshold)), data.y_score >= threshold
        expected = {name: theirs(data.y_true, predicted) for name, theirs in OF_DECISIONS.items()}
        assert found == pytest.approx(expected | {"npv": None} if predicted.all() else expected, abs=EXACT)
        matrix = sklearn_metrics.confusion_matrix(data.y_true, predicted)
        assert precision_recall.confusion_matrix(histogram, float(threshold)).tolist() == matrix.tolist()


@given(data=rows_of_both_labels(-3, 5))
def test_the_auc_of_rows_and_of_an_exact_histogram_is_the_fraction_of_pairs(data: PartyData) -> None:
    positives, negatives = data.y_score[data.y_true], data.y_score[~data.y_true]
    twice = sum(2 * int((negatives < score).sum()) + int((negatives == score).sum()) for score in positives)
    assert auc_of_rows(data.y_true, data.y_score) == Fraction(twice, 2 * len(positives) * len(negatives))
    assert ranking.roc_auc_score(exact_histogram(data)).value == float(auc_of_rows(data.y_true, data.y_score))


@settings(max_examples=30)
@given(data=rows_of_both_labels(), edges=edges_over(0, 1))
def test_the_range_of_a_metric_holds_scikit_learns_value_and_is_it_in_exact_bins(data: PartyData, edges: Rows) -> None:
    exact, binned = exact_histogram(data), Histogram.from_rows(data, edges)
    for name, (ours, theirs) in OF_SCORES.items():
        estimate, expected = ours(binned), theirs(data.y_true, data.y_score)
        assert ours(exact).value == pytest.approx(expected, rel=1e-11, abs=EXACT), name
        assert estimate.low - 1e-9 <= expected <= estimate.high + 1e-9, name
        assert abs(estimate.value - expected) <= estimate.half_width + 1e-9, name
        assert estimate.low <= estimate.value <= estimate.high, name


def test_curves_equal_scikit_learns_point_by_point() -> None:
    data = make_rows(1)
    histogram = exact_histogram(data)
    for ours, theirs in (
        (ranking.roc_curve(histogram), sklearn_metrics.roc_curve(data.y_true, data.y_score, drop_intermediate=False)),
        (ranking.precision_recall_curve(histogram), sklearn_metrics.precision_recall_curve(data.y_true, data.y_score)),
    ):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_confusion_matrix_has_whole_rows_that_add_up_where_counts_carry_noise_too() -> None:
    found = precision_recall.confusion_matrix(Histogram([0, 0.5, 1], [2.4, 7.7], [10.6, 5.2]), 0.5)
    assert found.tolist() == [[11, 5], [2, 8]]
    assert found.dtype == np.int64


def test_average_precision_reaches_its_ends_and_is_scikit_learns_of_points_in_finer_bins() -> None:
    edges, labels = [0, 0.5, 1], np.repeat([True, False, True, False], [3, 2, 2, 4])
    lower, upper = np.arange(5) / 20, 0.5 + np.arange(6) / 20
    worst = np.concatenate([lower[:3], lower[3:], upper[:2], upper[2:]])  # negatives of each bin above its positives
    best = np.concatenate([np.full(3, 0.4), lower[:2], np.full(2, 0.9), upper[:4]])
    estimate = ranking.average_precision_score(Histogram(edges, [3, 2], [2, 4]))
    assert estimate.low == pytest.approx(sklearn_metrics.average_precision_score(labels, worst), abs=EXACT)
    assert estimate.high == pytest.approx(sklearn_metrics.average_precision_score(labels, best), abs=EXACT)
    # Rows of a bin between empty ones share their score: they come at once, not one by one.
    generator = np.random.default_rng(4)
    labels = generator.random(800) < 0.3
    points = generator.binomial(10, np.where(labels, 0.6, 0.4)) / 10
    histogram = Histogram.from_rows(PartyData.from_arrays("rows", labels, points), np.arange(1001) / 1000)
    expected = sklearn_metrics.average_precision_score(labels, points)
    assert ranking.average_precision_score(histogram).value == pytest.approx(expected, abs=EXACT)


def test_errors_are_those_of_the_bootstrap_and_the_bias_what_rows_count_in_their_own_precision() -> None:
    data, generator = make_rows(3, 1500, 17), np.random.default_rng(8)
    histogram = exact_histogram(data)
    rows = generator.integers(0, 1500, (200, 1500))
    for error, of_rows in (
        (ranking.average_precision_error, sklearn_metrics.average_precision_score),
        (probabilities.brier_score_error, sklearn_metrics.brier_score_loss),
    ):
        drawn = [of_rows(data.y_true[each], data.y_score[each]) for each in rows]
        assert error(histogram) == pytest.approx(np.std(drawn), rel=0.1)
    # By the definition, row by row: each counts as the average precision says, and not as the 1 that it is.
    generator = np.random.default_rng(2)
    data = PartyData.from_arrays("rows", generator.random(400) < 0.2, generator.random(400))  # no two scores are equal
    order = np.argsort(-data.y_score)
    labels, scores = data.y_true[order], data.y_score[order]
    value = sklearn_metrics.average_precision_score(labels, scores)
    places = np.arange(1, len(labels) + 1)
    without = ((np.cumsum(labels) - 1 + value) / places)[labels].mean()
    found = ranking.average_precision_bias(exact_histogram(data))
    assert found == pytest.approx(value - without, abs=EXACT)


def test_the_best_f1_and_operating_points_are_the_best_on_scikit_learns_curve() -> None:
    data = make_rows(0)
    histogram = exact_histogram(data)
    threshold = precision_recall.best_f1_threshold(histogram)
    precision, recalls, thresholds = sklearn_metrics.precision_recall_curve(data.y_true, data.y_score)
    f1 = 2 * precision[:-1] * recalls[:-1] / np.maximum(precision[:-1] + recalls[:-1], 1e-300)
    assert precision_recall.decision_metrics(histogram, threshold)["f1"] == pytest.approx(f1.max(), abs=EXACT)
    assert threshold in thresholds
    fpr, tpr, _ = sklearn_metrics.roc_curve(data.y_true, data.y_score, drop_intermediate=False)
    for least in [0.5, 0.9, 0.95]:
        found = precision_recall.decision_metrics(
            histogram, precision_recall.threshold_of_specificity(histogram, least)
        )
        assert found["specificity"] >= least
        assert found["recall"] == tpr[1 - fpr >= least].max()
        found = precision_recall.decision_metrics(histogram, precision_recall.threshold_of_recall(histogram, least))
        assert found["recall"] >= least
        assert found["specificity"] == pytest.approx(1 - fpr[tpr >= least].min(), abs=EXACT)


def test_a_specificity_that_is_nine_of_ten_is_reached_in_spite_of_rounding_unless_the_highest_bin_spoils_it() -> None:
    histogram = Histogram([0, 0.5, 1], [1, 9], [9, 1])
    assert precision_recall.threshold_of_specificity(histogram, 0.9) == 0.5
    assert precision_recall.threshold_of_recall(histogram, 0.9) == 0.5
    assert precision_recall.threshold_of_specificity(Histogram([0, 0.5, 1], [1, 9], [5, 5]), 0.9) is None


def test_the_parts_of_the_brier_score_are_murphys_and_add_up() -> None:
    """By rows: one group for each forecast."""
    data = make_rows(2)
    found = probabilities.brier_decomposition(exact_histogram(data))
    share, rows = data.y_true.mean(), len(data.y_true)
    groups = [(score, data.y_true[data.y_score == score]) for score in np.unique(data.y_score)]
    assert found.reliability == pytest.approx(sum(len(y) * (s - y.mean()) ** 2 for s, y in groups) / rows, abs=EXACT)
    assert found.resolution == pytest.approx(sum(len(y) * (share - y.mean()) ** 2 for _, y in groups) / rows, abs=EXACT)
    assert found.uncertainty == pytest.approx(share * (1 - share), abs=EXACT)
    brier = sklearn_metrics.brier_score_loss(data.y_true, data.y_score)
    assert found.reliability - found.resolution + found.uncertainty == pytest.approx(brier, abs=EXACT)


@given(
    true=st.lists(st.integers(0, 20), min_size=1, max_size=12),
    noise=st.lists(st.floats(-30, 30), min_size=12, max_size=12) | st.just([0.0] * 12),
)
def test_the_clean_up_is_the_nearest_by_least_squares_with_no_larger_error(true: list[int], noise: list[float]) -> None:
    noisy = np.array(true) + np.array(noise[: len(true)])
    histogram, total = Histogram(np.arange(len(true) + 1), noisy, np.zeros(len(true))), noisy.sum()
    cleaned = histogram.cleaned().positives
    assert (cleaned >= 0).all()
    assert cleaned.sum() == pytest.approx(max(0, total), abs=1e-9)
    if noisy.min() >= 0:
        assert histogram.cleaned() is histogram
    if total > 0:
        expected = isotonic_regression(np.cumsum(noisy)[:-1], y_min=0, y_max=total) if len(true) > 1 else []
        np.testing.assert_allclose(np.cumsum(cleaned)[:-1], expected, rtol=0, atol=1e-9)
        before, after = (np.abs(np.cumsum(counts) - np.cumsum(true)).max() for counts in (noisy, cleaned))
        assert after <= before + 1e-9


@settings(max_examples=30)
@given(p=st.lists(st.floats(-50, 100), min_size=6, max_size=6), n=st.lists(st.floats(-50, 100), min_size=6, max_size=6))
@example(p=[0.0] * 6, n=[0.0, -1.9969193780180063, 2.0, 29.0, 100.0, -0.22781447784607423])  # sums exceed their total
def test_metrics_of_noisy_counts_stay_in_range_or_say_why_not(p: list[float], n: list[float]) -> None:
    histogram = Histogram(np.linspace(0, 1, 7), p, n)
    values = precision_recall.decision_metrics(histogram, histogram.edges[3]).values()
    estimates = [Estimate(value, value, value) for value in values if value is not None]
    for ours, _ in OF_SCORES.values():
        with suppress(UndefinedAucError, UndefinedMetricError):
            estimates.append(ours(histogram))
    for estimate in estimates:
        assert 0 <= estimate.low <= estimate.value <= estimate.high
        assert np.isfinite(estimate.high)
    if sum(p) > 0 and sum(n) > 0:
        rates = np.stack(ranking.roc_curve(histogram)[:2])
        assert (np.diff(rates) >= 0).all()
        assert rates[:, -1].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("positives", "negatives", "missing", "decisions"),
    [
        ([0, 0], [1, 2], "positive", {"precision", "npv", "specificity", "accuracy"}),
        ([1, 2], [3, -4], "negative", {"precision", "npv", "recall", "f1", "accuracy"}),
        ([0, 0], [-1, 0], "positive", set()),
    ],
)
def test_without_rows_of_a_label_most_metrics_have_no_value(
    positives: list[int], negatives: list[int], missing: str, decisions: set[str]
) -> None:
    histogram = Histogram([0, 0.5, 1], positives, negatives)
    for ours in (
        *(ranking.roc_auc_score, ranking.roc_curve, ranking.precision_recall_curve, ranking.average_precision_score),
        *(ranking.ks_statistic, probabilities.normalised_entropy, precision_recall.best_f1_threshold),
        recalibration.calibration_line,
    ):
        with pytest.raises(UndefinedAucError, match=f"no {missing} row, so there is no AUC; add rows of both labels"):
            ours(histogram)
    found = precision_recall.decision_metrics(histogram, 0.5)
    assert {name for name, value in found.items() if value is not None} == decisions
    if not decisions:
        for ours in (probabilities.log_loss, probabilities.brier_score_loss, precision_recall.decision_curve):
            with pytest.raises(UndefinedMetricError, match="the histogram holds no row"):
                ours(histogram)


def test_scores_outside_the_bins_or_0_to_1_and_thresholds_that_are_no_numbers_are_refused() -> None:
    histogram = Histogram([-2, 0, 2], [1, 2], [2, 1])
    for ours in (
        *(probabilities.log_loss, probabilities.brier_score_loss, probabilities.normalised_entropy),
        *(precision_recall.decision_curve, recalibration.calibration_line, recalibration.calibration_in_the_large),
        recalibration.observed_expected_ratio,
    ):
        with pytest.raises(InputError, match=r"from -2\.0 to 2\.0; scores must be probabilities"):
            ours(histogram)
    assert ranking.roc_auc_score(histogram).value == pytest.approx(0.5 + 1 / 6)
    data = PartyData.from_arrays("north", [0, 1], [0.5, 1.25])
    assert Histogram.from_rows(data, [0, 0.5, 1]).counts.tolist() == [0, 2]  # the end bins are open
    for threshold in (np.nan, np.inf):
        with pytest.raises(InputError, match="is no edge of the histogram"):
            precision_recall.decision_metrics(Histogram([0, 1], [1], [1]), threshold)


@pytest.mark.parametrize(
    ("edges", "positives", "message"),
    [
        ([0, 0.5, 0.4, 1], [1, 1, 1], r"edge 2 is 0\.4 after 0\.5"),
        ([0, 0, 1], [1, 1], r"edge 1 is 0\.0 after 0\.0"),
        ([0, np.nan, 1], [1, 1], "entry 1 of edges is nan"),
        ([0], [], "at least 2 edges"),
        ([0, 0.5, 1], [1], "2 bins, but 1 positives"),
        ([0, 0.5, 1], [1, np.inf], "entry 1 of positives is inf"),
        ([0, 0.5, 1], [1e308, 1e308], "sum of the positives is too large"),
        ([0, 0.5, 1], [[1, 1]], "must be one-dimensional"),
        ([0, 0.5, 1], ["1", "2"], "must be one-dimensional numbers"),
        ([0, 0.5, 1], [[1], [1, 2]], "must be one-dimensional numbers"),
    ],
)
def test_what_cannot_be_a_histogram_is_refused(edges: list[float], positives: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Histogram(edges, positives, [1] * max(1, len(edges) - 1))


def test_histograms_are_frozen_and_silent_and_no_metric_warns_on_extreme_ones() -> None:
    positives = np.array([71.0, 2.0])
    histogram = Histogram([0, 0.5, 1], positives, [3, 4])
    positives[0] = 0
    assert histogram.positives[0] == 71
    with pytest.raises(ValueError, match="read-only"):
        histogram.positives[0] = 0
    assert repr(histogram) == "Histogram(bins=2)"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for p, n in (([0, 0, 5], [7, 0, 0]), ([1e15, 0, 0], [0, 0, 1e15]), ([1e-9, 0, 0], [0, 0, 1e-9])):
            histogram = Histogram([0, 1e-300, 1, 1], p, n)
            for ours, _ in OF_SCORES.values():
                ours(histogram)
            precision_recall.decision_metrics(histogram, 1e-300)


def test_net_benefit_is_its_definition_over_rows_and_that_of_treating_all_0_at_the_prevalence() -> None:
    generator = np.random.default_rng(6)
    scores = np.round(generator.random(300), 2)
    data = PartyData.from_arrays("rows", generator.random(300) < scores, scores)
    edges = np.append(np.arange(0, 100, 5) / 100, [1.0, 1.0])  # the last bin is the score 1 alone
    curve = precision_recall.decision_curve(Histogram.from_rows(data, edges))
    assert curve.thresholds.tolist() == edges[:-2].tolist()
    for threshold, model, treat_all in zip(*curve, strict=True):
        odds = Fraction(threshold) / (1 - Fraction(threshold))
        for treated, found in ((data.y_score >= threshold, model), (np.ones(300, bool), treat_all)):
            tp, fp = int((treated & data.y_true).sum()), int((treated & ~data.y_true).sum())
            assert found == pytest.approx(float((tp - fp * odds) / 300), abs=1e-12)
    # Treating all is worth nothing at the share of positive rows (Vickers and Elkin, 2006).
    curve = precision_recall.decision_curve(Histogram([0, 0.25, 0.5, 1], [10, 5, 10], [60, 10, 5]))
    assert curve.treat_all[1] == pytest.approx(0, abs=1e-12)

"""Calibration from histograms: reliability diagrams, calibration error, and Bayesian binning into quantiles."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, UndefinedMetricError
from fhe_auc.metrics import recalibration
from fhe_auc.metrics.calibration import CalibrationMap, bayesian_binning, calibration_curve, expected_calibration_error
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.smooth_calibration import smooth_calibration
from fhe_auc.question import thresholds as grids
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from tests.support.exact_histogram import exact_histogram
from tests.support.lazy import Lazy

sklearn_calibration_curve = Lazy("sklearn.calibration").calibration_curve


def distorted(rows: int, seed: int = 5) -> PartyData:
    """Scores that are too sure of themselves: the share of positives at score s is 0.25 + 0.5 s."""
    generator = np.random.default_rng(seed)
    scores = generator.beta(0.8, 0.8, rows)
    return PartyData.from_arrays("pool", generator.random(rows) < 0.25 + 0.5 * scores, scores)


def ece_of_rows(data: PartyData, scores: np.ndarray, n_bins: int = 10) -> float:
    """Return the calibration error by its definition, in scikit-learn's bins between quantiles."""
    ends = np.percentile(scores, 100 * np.linspace(0, 1, n_bins + 1))
    bins = np.searchsorted(ends[1:-1], scores)
    in_bins = (bins == k for k in np.unique(bins))
    return float(sum(own.mean() * abs(data.y_true[own].mean() - scores[own].mean()) for own in in_bins))


@pytest.mark.parametrize("digits", [1, 2, 17])
@pytest.mark.parametrize("n_bins", [1, 8, 10])
def test_diagram_and_error_of_exact_histograms_are_scikit_learns_and_the_definitions(digits: int, n_bins: int) -> None:
    """With few digits many scores are equal, and lie where evaluation bins end."""
    data = distorted(2000)
    data = PartyData.from_arrays("pool", data.y_true, np.round(data.y_score, digits))
    ours = calibration_curve(exact_histogram(data), n_bins=n_bins)
    theirs = sklearn_calibration_curve(data.y_true, data.y_score, n_bins=n_bins, strategy="quantile")
    np.testing.assert_array_equal(ours.prob_true, theirs[0])
    np.testing.assert_allclose(ours.prob_pred, theirs[1], rtol=0, atol=1e-12)
    assert ours.rows.sum() == 2000
    estimate = expected_calibration_error(exact_histogram(data), n_bins=n_bins)
    assert estimate.value == pytest.approx(ece_of_rows(data, data.y_score, n_bins), abs=1e-12)
    assert estimate.half_width < 1e-12


def test_ends_between_bins_leave_the_range_narrow() -> None:
    """Ten ranges of 100 rows in bins of ten each: every quantile falls between two bins, and splits none."""
    scores = np.arange(1000) / 1000 + 0.0005
    data = PartyData.from_arrays("pool", np.random.default_rng(4).random(1000) < scores, scores)
    estimate = expected_calibration_error(Histogram.from_rows(data, np.arange(101) / 100))
    assert estimate.half_width == pytest.approx(0.005)
    split = expected_calibration_error(Histogram.from_rows(data, np.arange(100) / 99))
    assert split.half_width > 0.03


@given(
    scores=st.lists(st.one_of(st.integers(0, 1000), st.integers(0, 12).map(lambda k: 250 * k // 3)), min_size=1),
    fine=st.integers(1, 30),
    n_bins=st.integers(1, 6),
    seed=st.integers(0, 99),
)
def test_the_range_holds_the_rows_own_calibration_error(scores: list[int], fine: int, n_bins: int, seed: int) -> None:
    labels = np.random.default_rng(seed).random(len(scores)) < 0.5
    data = PartyData.from_arrays("pool", labels, np.array(scores) / 1000)
    histogram = Histogram.from_rows(data, np.arange(fine + 1) / fine)
    estimate = expected_calibration_error(histogram, n_bins=n_bins)
    expected = ece_of_rows(data, data.y_score, n_bins)
    assert estimate.low - 1e-9 <= expected <= estimate.high + 1e-9


def reference_cuts(counts: list[int], bins: int) -> list[int]:
    """Return where merged bins begin: after each equal part of the rows, of which a bin counts for one part at most."""
    filled = sorted((count for count in counts if count), reverse=True)
    parts = [Fraction(sum(filled[large:]), bins - large) for large in range(bins)]
    part = next(part for part, largest in zip(parts, filled, strict=False) if largest <= part)
    assert sum(min(count, part) for count in counts) == bins * part
    cuts, reached = [0], Fraction(0)
    for k, count in enumerate(counts[:-1]):
        before, reached = reached, reached + min(count, part)
        if reached // part > before // part and any(counts[k + 1 :]):
            cuts.append(k + 1)
    return cuts


def reference_bbq(data: PartyData, edges: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Bayesian binning into quantiles, straight from the rows and the paper, with bins that end at given edges."""
    total = len(data.y_score)
    index = np.minimum(np.searchsorted(edges, data.y_score, side="right") - 1, len(edges) - 2)
    at = np.minimum(np.searchsorted(edges, scores, side="right") - 1, len(edges) - 2)
    occupied = len(set(index.tolist()))
    weights, answers = [], []
    for bins in range(max(1, math.floor(total ** (1 / 3) / 10)), min(math.ceil(10 * total ** (1 / 3)), occupied) + 1):
        cuts = reference_cuts(np.bincount(index, minlength=len(edges) - 1).tolist(), bins)
        score, answer = 0.0, np.zeros(len(scores))
        for first, end in zip(cuts, [*cuts[1:], len(edges) - 1], strict=True):
            inside = (index >= first) & (index < end)
            m, n = int(data.y_true[inside].sum()), int((~data.y_true[inside]).sum())
            prior = min(max((edges[first] + edges[end]) / 2, 0.005), 0.995)
            a, b = 2 * prior, 2 * (1 - prior)
            score += math.lgamma(2) - math.lgamma(m + n + 2)
            score += math.lgamma(m + a) - math.lgamma(a) + math.lgamma(n + b) - math.lgamma(b)
            answer[(at >= first) & (at < end)] = (m + a) / (m + n + 2)
        weights.append(score)
        answers.append(answer)
    likelihoods = np.exp(np.array(weights) - max(weights))
    return likelihoods @ np.array(answers) / likelihoods.sum()


def test_bayesian_binning_equals_a_straightforward_program_and_merges_what_lies_beyond_all_rows() -> None:
    low = distorted(300)
    low = PartyData.from_arrays("low", low.y_true, np.minimum(low.y_score / 4, 0.2))  # a spike at the end
    scores = np.linspace(0, 1, 301)
    for data, fine in ((distorted(60), 16), (distorted(700), 64), (distorted(1500), 40), (low, 32)):
        edges = np.linspace(0, 1, fine + 1)
        ours = bayesian_binning(Histogram.from_rows(data, edges))
        np.testing.assert_allclose(ours(scores), reference_bbq(data, edges, scores), rtol=0, atol=1e-10)
    assert len(set(ours(np.linspace(0.22, 1, 50)).tolist())) == 1


def test_bad_maps_scores_and_empty_histograms_are_refused() -> None:
    for edges, probabilities, message in [
        ([0, 1], [1.5], r"probability 0 is 1\.5"),
        ([0, 2], [0.5], "must be probabilities"),
        ([0, 1], [0.5, 0.5], "1 bins, but 2"),
        ([0, 1], "0.5", "one-dimensional"),
    ]:
        with pytest.raises(InputError, match=message):
            CalibrationMap(edges, probabilities)
    for score in [-0.1, 1.1, math.nan]:
        with pytest.raises(InputError, match="row 1: score is"):
            CalibrationMap([0, 1], [0.5])([0.5, score])
    empty = Histogram([0, 1], [0], [0])
    for function in (bayesian_binning, calibration_curve, expected_calibration_error):
        with pytest.raises(UndefinedMetricError, match="nothing to calibrate by"):
            function(empty)


brentq = Lazy("scipy.optimize").brentq
expit = Lazy("scipy.special").expit
logit = Lazy("scipy.special").logit

SCORES = [0, 0.02, 0.1, 0.25, 0.4, 0.6, 0.85, 1]
POSITIVES = [1, 3, 12, 40, 55, 70, 90, 30]
NEGATIVES = [60, 200, 150, 110, 70, 40, 20, 2]


def rows(scores: list[float], positives: list[int], negatives: list[int]) -> PartyData:
    labels = np.repeat([True, False], [sum(positives), sum(negatives)])
    return PartyData.from_arrays(
        "rows", labels, np.concatenate([np.repeat(scores, positives), np.repeat(scores, negatives)])
    )


def test_line_and_intercept_are_those_of_statsmodels() -> None:
    """statsmodels 0.15.0, GLM of the binomial family; the scores 0 and 1 entered as 1e-8 and 1 - 1e-8.

    Errors with cov_type="HC0", White's, which are larger here than Fisher's: 0.09291533 and 0.06016032.
    """
    histogram = exact_histogram(rows(SCORES, POSITIVES, NEGATIVES))
    expected = (-0.09852328, 0.78195973, 0.11493191, 0.12676284)
    assert recalibration.calibration_line(histogram) == pytest.approx((*expected, 0, 0), abs=2e-8)
    large, error = recalibration.calibration_in_the_large(histogram)
    assert (large.value, error) == pytest.approx((0.01483882, 0.09313813), abs=2e-8)
    inner = slice(1, -1)
    histogram = exact_histogram(rows(SCORES[inner], POSITIVES[inner], NEGATIVES[inner]))
    expected = (0.03754426, 1.02933138, 0.10311542, 0.074301)  # White's, and Fisher's
    assert recalibration.calibration_line(histogram) == pytest.approx((*expected, 0, 0), abs=2e-8)


@given(
    scores=st.lists(st.floats(0, 1, allow_subnormal=False), min_size=4, max_size=20),
    edges=st.lists(st.floats(0, 1), max_size=6).map(lambda inner: np.unique([0, *inner, 1])),
)
def test_ranges_hold_the_rows_own_values(scores: list[float], edges: np.ndarray) -> None:
    data = PartyData.from_arrays("rows", np.arange(len(scores)) % 3 == 0, scores)
    histogram = Histogram.from_rows(data, edges)
    linear = logit(np.clip(data.y_score, 1e-8, 1 - 1e-8))
    own = brentq(lambda a: expit(a + linear).sum() - data.y_true.sum(), -60, 60, xtol=1e-12)
    large, _ = recalibration.calibration_in_the_large(histogram)
    assert large.low - 1e-6 <= own <= large.high + 1e-6
    assert large.low <= large.value <= large.high
    ratio, _ = recalibration.observed_expected_ratio(histogram)
    expected = data.y_score.sum()
    assert ratio.low * expected <= data.y_true.sum() * (1 + 1e-9)
    if math.isfinite(ratio.high):
        assert ratio.high * expected >= data.y_true.sum() * (1 - 1e-9)


def test_observed_over_expected_and_its_error_are_the_definitions_over_rows() -> None:
    data = rows(SCORES, POSITIVES, NEGATIVES)
    found, error = recalibration.observed_expected_ratio(exact_histogram(data))
    ratio = data.y_true.sum() / data.y_score.sum()
    expected = math.sqrt(np.square(data.y_true - ratio * data.y_score).sum()) / data.y_true.sum()
    assert (found.value, error) == pytest.approx((ratio, expected), rel=1e-12)


def test_what_has_no_slope_or_no_value_is_said() -> None:
    for positives, negatives in [
        ([0, 0, 3], [4, 0, 0]),
        ([3, 0, 0], [0, 0, 4]),
        ([0, 2, 3], [4, 2, 0]),
        ([0, 5, 0], [0, 5, 0]),
    ]:
        histogram = Histogram([0, 0.2, 0.7, 1], positives, negatives)
        assert recalibration.calibration_line(histogram) is None
        assert math.isfinite(recalibration.calibration_in_the_large(histogram)[0].value)
    assert recalibration.observed_expected_ratio(Histogram([0, 1e-8, 1], [1, 0], [1, 0])) is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "histogram",
    [
        Histogram([0, 1, 1], [57, 1], [1, 57]),
        Histogram([0, 0.75, 1], [160354.72342967987, 17], [604928.6104240417, 483174.2400827408]),
    ],
)
def test_bins_whose_ends_part_the_labels_leave_the_slope_open(histogram: Histogram) -> None:
    line = recalibration.calibration_line(histogram)
    assert math.isfinite(line.slope)
    assert (line.intercept_off, line.slope_off) == (math.inf, math.inf)


Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


def rows_of(name: str) -> Rows:
    if name in datasets.NAMES:
        parties = datasets.load(name)
        return np.concatenate([each.scores[0] for each in parties]), np.concatenate([each.labels for each in parties])
    generator = np.random.default_rng(61)
    if name == "rare":
        scores = expit(-5.5 + 1.2 * generator.standard_normal(20000))
        risks = scores
    elif name == "overconfident":
        logits = 1.5 * generator.standard_normal(3000)
        scores, risks = expit(1.8 * logits), expit(logits)
    else:
        points = generator.binomial(9, 0.3, 6000)
        scores, risks = points / 10, expit(-3 + 0.55 * points)
    return scores, (generator.random(len(scores)) < risks).astype(np.int64)


def counted(scores: NDArray[np.float64], labels: NDArray[np.int64], edges: NDArray[np.float64]) -> Histogram:
    return Histogram(edges, *(np.histogram(scores[labels == label], edges)[0].astype(float) for label in (1, 0)))


def value_bins(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return edges so that every score, none of 1, is the middle of a bin of its own."""
    values = np.unique(scores)
    return np.unique(np.clip(np.concatenate([values - 1e-13, values + 1e-13, [0.0, 1.0]]), 0, 1))


# R 4.2 with rms 6.5, over rows: v <- val.prob(s, y, pl = FALSE); v["Eavg"]; E50 of the same curve,
# median(abs(s - approx(lowess(s, y, iter = 0), xout = s, ties = mean)$y)); v["E90"]; v["Emax"]
OF_R = {
    "covid-clinics": (0.008657869088, 0.008431754731, 0.01021960347, 0.09782662714),
    "credit-default": (0.009296943115, 0.006714518717, 0.01588435075, 0.1267691011),
    "rare": (0.001291218746, 0.0008983902508, 0.001126022449, 0.1563053014),
    "overconfident": (0.07912624806, 0.08986405526, 0.1099874455, 0.1119568736),
    "points": (0.06793048195, 0.08967019291, 0.1029058153, 0.1029058153),
}


@pytest.mark.parametrize("name", OF_R)
def test_it_is_that_of_rms_over_rows_and_within_a_hundredth_of_it_over_five_thousand_bins(name: str) -> None:
    scores, labels = rows_of(name)
    found = np.array(smooth_calibration(counted(scores, labels, value_bins(scores)))[:4])
    assert found[[0, 3]] == pytest.approx(np.array(OF_R[name])[[0, 3]], rel=1e-7)
    assert found == pytest.approx(OF_R[name], rel=1e-3)  # quantiles here are of one row, there between two
    ici, _, e90, emax, _ = smooth_calibration(counted(scores, labels, np.unique([0.0, *grids.hybrid(5000), 1.0])))
    assert (ici, e90, emax) == pytest.approx(np.delete(OF_R[name], 1), rel=0.01)


@pytest.mark.parametrize(("rows", "shift", "digits"), [(300, 0.0, 6), (2000, -3.5, 6), (1000, -1.0, 1)])
def test_scores_that_are_right_have_the_ici_that_is_said_to_be_of_chance(rows: int, shift: float, digits: int) -> None:
    generator = np.random.default_rng(rows)
    scores = expit(shift + generator.standard_normal(rows)).round(digits).clip(0.001, 0.999)
    edges = value_bins(scores)
    found = [smooth_calibration(counted(scores, generator.random(rows) < scores, edges)) for _ in range(80)]
    drawn, said = np.array([each.ici for each in found]), found[0].ici_by_chance
    assert abs(drawn.mean() - said) < 3 * drawn.std() / np.sqrt(len(drawn)) + 0.01 * said
    assert [each.ici_by_chance for each in found] == pytest.approx([said] * 80)  # of the scores alone


def test_a_straight_line_comes_back_and_crowded_or_single_scores_have_their_own_share() -> None:
    edges = np.linspace(0, 1, 101)
    centres = (edges[1:] + edges[:-1]) / 2
    shares = 0.3 + 0.5 * centres
    far = np.abs(shares - centres)
    found = smooth_calibration(Histogram(edges, 1000 * shares, 1000 * (1 - shares)))
    median, most = np.quantile(np.repeat(far, 1000), [0.5, 0.9], method="inverted_cdf")
    assert found[:4] == pytest.approx((far.mean(), median, most, far.max()))
    # More than two thirds of rows have one score: its nearest rows are its own. A single score has nothing else.
    two = Histogram(np.array([0.0, 0.2, 1.0]), np.array([300.0, 5.0]), np.array([600.0, 5.0]))
    assert smooth_calibration(two).e50 == pytest.approx(1 / 3 - 0.1)
    one = smooth_calibration(Histogram(np.array([0.0, 1.0]), np.array([30.0]), np.array([70.0])))
    assert one == pytest.approx((*[0.2] * 4, np.sqrt(2 / np.pi * 0.25 / 100)))


def test_without_rows_or_probabilities_there_is_none() -> None:
    with pytest.raises(UndefinedMetricError, match="nothing to smooth"):
        smooth_calibration(Histogram(np.array([0.0, 1.0]), np.zeros(1), np.zeros(1)))
    with pytest.raises(InputError, match="probabilities"):
        smooth_calibration(Histogram(np.array([0.0, 2.0]), np.ones(1), np.ones(1)))

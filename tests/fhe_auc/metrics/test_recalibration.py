"""The logistic calibration line, calibration in the large and O:E, against other programs and definitions over rows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc import metrics
from fhe_auc.metrics import Histogram
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from tests.support.lazy import Lazy

brentq = Lazy("scipy.optimize").brentq
expit = Lazy("scipy.special").expit
logit = Lazy("scipy.special").logit
LogisticRegression = Lazy("sklearn.linear_model").LogisticRegression

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
    histogram = Histogram.exact(rows(SCORES, POSITIVES, NEGATIVES))
    expected = (-0.09852328, 0.78195973, 0.11493191, 0.12676284)
    assert metrics.calibration_line(histogram) == pytest.approx((*expected, 0, 0), abs=2e-8)
    large, error = metrics.calibration_in_the_large(histogram)
    assert (large.value, error) == pytest.approx((0.01483882, 0.09313813), abs=2e-8)
    inner = slice(1, -1)
    histogram = Histogram.exact(rows(SCORES[inner], POSITIVES[inner], NEGATIVES[inner]))
    expected = (0.03754426, 1.02933138, 0.10311542, 0.074301)  # White's, and Fisher's
    assert metrics.calibration_line(histogram) == pytest.approx((*expected, 0, 0), abs=2e-8)


def test_the_line_of_real_rows_is_scikit_learns_and_of_true_scores_the_diagonal() -> None:
    for name in ["covid-clinics", "credit-default"]:
        labels, scores = (np.concatenate([getattr(p, of) for p in datasets.load(name)]) for of in ("y_true", "y_score"))
        model = LogisticRegression(penalty=None, tol=1e-10).fit(logit(scores)[:, None], labels)
        line = metrics.calibration_line(Histogram.exact(PartyData.from_arrays("pool", labels, scores)))
        assert (line.intercept, line.slope) == pytest.approx((model.intercept_[0], model.coef_[0, 0]), abs=1e-4)
    generator = np.random.default_rng(4)
    scores = generator.beta(1, 2, 200_000)
    histogram = Histogram.from_rows(
        PartyData.from_arrays("pool", generator.random(len(scores)) < scores, scores), np.linspace(0, 1, 1001)
    )
    line = metrics.calibration_line(histogram)
    assert abs(line.slope - 1) < 4 * line.slope_error < 0.05
    assert abs(line.intercept) < 4 * line.intercept_error < 0.05


@settings(max_examples=40)
@given(
    scores=st.lists(st.floats(0, 1, allow_subnormal=False), min_size=4, max_size=20),
    edges=st.lists(st.floats(0, 1), max_size=6).map(lambda inner: np.unique([0, *inner, 1])),
)
def test_ranges_hold_the_rows_own_values(scores: list[float], edges: np.ndarray) -> None:
    data = PartyData.from_arrays("rows", np.arange(len(scores)) % 3 == 0, scores)
    histogram = Histogram.from_rows(data, edges)
    linear = logit(np.clip(data.y_score, 1e-8, 1 - 1e-8))
    own = brentq(lambda a: expit(a + linear).sum() - data.y_true.sum(), -60, 60, xtol=1e-12)
    large, _ = metrics.calibration_in_the_large(histogram)
    assert large.low - 1e-6 <= own <= large.high + 1e-6
    assert large.low <= large.value <= large.high
    ratio, _ = metrics.observed_expected_ratio(histogram)
    expected = data.y_score.sum()
    assert ratio.low * expected <= data.y_true.sum() * (1 + 1e-9)
    if math.isfinite(ratio.high):
        assert ratio.high * expected >= data.y_true.sum() * (1 - 1e-9)


def test_observed_over_expected_and_its_error_are_the_definitions_over_rows() -> None:
    data = rows(SCORES, POSITIVES, NEGATIVES)
    found, error = metrics.observed_expected_ratio(Histogram.exact(data))
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
        assert metrics.calibration_line(histogram) is None
        assert math.isfinite(metrics.calibration_in_the_large(histogram)[0].value)
    assert metrics.observed_expected_ratio(Histogram([0, 1e-8, 1], [1, 0], [1, 0])) is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "histogram",
    [
        Histogram([0, 1, 1], [57, 1], [1, 57]),
        Histogram([0, 0.75, 1], [160354.72342967987, 17], [604928.6104240417, 483174.2400827408]),
    ],
)
def test_bins_whose_ends_part_the_labels_leave_the_slope_open(histogram: Histogram) -> None:
    line = metrics.calibration_line(histogram)
    assert math.isfinite(line.slope)
    assert (line.intercept_off, line.slope_off) == (math.inf, math.inf)

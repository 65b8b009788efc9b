"""Counts, areas and debiasing of DPAUC, against brute force, scikit-learn and exact expectations."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats
from scipy.integrate import quad

from fhe_auc.rows import counts
from fhe_auc_protocols.dpauc.budget import delta_of, sigma_for
from fhe_auc_protocols.dpauc.roc import (
    Curve,
    area,
    base_rate,
    debias,
    estimate,
    is_of_rows,
    statistics,
    statistics_of_bins,
)

SCORES = st.sampled_from([-0.5, 0.0, 0.1, 0.2, 0.25, 0.5, 0.75, 1.0, 1.5])
few = settings(max_examples=30)
ROWS = st.lists(st.tuples(st.booleans(), SCORES), min_size=1, max_size=40)
GRID = np.array([0.0, 0.2, 0.25, 0.5, 1.0])
WITH_ENDS = Curve(endpoints=True)


def noisy(seed: int, runs: int = 50, size: int = 12, scale: float = 40) -> np.ndarray:
    """Counts under much noise, for many runs."""
    random = np.random.default_rng(seed)
    y_true = random.random(300) < 0.4
    y_score = np.clip(random.normal(0.4 + 0.2 * y_true, 0.2), 0, 1)
    exact = statistics(y_true, y_score, np.linspace(0, 1, size))
    return exact + random.laplace(0, scale, (runs, *exact.shape))


@few
@given(ROWS)
def test_counts_are_those_of_a_loop_over_rows_and_are_told_from_others(rows: list[tuple[bool, float]]) -> None:
    labels, scores = np.array([label for label, _ in rows]), np.array([score for _, score in rows])
    found = statistics(labels, scores, GRID)
    for k, threshold in enumerate(GRID):
        cells = [(label, score >= threshold) for label, score in rows]
        expected = [cells.count(cell) for cell in ((True, True), (False, True), (True, False), (False, False))]
        assert found[:, k].tolist() == expected
    engine = counts.count(counts.PartyData.from_arrays("a", labels, scores), GRID)  # the encrypted protocols'
    np.testing.assert_array_equal(found[:2, 1:], [engine.tp[1:], engine.fp[1:]])
    assert is_of_rows(found)
    for at in np.ndindex(found.shape):
        for step in (-1, 1):
            other = found.copy()
            other[at] += step  # the number of rows with a label is then not the same at all thresholds
            assert not is_of_rows(other)


TEN = [list(range(10, -1, -1))] * 2 + [list(range(11))] * 2  # ten rows of either label, one in a bin


@pytest.mark.parametrize(
    ("changed", "row"),
    [
        (slice(1, 4, 2), [[-1] * 11, [11] * 11]),
        (0, [9, *range(9, -1, -1)]),  # 19 rows at the first threshold, 20 at the others
        (slice(0, 4, 2), [[8, 9, *range(8, -1, -1)], [2, 1, *range(2, 11)]]),  # fewer above a lower threshold
        (slice(None), [[2**62 - 1] * 11, [0] * 11, [2**62 - 1] * 10 + [2**62 - 2], [0] * 11]),
    ],
)
def test_counts_that_no_labels_could_give_are_told(changed: Any, row: list[Any]) -> None:
    counts = np.array(TEN)
    assert is_of_rows(counts)
    counts[changed] = row
    assert not is_of_rows(counts)


def test_a_threshold_at_every_score_and_the_corners_give_scikit_learns_auc() -> None:
    from sklearn.metrics import roc_auc_score

    random = np.random.default_rng(1)
    y_true, y_score = random.random(500) < 0.3, random.integers(0, 60, 500) / 59
    exact = statistics(y_true, y_score, np.unique(y_score))
    assert float(area(exact.astype(float), WITH_ENDS)) == pytest.approx(roc_auc_score(y_true, y_score), abs=1e-12)


def test_the_papers_area_is_scikit_learns_trapezoid_over_points_sorted_by_fpr() -> None:
    from sklearn.metrics import auc

    for sums in noisy(2, scale=10):  # little enough that no rate is 0/0
        tp, fp, fn, tn = np.maximum(sums, 0)
        order = np.lexsort((-np.arange(len(tp)), fp / (fp + tn)))  # among equals the higher threshold first
        expected = auc((fp / (fp + tn))[order], (tp / (tp + fn))[order])
        assert float(area(sums, Curve())) == pytest.approx(expected, abs=1e-12)


def test_monotone_curves_are_left_as_they_are_and_others_made_monotone() -> None:
    exact = np.maximum(noisy(5, runs=1)[0], 0)
    exact[:2] = np.sort(exact[:2], axis=-1)[:, ::-1]
    exact[2:] = 500 - exact[:2]
    assert float(area(exact, Curve(monotone=True))) == pytest.approx(float(area(exact, Curve())), abs=1e-12)
    crossing = np.array([[8.0, 2.0, 6.0, 0.0], [6.0, 4.0, 3.0, 1.0], [2.0, 8.0, 4.0, 10.0], [4.0, 6.0, 7.0, 9.0]])
    # TPR .8 .2 .6 0 becomes .8 .4 .4 0 at FPR .6 .4 .3 .1
    assert float(area(crossing, Curve(monotone=True))) == pytest.approx(0.2 * 0.2 + 0.1 * 0.4 + 0.2 * 0.6)


@few
@given(arrays.arrays(np.float64, (4, 6), elements=st.floats(-1e6, 1e6)), st.booleans(), st.booleans())
def test_clipped_curves_have_areas_from_0_to_1_in_any_noise(sums: np.ndarray, endpoints: bool, monotone: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(area(np.full((4, 5), -3.0), Curve())) == 0
        assert -1e-12 <= float(area(sums, Curve(endpoints=endpoints, monotone=monotone))) <= 1 + 1e-12


@few
@given(
    arrays.arrays(np.int64, (2, 6), elements=st.integers(0, 50)).filter(lambda bins: bins.sum(axis=1).all()),
    st.floats(0, 0.45),
)
def test_debiasing_the_expected_flipped_counts_gives_the_clean_auc_exactly(bins: np.ndarray, rho: float) -> None:
    """In expectation a bin keeps 1 − ρ of its own and gets ρ of the other label: Menon et al. is exact there."""
    flipped = (1 - rho) * bins + rho * bins[::-1]
    clean = float(area(statistics_of_bins(bins).astype(float), WITH_ENDS))
    positive_share = np.array(bins[0].sum() / bins.sum())
    assert float(debias(area(statistics_of_bins(flipped), WITH_ENDS), rho, positive_share)) == pytest.approx(clean)
    sums = statistics_of_bins(flipped)
    share, rows = np.array(flipped[0].sum() / flipped.sum()), np.array(float(flipped.sum()))
    assert float(base_rate(share, rho, rows)) == pytest.approx(float(positive_share))
    assert float(estimate(sums, WITH_ENDS, flip_probability=rho)) == pytest.approx(clean)


@pytest.mark.parametrize("rows", [10.0, 100.0, 1000.0])
def test_a_base_rate_outside_what_an_auc_supposes_is_moved_inside(rows: float) -> None:
    shares = np.array([0.0, 0.2, 0.5, 1.0])
    np.testing.assert_allclose(base_rate(shares, 0.3, np.array(rows)), [1 / rows, 1 / rows, 0.5, 1 - 1 / rows])


EPSILONS = st.floats(1e-3, 50)
DELTAS = st.floats(1e-12, 0.9)
SENSITIVITIES = st.floats(1e-3, 1e3)


def delta_by_definition(sigma: float, epsilon: float, sensitivity: float) -> float:
    """Return ∫ max(0, p − e^ε q) for the densities of N(0, σ²) and N(Δ, σ²)."""
    here, there = stats.norm(0, sigma), stats.norm(sensitivity, sigma)

    def excess(x: float) -> float:
        return max(0.0, here.pdf(x) - math.exp(epsilon + there.logpdf(x)))

    edge = sensitivity / 2 - epsilon * sigma**2 / sensitivity
    return float(quad(excess, min(edge, 0) - 12 * sigma, min(edge, 12 * sigma), epsabs=0, epsrel=1e-10, limit=400)[0])


@pytest.mark.parametrize("sigma", [0.5, 2.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("sensitivity", [1.0, 20.0])
def test_delta_is_the_excess_over_e_to_the_epsilon_integrated(sigma: float, epsilon: float, sensitivity: float) -> None:
    expected = delta_by_definition(sigma, epsilon, sensitivity)
    assert delta_of(sigma, epsilon, sensitivity) == pytest.approx(expected, rel=1e-6, abs=1e-300)


@few
@given(EPSILONS, DELTAS, SENSITIVITIES)
def test_the_calibrated_sigma_is_private_nothing_smaller_is_and_it_scales_with_the_sensitivity(
    epsilon: float, delta: float, sensitivity: float
) -> None:
    sigma = sigma_for(epsilon, delta, sensitivity)
    assert delta_of(sigma, epsilon, sensitivity) <= delta * (1 + 1e-9)
    assert delta_of(sigma * (1 - 1e-6), epsilon, sensitivity) > delta
    assert sigma == pytest.approx(sensitivity * sigma_for(epsilon, delta, 1), rel=1e-9)
    if epsilon < 1 and delta <= 0.1:  # where the classical calibration is safe
        assert sigma < sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon

"""Curves of few noisy bins: their interpolation, ties, the law of the noise, and how near they come to the rows'."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fhe_auc.base.errors import UndefinedAucError
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.private_curves import CountNoise, RocFit, deviates_to_rates, monotone_cubic, rates_to_deviates
from fhe_auc.metrics.ranking import of_one_score
from fhe_auc.question.score_bins import with_bins_of
from fhe_auc.question.thresholds import cell_starts, parse
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.noise_shares import polya
from tests.support.private_sets import PARTIES, RATES, SHARES, errors, of_population, populations

QUIET = CountNoise(0.0)


def edges_of(grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the edges that a pooled histogram has at thresholds."""
    return np.concatenate(([min(0.0, grid[0])], grid[1:], [max(1.0, grid[-1])]))


def test_between_edges_the_curve_is_the_monotone_cubic_of_scipy() -> None:
    from scipy.interpolate import PchipInterpolator

    random = np.random.default_rng(0)
    for case in range(200):
        size = int(random.integers(2, 12))
        x = np.sort(random.random(size))
        y = random.random(size) if case % 3 == 0 else np.cumsum(random.random(size) * (random.random(size) < 0.7))
        at = np.linspace(x[0], x[-1], 101)
        np.testing.assert_allclose(monotone_cubic(x, y, at), PchipInterpolator(x, y)(at), atol=1e-9)


def test_normal_deviates_are_those_of_scipy() -> None:
    from scipy.stats import norm

    deviates = np.random.default_rng(0).uniform(-7.9, 4, 2000)
    np.testing.assert_allclose(deviates_to_rates(deviates), norm.cdf(deviates), rtol=1e-5)
    np.testing.assert_allclose(rates_to_deviates(norm.cdf(deviates)), deviates, atol=1e-5)


@pytest.mark.parametrize("name", ["2,000", "30,000", "unequal spread"])
def test_a_curve_that_is_straight_on_normal_deviates_is_found_from_a_few_bins(name: str) -> None:
    population = populations()[name]
    counts = population.rows * np.add.reduceat(population.cells, np.arange(0, 1024, 128), axis=1)
    histogram = Histogram(np.linspace(0, 1, 9), *counts)
    fit, true = RocFit.fitted(histogram, QUIET), of_population(population)
    assert np.abs(fit.tpr(RATES) - true.tpr).max() < 1e-3
    assert fit.auc == pytest.approx(true.auc, abs=1e-4)
    assert fit.average_precision == pytest.approx(true.average_precision, abs=1e-3)
    assert fit.bend < 0.01


def test_a_bent_curve_tells_its_bend() -> None:
    population = populations()["heavy tails"]
    counts = population.rows * np.add.reduceat(population.cells, np.arange(0, 1024, 64), axis=1)
    assert RocFit.fitted(Histogram(np.linspace(0, 1, 17), *counts), QUIET).bend > 0.1


@pytest.mark.parametrize(("first", "last", "step"), [(0, 9, 1), (5, 9, 1), (0, 1, 0.25)])
def test_the_curve_of_points_is_that_of_scikit_learn(first: float, last: float, step: float) -> None:
    from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

    random, grid = np.random.default_rng(1), parse(f"values:{first}:{last}:{step}")
    points = np.arange(first, last + step, step)
    for _ in range(10):
        labels = random.random(300) < 0.3
        scores = points[random.binomial(len(points) - 1, np.where(labels, 0.6, 0.4))]
        histogram = Histogram.from_rows(PartyData.from_arrays("points", labels, scores), edges_of(grid))
        # Between listed values no row can lie: what is counted there is noise.
        noisy = Histogram(histogram.edges, *(histogram.sides + 1000.0 * ~np.isin(grid, points)))
        for each in (histogram, noisy):
            fit, (fpr, tpr, _) = RocFit.fitted(each, QUIET), roc_curve(labels, scores, drop_intermediate=False)
            precision, recall, _ = precision_recall_curve(labels, scores)
            at, reached = random.random(50), np.append(np.diff(recall) < 0, False)
            np.testing.assert_allclose(fit.tpr(at), np.interp(at, fpr, tpr), atol=1e-4)
            np.testing.assert_allclose(fit.precision(recall[reached]), precision[reached], atol=1e-5)
            assert fit.auc == pytest.approx(roc_auc_score(labels, scores), abs=1e-5)
            assert fit.average_precision == pytest.approx(average_precision_score(labels, scores), abs=1e-5)


def test_the_highest_listed_score_has_a_bin_of_one_score() -> None:
    grid = parse("values:0:9")
    histogram = Histogram(edges_of(grid), np.ones(len(grid)), np.ones(len(grid)))
    assert of_one_score(histogram)[grid == 9].all()


def test_rows_tied_at_one_of_many_scores_give_a_straight_piece() -> None:
    from sklearn.metrics import roc_curve

    random = np.random.default_rng(2)
    labels = random.random(100_000) < 0.3
    scores = 1 / (1 + np.exp(0.5 - random.normal(1.2 * labels)))
    scores[np.abs(scores - 0.5) < 0.08] = 0.5
    data, grid = PartyData.from_arrays("mixed", labels, scores), np.linspace(0, 1, 11)
    mixed = edges_of(with_bins_of(np.array([0.5]), grid))
    errors = [
        np.abs(RocFit.fitted(Histogram.from_rows(data, each), QUIET).tpr(RATES) - np.interp(RATES, *known))
        for known in [roc_curve(labels, scores)[:2]]
        for each in (mixed, grid)
    ]
    assert errors[0].max() < 0.006 < 0.015 < errors[1].max()


@pytest.mark.parametrize("scale", [0.4, 2.0])
def test_noise_for_experiments_has_the_law_of_the_parties_shares(scale: float) -> None:
    from scipy.stats import chi2_contingency

    size, p = 20_000, np.exp(-1 / scale)
    summed = np.sum([polya(size, scale, SHARES) for _ in range(PARTIES)], axis=0)
    noise = CountNoise(float(np.sqrt(2 * p * PARTIES / SHARES) / (1 - p)), scale, PARTIES / SHARES)
    drawn = noise.drawn(np.random.default_rng(3), size)
    most = int(4 * scale)
    table = [np.bincount(np.clip(each, -most, most).astype(int) + most) for each in (summed, drawn)]
    assert chi2_contingency(table).pvalue > 1e-6
    assert np.std(drawn) == pytest.approx(noise.deviation, rel=0.05)


def test_a_result_tells_the_law_of_its_noise() -> None:
    settings = {"noise_deviation": 1.5, "noise_scale": 1.1, "noise_shares": 9}
    assert CountNoise.of(settings, 10) == CountNoise(1.5, 1.1, 10 / 9)
    local = CountNoise.of({"noise_deviation": 30.0}, 10)
    assert np.std(local.drawn(np.random.default_rng(4), 2, 5000)) == pytest.approx(30, rel=0.05)
    assert CountNoise.of({}, 3).deviation == 0


def test_whatever_noise_leaves_the_curve_rises_from_0_to_1() -> None:
    random, none = np.random.default_rng(5), 0
    for _ in range(200):
        bins, noise = int(random.integers(1, 12)), CountNoise(20.0)
        counts = random.poisson(random.choice([0, 3, 30], size=(2, bins))) + noise.drawn(random, 2, bins)
        histogram = Histogram(np.linspace(0, 1, bins + 1), *counts)
        try:
            fit = RocFit.fitted(histogram, noise, float(random.normal()))
        except UndefinedAucError:
            none += 1
            continue
        tpr = fit.tpr(RATES)
        assert tpr[0] == 0
        assert tpr[-1] == 1
        assert (np.diff(tpr) >= 0).all()
        assert (np.diff(fit.fpr(RATES)) >= 0).all()
        assert 0 <= fit.auc <= 1
        assert 0 < fit.average_precision <= 1
    assert 20 < none < 180


TARGETS = {
    "2,000": (0.022, 0.024),
    "30,000": (0.0014, 0.013),
    "163,673": (2.4e-4, 0.0022),
    "164,261": (0.0050, 3e-4),
}
"""Area errors of ROC and PR, as in the table of the issue on private curves, at ε = 2 for a row replaced."""

OTHERS = {
    "heavy tails": (0.010, 0.018),
    "two kinds": (0.006, 0.07),
    "unequal spread": (8e-4, 0.0015),
    "covid-clinics": (0.009, 0.028),
    "credit-default": (0.0021, 0.0055),
}
"""About 4/3 of what was measured."""


def test_curves_of_2000_rows_are_near_those_of_the_rows() -> None:
    assert (errors("2,000", 2.0, 40)[:2] <= TARGETS["2,000"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TARGETS, *OTHERS])
def test_curves_are_as_near_to_those_of_the_rows_as_the_page_on_noise_says(name: str) -> None:
    assert (errors(name, 2.0, 200)[:2] <= {**TARGETS, **OTHERS}[name]).all()


def test_rows_that_crowd_in_one_cell_of_the_tree_are_tied_and_a_perfect_model_is_nearly_so() -> None:
    at_ends = Histogram(
        np.append(cell_starts(10)[[0, 1, 1023]], 1.0), np.array([40.0, 0, 60]), np.array([800.0, 0, 100])
    )
    fit = RocFit.fitted(at_ends, CountNoise(1.0, 0.5))
    assert fit.tpr(np.array([1 / 18, 5 / 9])) == pytest.approx([0.3, 0.8], abs=1e-3)
    assert fit.auc == pytest.approx((1 / 9 * 0.6 + 8 / 9 * 1.6) / 2, abs=1e-3)
    perfect = Histogram(
        np.linspace(0, 1, 7), np.array([0.0, 0, 0, 0, 0, 100]), np.array([350.0, 350, 350, 350, 350, 250])
    )
    assert RocFit.fitted(perfect, CountNoise(1.0, 0.5)).auc > 0.97

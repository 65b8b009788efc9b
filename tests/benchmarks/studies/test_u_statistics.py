"""The shape of [USTAT]'s figures 3 and 4, on the data and by the code of docs/evidence/studies/u_statistics.py.

Seeds are fixed.
"""

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2_contingency

import u_statistics as figures
from fhe_auc_protocols import opendp_samplers
from fhe_auc_protocols.exact_sampling import SeededExperiment
from fhe_auc_protocols.u_statistics import kernels, krr, noiseless, pairs


@pytest.mark.slow
def test_the_hierarchys_error_follows_theorem_4_and_hardly_depends_on_the_domain() -> None:
    generator = np.random.default_rng(1)
    scores = figures.beta_scores(generator, 10**5, 0.3)
    errors = {
        (epsilon, alpha): math.sqrt(np.mean(figures.Trees(generator, scores, alpha, epsilon).errors(80) ** 2))
        for epsilon in (1.0, 2.0, 4.0)
        for alpha in (8, 10, 12)
    }
    ratios = [error / (alpha**1.5 / (epsilon * math.sqrt(10**5))) for (epsilon, alpha), error in errors.items()]
    assert max(ratios) < 4 * min(ratios)  # within a factor of two of one constant
    for epsilon in (1.0, 2.0, 4.0):
        assert errors[epsilon, 12] < 1.6 * errors[epsilon, 8]
    assert errors[1.0, 10] > errors[2.0, 10] > errors[4.0, 10]


def test_the_ratings_are_as_many_and_as_correlated_as_in_the_paper() -> None:
    domain, counts = figures.ratings()
    assert (counts.sum(), len(domain)) == (246_000, 36)
    assert noiseless.u_statistic(counts, kernels.KENDALL.matrix(domain.points)) == pytest.approx(figures.TAU, abs=1e-3)


@pytest.mark.parametrize(("epsilon", "factor"), [(0.25, 4.5), pytest.param(1.0, 2.5, marks=pytest.mark.slow)])
def test_pairs_beat_randomised_response_several_times_at_small_budgets(epsilon: float, factor: float) -> None:
    generator = np.random.default_rng(2)
    domain, counts = figures.ratings()
    matrix = kernels.KENDALL.matrix(domain.points)
    users, truth = np.repeat(domain.points, counts, axis=0), noiseless.u_statistic(counts, matrix)
    response = krr.RandomisedResponse(36, epsilon)
    by_krr = [response.estimate(figures.krr_counts(response, counts, generator), matrix) - truth for _ in range(200)]
    step = pairs.IdealLaplace(kernels.KENDALL, epsilon, pairs.seeded_laplace(generator))
    by_pairs = figures.pair_errors(generator, users, truth, step, 1, 20)
    assert np.std(by_krr) > factor * np.std(by_pairs)


def test_simulated_counts_have_the_distribution_of_counted_reports() -> None:
    response, generator = krr.RandomisedResponse(3, 1.0), np.random.default_rng(4)
    source = SeededExperiment(np.random.default_rng(3))
    values = np.array([0, 0, 0, 1, 2])
    counted = Counter(tuple(response.tally(response.randomise(values, source))) for _ in range(10_000))
    simulated = Counter(tuple(figures.krr_counts(response, [3, 1, 1], generator)) for _ in range(10_000))
    outcomes = sorted(set(counted) | set(simulated))
    frequent = [o for o in outcomes if counted[o] + simulated[o] >= 20]
    assert len(frequent) > 15
    table = [[of[o] for o in frequent] for of in (counted, simulated)]
    assert chi2_contingency(table).pvalue > 1e-6


def test_the_response_is_unbiased_and_beats_laplace_noise() -> None:
    rows = np.random.default_rng(5).integers(0, 6, (2000, 2)).astype(float)
    source = SeededExperiment(np.random.default_rng(6))
    step = figures.IdealResponse(kernels.KENDALL, pairs.ValueResponse((-1.0, 0.0, 1.0), 1.0, 4060), source)
    first, second = rows[:1000], rows[1000:]
    found = np.array([step.noisy(first, second) for _ in range(500)])
    truth = kernels.KENDALL(first, second).mean()
    assert abs(found.mean() - truth) < 4 * found.std() / math.sqrt(found.size)
    assert found.var() < pairs.IdealLaplace(kernels.KENDALL, 1.0, opendp_samplers.laplace).noise_variance
    given_first = np.array([of[0] for of in found])
    assert given_first.var() < step.noise_variance * 1.4

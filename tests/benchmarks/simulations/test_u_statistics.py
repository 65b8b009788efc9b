"""The fast simulations have the laws of what they stand for.

Seeds are fixed.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2_contingency

import simulated_u_statistics as simulation
from fhe_auc_protocols import dp_noise
from fhe_auc_protocols.exact_sampling import SeededExperiment
from fhe_auc_protocols.u_statistics import kernels, pairs
from fhe_auc_protocols.u_statistics.krr import RandomisedResponse


def test_simulated_counts_have_the_distribution_of_counted_reports() -> None:
    response, generator = RandomisedResponse(3, 1.0), np.random.default_rng(4)
    source = SeededExperiment(np.random.default_rng(3))
    values = np.array([0, 0, 0, 1, 2])
    counted = Counter(tuple(response.tally(response.randomise(values, source))) for _ in range(20_000))
    simulated = Counter(tuple(simulation.krr_counts(response, [3, 1, 1], generator)) for _ in range(20_000))
    outcomes = sorted(set(counted) | set(simulated))
    frequent = [o for o in outcomes if counted[o] + simulated[o] >= 20]
    assert len(frequent) > 15
    table = [[of[o] for o in frequent] for of in (counted, simulated)]
    assert chi2_contingency(table).pvalue > 1e-6


def test_zetas_are_variances_over_the_distribution() -> None:
    generator = np.random.default_rng(3)
    shares = np.array([0.2, 0.5, 0.3])
    matrix = kernels.gini(2.0).matrix(np.arange(3.0)[:, None])
    x, y = (generator.choice(3, 400_000, p=shares) for _ in range(2))
    assert simulation.zetas(shares, matrix).second == pytest.approx(matrix[x, y].var(), rel=0.02)
    assert simulation.zetas(shares, matrix).first == pytest.approx((matrix @ shares)[x].var(), rel=0.02)


def test_the_response_is_unbiased_and_beats_laplace_noise() -> None:
    rows = np.random.default_rng(5).integers(0, 6, (2000, 2)).astype(float)
    source = SeededExperiment(np.random.default_rng(6))
    step = simulation.IdealResponse(kernels.KENDALL, pairs.ValueResponse((-1.0, 0.0, 1.0), 1.0, 4060), source)
    first, second = rows[:1000], rows[1000:]
    found = np.array([step.noisy(first, second) for _ in range(500)])
    truth = kernels.KENDALL(first, second).mean()
    assert abs(found.mean() - truth) < 4 * found.std() / math.sqrt(found.size)
    assert found.var() < pairs.IdealLaplace(kernels.KENDALL, 1.0, dp_noise.laplace).noise_variance
    given_first = np.array([of[0] for of in found])
    assert given_first.var() < step.noise_variance * 1.4

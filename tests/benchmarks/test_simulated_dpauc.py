"""The fast simulation has the law of what it stands for.

Seeds are fixed; with others a test would fail with probability `FALSE_ALARM`.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpauc import aucs_of_noised_scores
from fhe_auc.question import thresholds
from fhe_auc_benchmarks.comparison import simulated_dpauc as simulation
from fhe_auc_protocols.dpauc.budget import GAUSSIAN, LAPLACE, RANDOMIZED_RESPONSE, Budget
from fhe_auc_protocols.dpauc.roc import area, estimate, statistics

FALSE_ALARM = 1e-4
GRID = thresholds.dpauc(40)


def rows(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y_true = random.random(size) < 0.3
    return y_true, np.clip(random.normal(0.3 + 0.2 * y_true, 0.2), 0, 1)


def budget(mechanism: str, epsilon: float, **options: object) -> Budget:
    return Budget.checked(mechanism, {"epsilon": epsilon, **options}, len(GRID))


@pytest.mark.parametrize(("mechanism", "options"), [(LAPLACE, {}), (GAUSSIAN, {"delta": 1e-6})])
@pytest.mark.parametrize("parties", [1, 10])
def test_the_shortcut_has_the_law_of_noise_by_party(mechanism: str, options: dict[str, float], parties: int) -> None:
    of = budget(mechanism, 1.0, **options)
    exact = statistics(*rows(20_000), GRID)
    random = np.random.default_rng([7, parties])
    fast = simulation.aucs(exact, of, parties=parties, runs=2000, random=random)
    slow = simulation.aucs_noise_by_party(exact, of, parties=parties, runs=2000, random=random)
    assert stats.kstest(fast, slow).pvalue > FALSE_ALARM
    wrong = simulation.aucs(exact, of, parties=2 * parties, runs=2000, random=random)
    assert stats.kstest(wrong, slow).pvalue < FALSE_ALARM


def test_flips_by_bin_give_the_aucs_that_flips_by_row_give() -> None:
    y_true, y_score = rows(2000)
    of = budget(RANDOMIZED_RESPONSE, 1.0)
    random = np.random.default_rng(11)
    fast = simulation.aucs(statistics(y_true, y_score, GRID), of, parties=3, runs=1000, random=random)
    flipped = (y_true ^ (random.random(len(y_true)) < of.flip_probability) for _ in range(1000))
    counts = np.array([statistics(labels, y_score, GRID) for labels in flipped], float)
    slow = estimate(counts, of.curve, flip_probability=of.flip_probability)
    assert stats.kstest(fast, slow).pvalue > FALSE_ALARM
    not_debiased = area(counts, of.curve)
    assert stats.kstest(fast, not_debiased).pvalue < FALSE_ALARM


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_debiased_flips_are_unbiased(epsilon: float) -> None:
    """The mean of 4,000 runs is within 5 standard errors of the noiseless area (false alarm 6e-7)."""
    of = budget(RANDOMIZED_RESPONSE, epsilon)
    exact = statistics(*rows(50_000), GRID)
    found = simulation.aucs(exact, of, parties=1, runs=4000, random=np.random.default_rng(3))
    clean = float(area(exact.astype(float), of.curve))
    assert abs(found.mean() - clean) < 5 * found.std() / np.sqrt(len(found))


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "options"),
    [(LAPLACE, 1e12, {}), (GAUSSIAN, 1e6, {"delta": 0.5}), (RANDOMIZED_RESPONSE, 500.0, {})],
)
def test_a_boundless_budget_gives_the_noiseless_auc(mechanism: str, epsilon: float, options: dict[str, float]) -> None:
    exact = statistics(*rows(1000), GRID)
    points = None if mechanism == RANDOMIZED_RESPONSE else len(GRID)
    of = Budget(mechanism=mechanism, epsilon=epsilon, budget_thresholds=points, **options)  # `checked` would refuse it
    found = simulation.aucs(exact, of, parties=10, runs=5, random=np.random.default_rng(0))
    noiseless = float(area(exact.astype(float), of.curve))
    np.testing.assert_allclose(found, noiseless, atol=2e-4)  # the least noise orders ties


def test_noised_scores_lose_order_and_a_boundless_budget_keeps_it() -> None:
    from sklearn.metrics import roc_auc_score

    y_true, y_score = rows(5000)
    random = np.random.default_rng(2)
    exact = roc_auc_score(y_true, y_score)
    kept = aucs_of_noised_scores(y_true, y_score, 1e9, runs=2, random=random)
    np.testing.assert_allclose(kept, exact, atol=2e-4)  # the least noise orders ties
    lost = aucs_of_noised_scores(y_true, y_score, 1.0, runs=20, random=random)
    assert 0.5 < lost.mean() < exact - 0.1


def test_many_runs_are_drawn_in_batches_that_hold_all_and_equal_seeds_give_equal_ones() -> None:
    for most in [10_000, 50]:
        exact = statistics(*rows(100), GRID)
        sizes = simulation.batch_sizes(500, exact.size, most)
        assert sum(sizes) == 500
        assert max(sizes) * exact.size < max(1.2 * most, 2 * exact.size)
        assert min(sizes) > 0
    exact = statistics(*rows(100), GRID)

    def drawn(runs: int) -> np.ndarray:
        return simulation.aucs(exact, budget(LAPLACE, 1.0), parties=2, runs=runs, random=np.random.default_rng(5))

    runs = 4_000_000 // exact.size * 2 + 1
    assert len(drawn(runs)) == runs
    np.testing.assert_array_equal(drawn(9), drawn(9))

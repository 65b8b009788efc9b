"""The fast simulation has the law of what it stands for.

Seeds are fixed; with others a test would fail with probability `FALSE_ALARM`.
"""

import numpy as np
import pytest
from scipy import stats

from fhe_auc.question import thresholds
from fhe_auc_benchmarks.comparison import simulated_dpauc as simulation
from fhe_auc_protocols.dpauc.budget import GAUSSIAN, LAPLACE, RANDOMIZED_RESPONSE, Budget
from fhe_auc_protocols.dpauc.roc import area, statistics

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


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_debiased_flips_are_unbiased(epsilon: float) -> None:
    """The mean of 4,000 runs is within 5 standard errors of the noiseless area (false alarm 6e-7)."""
    of = budget(RANDOMIZED_RESPONSE, epsilon)
    exact = statistics(*rows(50_000), GRID)
    found = simulation.aucs(exact, of, parties=1, runs=4000, random=np.random.default_rng(3))
    clean = float(area(exact.astype(float), of.curve))
    assert abs(found.mean() - clean) < 5 * found.std() / np.sqrt(len(found))


def test_more_runs_than_are_held_at_a_time_are_all_drawn_and_equal_seeds_give_equal_ones() -> None:
    exact = statistics(*rows(100), GRID)

    def drawn(runs: int) -> np.ndarray:
        return simulation.aucs(exact, budget(LAPLACE, 1.0), parties=2, runs=runs, random=np.random.default_rng(5))

    runs = simulation._NOISED_VALUES // exact.size * 2 + 1
    assert len(drawn(runs)) == runs
    np.testing.assert_array_equal(drawn(9), drawn(9))

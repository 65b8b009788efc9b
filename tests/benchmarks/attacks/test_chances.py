"""How often the luckiest lies pass, beside what is proved or bounded."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

from fhe_auc_benchmarks.attacks import simulated, table
from fhe_auc_benchmarks.attacks.laboratory import PASSED, clopper_pearson

slow = partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("name", "sessions"),
    [("scale-last", 300), *(slow(each, 2000) for each in simulated.LUCKIEST)],
)
def test_the_luckiest_lies_pass_at_loose_tolerances_far_less_often_at_tighter_ones_and_never_at_the_planned(
    name: str, sessions: int
) -> None:
    """So what is refused at the planned tolerance is not refused for being played badly."""
    passed = [
        sum(
            simulated.play_numbers(simulated.LUCKIEST[name][1], tolerance, "malicious", np.random.default_rng([1, k]))
            == PASSED
            for k in range(sessions)
        )
        for tolerance in (simulated.LOOSE, simulated.LOOSE / 2, None)
    ]
    assert passed[0] > 5
    assert passed[1] < passed[0] / 3
    assert passed[2] == 0


@pytest.mark.slow
def test_the_best_liar_passes_modulo_257_as_often_as_is_proved() -> None:
    """The seed is fixed: with others it would fail with a probability of 1e-4."""
    found = table.on_verified("sealed")["guess-point-small"].run("verified", 1, seed=4)
    assert found["sessions"] == 1_000
    assert stats.binomtest(found["passed"], 1_000, simulated.PROVED).pvalue > 1e-4


def test_clopper_pearson() -> None:
    assert clopper_pearson(0, 100) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert stats.binom.cdf(3, 50, clopper_pearson(3, 50)) == pytest.approx(0.05)
    assert clopper_pearson(5, 5) == 1.0

"""A lying aggregator against `verified` on integers, in very many sessions: nothing passes, at t = 257 what is proved.

Statistical tests have fixed seeds; what they allow would be exceeded with probability below 1e-6 otherwise.
"""

import pytest
from scipy import stats

from fhe_auc_benchmarks.attacks.exact_auc import simulated
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES

PRIME = 2_199_023_288_321
TOY, BOUNDS = 257, (2 / 256, 3 / 256)  # where sums are quadratic, or cubic
HARMLESS = ("guess-right", "swap-parties")  # what is released is right; the first has the verdict tell a count
UNSEEN = {"forge-at-1", "forge-at-2", "add-to-tags", "add-to-blinders"}  # change what only the check looks at
SIMULATED = [name for name, strategy in STRATEGIES.items() if strategy.tamper is None]
LIES = [name for name in SIMULATED if name not in HARMLESS]

QUICK = {"guess-point", "forge-difference", "add-and-guess", "drop-party", "average-results"}


CUBIC = [pytest.param(name, True, marks=() if name in QUICK else pytest.mark.slow) for name in LIES]


@pytest.mark.parametrize(("name", "interval"), [*((name, False) for name in LIES), *CUBIC])
def test_no_lie_passes(name: str, interval: bool) -> None:
    """Modulo 257 none passes more often than is proved; with an interval sums are cubic."""
    found = simulated.run(name, PRIME, 1_000, seed=1, interval=interval)
    assert found.refused == {"authenticator": found.trials}
    if name != "scale-value":  # at z = 0 or elsewhere, as it is drawn
        assert found.changed == (0 if name in UNSEEN else found.trials)
    toy = simulated.run(name, TOY, 5_000, seed=5, interval=interval)
    assert stats.binom.sf(toy.passed - 1, toy.trials, BOUNDS[interval]) > 1e-6


def test_what_is_right_is_accepted_and_a_verdict_would_tell_whether_a_guess_is() -> None:
    for name in HARMLESS:
        assert simulated.run(name, PRIME, 2_000, seed=2).harmless == 2_000
    # One bit a session, which is why the aggregator hears no verdict; the number accepted is right all the same.
    right, wrong = (simulated.run(name, PRIME, 2_000, seed=3) for name in ("guess-right", "guess-wrong"))
    assert ((right.harmless, right.passed), wrong.refused) == ((2_000, 0), {"authenticator": 2_000})


@pytest.mark.parametrize(("interval", "trials"), [(False, 50_000), (True, 20_000)])
def test_the_best_liar_passes_modulo_257_as_often_as_is_proved(interval: bool, trials: int) -> None:
    found = simulated.run("guess-point", TOY, trials, seed=4, interval=interval)
    assert found.changed == trials
    assert stats.binomtest(found.passed, trials, BOUNDS[interval]).pvalue > 1e-6

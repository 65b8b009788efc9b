import dataclasses
import math

import numpy as np
import pytest
from fhe_auc_protocols.blinded_auc.split_shares import Execution, Stream, amplification
from fhe_auc_protocols.blinded_auc.workload import LEAST_EXTRA, Workload
from scipy import stats

from fhe_auc.base.errors import InputError, VerificationError
from fhe_auc.rows.counts import Counts
from fhe_auc_benchmarks.attacks.blinded_auc import bounds, simulated
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Trials, draw_multipliers, setting
from fhe_auc_benchmarks.attacks.blinded_auc.strategies import STRATEGIES
from fhe_auc_benchmarks.attacks.laboratory import HARM, AttackOutcome, clopper_pearson
from fhe_auc_protocols.blinded_auc.plan import fitting_packing
from fhe_auc_protocols.blinded_auc.result_check import accept
from tests.support.polynomial_search import search


# Statistical tests have fixed seeds; what they allow would be exceeded with probability below 1e-6 otherwise.
def quick(*names, of):
    """Parameters of which all but these are slow."""
    return [pytest.param(name, marks=() if name in names else pytest.mark.slow) for name in of]


LUCKY = ("scale-num", "scale-den", "scale-but-guessed", "add-constant", "add-polynomial", "scale-slots", "shift-bins")
NOT_HARMLESS = [name for name in STRATEGIES if name != "scale-all"]
BOUNDED = ("scale-num", "scale-den", "add-polynomial", "add-constant")
LOOSE = 1e-4


@pytest.fixture(scope="module")
def loose():
    return setting(executions=2, tolerance=LOOSE)


@pytest.fixture(scope="module")
def default():
    return setting()


def drawn(of, trials, seed=1):
    return Trials(of, trials, np.random.default_rng(seed))


def execution(multipliers):
    nothing = np.zeros(0)
    return Execution(multipliers, *[nothing] * 6)


@pytest.mark.parametrize("executions", quick(4, of=(2, 4)))
def test_checks_are_those_of_accept(executions):
    of = setting(executions=executions, tolerance=1e-3)
    trials = drawn(of, 3_000)
    rng = np.random.default_rng(2)
    # Shifts around the tolerance; every tenth den near zero; some AUC outside 0 … 1; some values not finite.
    shift = rng.choice([0.0, 1e-4, 1e-3, 1e-2], (3_000, 1)) * rng.standard_normal(trials.shape)
    outside = rng.choice([0.0, 0.0, 0.3], (3_000, 1)) * trials.products[..., 0]
    totals = trials.totals(trials.nums + shift + outside, trials.dens)
    totals.dens[::10] *= 10.0 ** rng.uniform(-12, 0, (300, 1))
    totals.nums[::10] *= 10.0 ** rng.uniform(-12, 0, (300, 1))
    totals.nums[5::100, 0] = np.nan
    verdicts = simulated.checked(trials, totals)
    seen = set()
    for index in range(3_000):
        pairs = np.stack([totals.nums[index], totals.dens[index]], axis=1).ravel()
        secrets = [execution(each) for each in trials.multipliers[index]]
        try:
            expected = accept(pairs, of.plan, secrets)
        except VerificationError as error:
            refused = error.check
        else:
            refused = simulated.ACCEPTED
            assert verdicts.values[index] == pytest.approx(complex(*expected), abs=1e-12)
        assert verdicts.refused_by[index] == refused
        seen.add(refused)
    assert seen == {simulated.ACCEPTED, "denominator", "executions", "range"}


def test_multipliers_are_distributed_like_the_protocols_and_positions_add_up(default):
    streams = (Stream(bytes(32), bytes(32), number) for number in range(3_000))
    real = np.array([Execution.draw(each, thresholds=2, splits=2, positions=8).multipliers for each in streams])
    fast = draw_multipliers(np.random.default_rng(3), 30_000)
    assert amplification(fast[0]) == pytest.approx(amplification(fast)[0])
    assert amplification(fast).max() <= 10
    for part in (np.abs, np.angle):
        for index in range(6):
            assert stats.ks_2samp(part(real[:, index]), part(fast[:, index])).pvalue > 1e-6
    assert stats.ks_2samp(amplification(real), amplification(fast)).pvalue > 1e-6
    trials = drawn(default, 20)
    np.testing.assert_allclose(trials.position_products.sum(axis=-1), trials.nums, rtol=1e-12)
    x, y = trials.position_factors
    np.testing.assert_allclose(x * y, trials.position_products, atol=1e-6)


@pytest.mark.parametrize("how_many", quick(1, 100, of=(1, 2, 5, 100)))
def test_chosen_positions_are_different_and_uniform(default, how_many):
    chosen = drawn(default, 500).chosen(how_many)
    assert all(len(set(each)) == how_many for each in chosen.reshape(-1, how_many))
    counts = np.bincount(chosen.ravel(), minlength=default.positions)
    expected = 2_000 * how_many / default.positions
    assert ((counts - expected) ** 2 / expected).sum() < stats.chi2.isf(1e-6, default.positions - 1)


@pytest.mark.parametrize("trials", quick(20_000, of=(20_000, 100_000)))
@pytest.mark.parametrize("executions", quick(4, of=(2, 4)))
@pytest.mark.parametrize("tolerance", [None, 1e-5])
def test_honest_trials_are_accepted(executions, tolerance, trials):
    outcome = simulated.honest(setting(executions=executions, tolerance=tolerance), trials, seed=4)
    assert outcome == AttackOutcome(trials, 0, 0, trials, {})


@pytest.mark.parametrize("name", quick("scale-num", of=LUCKY))
def test_pass_rates_of_two_executions_agree_with_the_estimate_and_stay_below_the_bound(loose, name):
    best = simulated.best(name, loose)
    estimate = simulated.estimate(name, loose, best, draws=10_000)
    outcome = simulated.run(name, loose, 50_000, seed=5, parameter=best)
    assert stats.binomtest(outcome.passed, outcome.trials, estimate).pvalue > 1e-4
    assert outcome.passed > 10
    if name in BOUNDED:  # and not far below it
        computed = bounds.of_strategy(name, loose)
        assert stats.binom.sf(outcome.passed - 1, outcome.trials, computed) > 1e-6
        assert outcome.passed / outcome.trials > computed / 60


@pytest.fixture
def unprotected(monkeypatch):
    """A planner that gives the extra element no more positions than any bin, as the paper does."""
    monkeypatch.setattr("fhe_auc_protocols.blinded_auc.workload.LEAST_EXTRA", 2)
    monkeypatch.setattr("fhe_auc_protocols.blinded_auc.plan.LEAST_POSITIONS", 1)


@pytest.mark.usefixtures("unprotected")
def test_guessing_one_bin_passes_as_often_as_computed():
    """Two thresholds, and all scores in the first bin: of L = 8 positions 2 are that bin's."""
    of = setting(executions=2, thresholds="uniform:2")
    assert (of.positions, of.extra) == (8, 4)
    outcome = simulated.run("scale-but-guessed", of, 200_000, seed=7, parameter=(-0.5, 2))
    assert stats.binomtest(outcome.passed, outcome.trials, 1 / math.comb(8, 2) ** 2).pvalue > 1e-6
    assert bounds.guessing(2, positions=8, thresholds=2, splits=2) >= 1 / math.comb(8, 2) ** 2


@pytest.mark.slow
@pytest.mark.usefixtures("unprotected")
def test_few_positions_of_the_extra_element_are_easily_missed():
    """127 thresholds leave it two of 256 positions. With all rows in one bin, half of the positions often miss it."""
    of = setting(executions=2, thresholds="uniform:127")
    assert of.extra == 2
    counts = Counts(np.r_[300, np.zeros(126, int)], np.r_[700, np.zeros(126, int)])
    one_bin = dataclasses.replace(of, counts=counts)
    outcome = simulated.run("scale-but-guessed", one_bin, 100_000, seed=11, parameter=(-0.2, 128))
    computed = (math.comb(252, 126) / math.comb(256, 128)) ** 2
    assert computed == pytest.approx(bounds.guessing(2, positions=256, thresholds=127, splits=2), rel=1e-6)
    assert stats.binomtest(outcome.passed, outcome.trials, computed).pvalue > 1e-6


@pytest.mark.parametrize("splits", [2, *(pytest.param(splits, marks=pytest.mark.slow) for splits in (3, 4))])
@pytest.mark.parametrize("executions", quick(4, of=(4, 8)))
def test_the_planner_leaves_no_grid_on_which_guessing_pays(executions, splits):
    """At the data that favour it most, for the sizes around those where another power of two begins."""
    sizes = {2, 3, 5, 10, 16, 30, 31, 32, 50, 63, 64}
    for positions in (128, 256, 512):
        largest = (positions - LEAST_EXTRA) // splits
        sizes |= {largest - 1, largest, largest + 1}
    for thresholds in sorted(sizes):
        workload = Workload(thresholds=thresholds, parties=3, classes=2 * executions, splits=splits, max_rows=10**5)
        for slots in (4096, 8192):
            packing = fitting_packing(workload, slots)
            positions = packing.blocks * packing.bins
            computed = bounds.guessing(executions, positions=positions, thresholds=thresholds, splits=splits)
            assert computed < 2e-10, (thresholds, slots)


FAMILIES = "scale-num", "add-constant", "drop-party", "zero-slots", "swap-executions", "chosen-values", "flip-bytes"


@pytest.mark.parametrize("name", quick(*FAMILIES, of=NOT_HARMLESS))
def test_nothing_passes_four_executions(default, name):
    trials = 20_000 if not STRATEGIES[name].by_position else 2_000
    outcome = simulated.run(name, default, trials, seed=8)
    assert outcome.passed == 0
    assert outcome.trials == trials == outcome.harmless + sum(outcome.refused.values())


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", NOT_HARMLESS)
def test_nothing_passes_ten_million_trials(default, name):
    assert simulated.run(name, default, 10**7, seed=9).passed == 0


def test_scaling_passes_with_equal_multipliers_and_leftover_masks_and_partial_sums_do_not(default):
    for executions in [2, 4]:
        of = setting(executions=executions, published=True)
        assert simulated.run("scale-num", of, 10_000, parameter=(-0.05,)).passed == 10_000
    assert simulated.run("drop-party", default, 1_000).refused.keys() <= {"executions", "range"}
    assert simulated.run("stop-rotations", default, 1_000).refused == {"slots": 1_000}
    copies = math.log2(default.plan.packing.copies)
    assert simulated.run("stop-rotations", default, 1_000, parameter=(copies,)).harmless == 1_000
    assert simulated.run("scale-all", default, 10_000).harmless == 10_000


@pytest.mark.parametrize("name", quick("scale-num", "scale-but-guessed", "add-constant", of=(*BOUNDED, LUCKY[2])))
def test_bounds_at_the_default_are_below_one_in_a_thousand_million(default, name):
    assert bounds.of_strategy(name, default) < 1e-9


def test_guessing_is_maximised_over_all_sizes():
    """Against the formula in the docstring, without leaving any size out."""

    def direct(executions, positions, thresholds, splits):
        return max(
            sum(
                (
                    math.comb(full, hit)
                    * math.comb(splits * (thresholds - full), size - splits * hit)
                    / math.comb(positions, size)
                )
                ** executions
                for hit in range(1, size // splits + 1)
                if hit <= full
            )
            for full in range(1, thresholds + 1)
            for size in range(1, positions + 1)
        )

    for shape in ((4, 1, 2), (8, 2, 2), (32, 10, 2), (64, 12, 4), (128, 60, 2)):
        positions, thresholds, splits = shape
        expected = direct(4, *shape)
        found = bounds.guessing(4, positions=positions, thresholds=thresholds, splits=splits)
        assert found == pytest.approx(expected, rel=1e-9, abs=0)


def test_density_of_products_and_coefficient_of_a_uniform_density():
    rng = np.random.default_rng(10)
    sample = rng.uniform(0.25, 1, (2, 100_000)).prod(axis=0)
    points = np.linspace(1 / 16, 1, 20_001)
    cumulative = np.cumsum(bounds.product_density(points)) * (points[1] - points[0])
    assert cumulative[-1] == pytest.approx(1, abs=1e-4)
    assert stats.kstest(sample, lambda t: np.interp(t, points, cumulative)).pvalue > 1e-6
    # C = ∫ |q|²/π² = 1/(2π) for q uniform in the unit disc, and (1/π²)·∫ (1 + s)²·2πs ds about a point at 1.
    distances = np.sqrt(np.linspace(0, 1, 400_001))
    ones = np.ones_like(distances)
    assert bounds.coefficient(distances, ones) == pytest.approx(1 / (2 * math.pi), rel=0.01)
    assert bounds.coefficient(distances, ones, centre=1.0) == pytest.approx((1 + 4 / 3 + 1 / 2) / math.pi, rel=0.01)


@pytest.mark.parametrize("window", [0.003, 0.03])
def test_pair_rate_of_a_density_that_is_known(window):
    """A constant shifts by c/r0: log|q| has the density of log(1/|r0|), and the phase is uniform."""
    only_constant = np.eye(bounds.TERMS)[0]
    sizes = np.log(np.abs(draw_multipliers(np.random.default_rng(1), 400_000)[:, :2]).prod(axis=1))
    density, edges = np.histogram(sizes, bins=200, density=True)
    of_logs = float((density**2).sum() * (edges[1] - edges[0])) / (2 * math.pi)
    computed = math.pi * 2 * window**2 * of_logs
    assert bounds.pair_rate(only_constant, window, draws=50_000) == pytest.approx(computed, rel=0.1)


@pytest.mark.slow
def test_a_search_climbs_the_pair_rate():
    rate, found = search(starts=1, seed=1, degree=2, draws=1_000, window=0.01)
    assert rate == bounds.pair_rate(found, 0.01, draws=10_000, seed=1)
    assert rate > 2 * bounds.pair_rate(np.eye(bounds.TERMS)[1], 0.01)  # scaling, which is one of the family


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("degree", [2, 4])
def test_no_search_finds_a_polynomial_much_worse_than_those_that_the_bound_takes(degree):
    window = bounds._window(5e-7)
    known = max(bounds.pair_rate(worst, window) for worst in bounds.WORST)
    rate, _ = search(starts=8, seed=99, degree=degree, window=window)
    assert rate < 1.5 * known


def test_clopper_pearson_bound_and_what_is_no_strategy():
    assert clopper_pearson(0, 100) == pytest.approx(1 - 0.05 ** (1 / 100))
    for passes, trials in ((3, 50), (20, 1000)):
        assert stats.binom.cdf(passes, trials, clopper_pearson(passes, trials)) == pytest.approx(0.05)
    assert (clopper_pearson(5, 5), len(STRATEGIES), HARM) == (1.0, 20, 0.001)
    with pytest.raises(InputError, match="no attack 'nonsense'"):
        simulated.run("nonsense", setting(), 1)

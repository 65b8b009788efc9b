from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from fhe_auc.base.errors import InputError, VerificationError
from fhe_auc_benchmarks.attacks.blinded_auc import simulated
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import (
    CORRECTION,
    EMPTIEST,
    FULLEST,
    LAST,
    Trials,
    generator,
    setting,
)
from fhe_auc_benchmarks.attacks.blinded_auc.strategies import STRATEGIES, _term
from fhe_auc_benchmarks.attacks.laboratory import HARM, AttackOutcome, clopper_pearson
from fhe_auc_protocols.blinded_auc import masked_shares
from fhe_auc_protocols.blinded_auc.masked_shares import Run, Stream
from fhe_auc_protocols.blinded_auc.plan import EXTRA, MAX_AMPLIFICATION, WEIGHT, largest_den_factor
from fhe_auc_protocols.blinded_auc.result_check import accept, solve


# Statistical tests have fixed seeds; what they allow would be exceeded with probability below 1e-6 otherwise.
def quick(*names, of):
    """Parameters of which all but these are slow."""
    return [pytest.param(name, marks=() if name in names else pytest.mark.slow) for name in of]


LUCKY = ("add-constant", "scale-last", "mix-classes", "scale-corrections", "scale-bin", "add-at-position")
SIMULATED = [name for name, strategy in STRATEGIES.items() if strategy.simulated_lie and name != "scale-all"]
FAMILIES = ("scale-last", "add-constant", "drop-party", "swap-runs", "zero-class", "turn-slots", "chosen-values")
TRIALS = 2_000


@pytest.fixture(scope="module")
def default():
    return setting()


def drawn(of, trials, seed=1, *, everywhere=False):
    return Trials(of, trials, np.random.default_rng(seed), everywhere=everywhere)


def secrets_of(trials, index):
    """What `accept` takes of a trial's runs."""
    matrices = masked_shares.equations(trials.products[index], trials.den_factors[index])
    return [SimpleNamespace(equations=each) for each in matrices]


@pytest.mark.parametrize("tolerance", [None, 1e-3])
def test_checks_are_those_of_accept(tolerance):
    of = setting(tolerance=tolerance)
    trials, rng = drawn(of, TRIALS), np.random.default_rng(2)
    # Numbers off by about the tolerance, in all eight equations or in a way that they do not show, or of one run; every
    # tenth den near zero; some AUC outside 0 … 1; some values not finite.
    numbers = trials.honest.copy()
    size = of.plan.tolerance * rng.choice([0.0, 0.1, 0.3, 1.0, 3.0], (TRIALS, 1, 1))
    of_runs = rng.choice([0, 1], (TRIALS, 2, 1))
    numbers += size * of_runs * (rng.standard_normal((*numbers.shape, 2)) @ (1, 1j))
    numbers += trials.products * rng.choice([0.0, 0.0, 0.3, -1.0, 0.9j], (TRIALS, 1, 1))
    totals = trials.totals(numbers)
    totals[::10] *= 10.0 ** rng.uniform(-16, 0, (TRIALS // 10, 1, 1))
    totals[1::10] *= 10.0 ** rng.uniform(0, 12, (TRIALS // 10, 1, 1))
    totals[5::100, 0, 1] = np.nan
    totals[6::100, 1, 0] = np.inf
    verdicts, seen = simulated.checked(trials, totals), set()
    for index, each in enumerate(totals):
        secrets = secrets_of(trials, index)
        try:
            expected = accept(each, of.plan, secrets)
        except VerificationError as error:
            refused = error.check
        else:
            refused = simulated.ACCEPTED
            assert verdicts.values[index] == pytest.approx(complex(*expected), abs=1e-12)
        assert verdicts.refused_by[index] == refused
        if refused not in ("finite", "denominator"):
            assert verdicts.left[index] == pytest.approx(solve(each, secrets).left, rel=1e-6, abs=1e-13)
        seen.add(refused)
    assert seen == {simulated.ACCEPTED, *simulated.REFUSALS}


@pytest.fixture(scope="module")
def real_runs(default):
    """A, B and c of the protocol's runs; Y, X₀, X₁ and Y·X₀ of a full and an empty bin, a correction, the last."""
    counts, found = default.counts, []
    fullest = int(np.argmax(np.abs(counts.trapezoid_heights + 1j * counts.bin_positives) * counts.bin_negatives))
    places = [fullest, counts.thresholds, default.plan.positions - EXTRA, default.plan.positions - 1]
    for number in range(TRIALS):
        run = Run.draw(Stream(bytes(32), bytes(32), number), default.plan.positions)
        y, x = (each[..., np.argsort(run.order)[places]] for each in run.vectors(counts))
        y, x = y / counts.negatives, x / (2 * counts.positives)
        found.append((*run.factors, run.common, *run.den_factors, *y, *x.flat, *x[0] * y))
    return np.array(found)


@pytest.mark.parametrize("everywhere", [False, True])
def test_runs_are_distributed_like_the_protocols(default, real_runs, everywhere):
    """Whether all positions are drawn, or sums over all bins but two are Gaussians."""
    trials = drawn(default, TRIALS // 2, everywhere=everywhere)
    at = [FULLEST, EMPTIEST, CORRECTION, LAST]
    x, y = (each[..., at] for each in trials.positions)
    values = trials.factors, trials.common, trials.den_factors, y, x[:, :, 0], x[:, :, 1], x[:, :, 0] * y
    fast = np.concatenate([each.reshape(-1, each.shape[-1]) for each in values], axis=1)
    for one, other in zip(real_runs.T, fast.T, strict=True):
        for part in (np.real, np.imag, np.abs):
            assert stats.ks_2samp(*(np.round(part(each), 6) for each in (one, other))).pvalue > 1e-6
    # What two numbers have in common shows in their products.
    for one, other in ((3, 4), (3, 7), (7, 8), (8, 4), (3, 12)):
        products = [(each[:, one] * each[:, other].conj()).real for each in (real_runs, fast)]
        assert stats.ks_2samp(*products).pvalue > 1e-6


def test_positions_add_up_and_secrets_are_drawn_again_as_the_protocol_does(default):
    trials = drawn(default, 50, everywhere=True)
    x, y = trials.positions
    np.testing.assert_allclose(np.einsum("trcp,trp->trc", x, y), trials.honest, atol=1e-4)
    assert y.shape[-1] == default.plan.positions == len(default.bins[0]) + EXTRA
    assert np.abs(trials.den_factors).max() <= largest_den_factor(default.plan.positions)
    for products, shares in zip(trials.products.reshape(-1, 2), trials.den_factors.reshape(-1, 2), strict=True):
        assert masked_shares.amplification(np.abs(products) ** 2, shares) <= MAX_AMPLIFICATION


def test_terms_at_a_position_are_those_of_alpha_z_squared_and_beta_z(default):
    """In polynomials: x⁴ is 1, w·Y in component 0, and X/w in components 1 and 3."""
    trials = drawn(default, 20)
    x, y = (each[..., LAST] for each in trials.positions)
    counts = default.counts
    z = np.zeros((4, *y.shape), complex)
    z[0], z[1], z[3] = WEIGHT * counts.negatives * y, *2 * counts.positives / WEIGHT * np.moveaxis(x, -1, 0)

    def times(left, right):
        return np.array([sum(left[one] * right[(k - one) % 4] for one in range(4)) for k in range(4)])

    den = 2.0 * counts.positives * counts.negatives
    units = [2 * den] * 4 + [2 * counts.positives / WEIGHT, WEIGHT * counts.negatives] * 2  # whose beta is a factor
    for term, unit in enumerate(units):
        factor = np.zeros(z.shape, complex)
        factor[term % 4] = 1
        expected = times(factor, times(z, z) if term < 4 else z)[[1, 3]] / unit
        np.testing.assert_allclose(_term(trials, LAST, term), np.moveaxis(expected, 0, -1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("trials", quick(20_000, of=(20_000, 100_000)))
@pytest.mark.parametrize("tolerance", [None, 1e-5])
def test_honest_trials_are_accepted_and_little_is_left(tolerance, trials):
    of = setting(tolerance=tolerance)
    assert simulated.run("scale-all", of, trials, seed=4) == AttackOutcome(trials, 0, 0, trials, {})
    each = drawn(of, trials)
    found = simulated.checked(each, each.totals(each.honest))
    assert set(found.refused_by) == {simulated.ACCEPTED}
    assert found.left.max() < of.plan.tolerance / 10


@pytest.mark.parametrize("name", quick("add-constant", of=LUCKY))
def test_the_looser_the_tolerance_the_more_pass_as_its_fifth_power_or_less(name):
    best = simulated.best(name, setting())
    rates = []
    for tolerance in (6e-4, 3e-4):
        outcome = simulated.run(name, setting(tolerance=tolerance), 400_000, seed=5, parameter=best)
        rates.append(outcome.passed)
    loose, tight = rates
    assert loose > 100  # so what is refused at the planned tolerance is not refused for being played badly
    assert tight < loose / 8


@pytest.mark.parametrize("name", quick(*FAMILIES, of=SIMULATED))
def test_nothing_passes_at_the_planned_tolerance(default, name):
    trials = 20_000 if not STRATEGIES[name].everywhere else 2_000
    outcome = simulated.run(name, default, trials, seed=8)
    assert outcome.passed == 0
    assert outcome.trials == trials == outcome.harmless + sum(outcome.refused.values())


def test_what_changes_no_auc_is_harmless_and_what_is_no_number_is_refused(default):
    assert simulated.run("scale-all", default, 10_000).harmless == 10_000
    assert simulated.run("garbage", default, 1_000).refused["finite"] > 100
    assert simulated.run("flip-bytes", default, 1_000) is None


def test_clopper_pearson_bound_and_what_is_no_strategy():
    assert clopper_pearson(0, 100) == pytest.approx(1 - 0.05 ** (1 / 100))
    for passes, trials in ((3, 50), (20, 1000)):
        assert stats.binom.cdf(passes, trials, clopper_pearson(passes, trials)) == pytest.approx(0.05)
    assert (clopper_pearson(5, 5), len(STRATEGIES), HARM) == (1.0, 33, 0.001)
    with pytest.raises(InputError, match="no attack 'nonsense'"):
        simulated.run("nonsense", setting(), 1)
    assert generator(1, 2).random() == generator(1, 2).random()

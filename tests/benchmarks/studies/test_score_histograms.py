"""How far off private score histograms are: the code of docs/evidence/studies/score_histograms.py.

Noise is simulated. Seeds are fixed, so that nothing fails by chance; with other seeds a test would with the
probability that it states.
"""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import hyp2f1

import score_histograms as bench
from fhe_auc import metrics
from fhe_auc.metrics import Histogram
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.histograms import hierarchical_counts as hierarchy
from fhe_auc_protocols.histograms.unary_encoding import UnaryEncoding, UnaryHierarchy

LAWS = bench.laws()
QUICK = {"AUC, no noise, by B", "AUC, distributed, by ε", "AUC, local, by ε", "accuracy, no noise, by B"}
either = pytest.mark.parametrize("model", bench.MODELS)


@pytest.fixture(scope="module")
def pool() -> bench.CountedRows:
    return bench.CountedRows(bench.bell(np.random.default_rng(10)))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in LAWS],
)
def test_errors_fall_as_the_analysis_says(name: str) -> None:
    """With eight other seeds slopes had standard deviations of at most 0.01, and means off by at most 0.02.

    What is left of 0.06 is 5 deviations or more: a false alarm of less than 1e-6 each.
    """
    law = LAWS[name]
    assert law.fitted() == pytest.approx(law.slope, abs=0.06)


@either
def test_the_noise_of_the_auc_is_that_of_its_counts(model: str) -> None:
    """To first order, with F the share of negatives below a bin, ties half, and G that of positives above:

    Var AUC = Σ_i Var p_i ((F_i − AUC)/P)² + Var n_i ((G_i − AUC)/N)². Of 1,000 draws a standard deviation varies by
    2.2 %, and 12 % is more than 5 of that: a false alarm of less than 1e-7.
    """
    draw, _, epsilon, _ = bench.MODELS[model]
    counts = bench.expected_counts(bench.bell_edges(30), 1e6)
    p, n = counts
    below, above = (np.cumsum(n) - n / 2) / n.sum(), (p.sum() - np.cumsum(p) + p / 2) / p.sum()
    auc = bench.auc_of(counts)
    if model == "local":
        variance = UnaryEncoding(60, epsilon).variance(counts, counts.sum())
    else:
        variance = np.full(counts.shape, 2 * math.exp(-epsilon) / (1 - math.exp(-epsilon)) ** 2)
    gradient = np.stack([(below - auc) / p.sum(), (above - auc) / n.sum()])
    found = [bench.auc_of(noisy) for noisy in draw(counts, epsilon, runs=1000, random=np.random.default_rng(11))]
    assert np.std(found) == pytest.approx(math.sqrt((variance * gradient**2).sum()), rel=0.12)


@pytest.mark.parametrize("model", ["distributed", pytest.param("local", marks=pytest.mark.slow)])
def test_counts_and_every_metric_are_unbiased(model: str) -> None:
    """Means of 1,000 draws, 45 in all: one is off by 6 standard errors less than once in 10^7."""
    draw, _, epsilon, _ = bench.MODELS[model]
    edges = bench.bell_edges(20)
    true = bench.expected_counts(edges, 1e6)
    noisy = draw(true, epsilon, runs=1000, random=np.random.default_rng(12))

    def all_of(counts: np.ndarray) -> list[float]:
        histogram = Histogram(edges, *counts)
        at = metrics.decision_metrics(histogram, float(edges[13]))
        of_decisions = (at[name].value for name in ("precision", "recall", "accuracy"))
        return [metrics.roc_auc_score(histogram).value, *of_decisions, metrics.brier_score_loss(histogram).value]

    for drawn, truth in ((noisy, true), (np.array([all_of(counts) for counts in noisy]), np.array(all_of(true)))):
        standard_error = drawn.std(axis=0) / math.sqrt(1000)
        assert (np.abs(drawn.mean(axis=0) - truth) < 6 * standard_error).all()
        assert (standard_error > 0).all()


def test_simulated_levels_have_the_law_of_real_ones() -> None:
    """Two samples of 300, Kolmogorov–Smirnov on 14 counts: false alarm below 1e-6 in all."""
    data = bench.bell(np.random.default_rng(15), 300)
    exact, random = hierarchy.count(data, 3), np.random.default_rng(16)
    tree, cells, source = UnaryHierarchy(3, 2.0), hierarchy.cells(data, 3), exact_sampling.SeededExperiment(random)
    real, simulated, other = (
        np.array([np.concatenate(draw().levels) for _ in range(300)])
        for draw in (
            lambda: hierarchy.HierarchicalCounts(tree.estimate(tree.tallies(cells, source))),
            lambda: bench.local_hierarchy(exact, 2.0, random),
            lambda: bench.local_hierarchy(exact, 0.5, random),
        )
    )
    for column in range(14):
        assert stats.ks_2samp(real[:, column], simulated[:, column]).pvalue > 1e-7
        assert stats.ks_2samp(real[:, column], other[:, column]).pvalue < 1e-7


def test_how_rows_are_dealt_out_has_no_influence_on_local_noise() -> None:
    """Sorted, or dealt at random, or nearly all with one: Kolmogorov–Smirnov on 6 counts, twice; 1e-6 in all."""
    cells = np.repeat(np.arange(6), (5, 40, 10, 3, 30, 12))
    encoding, random = UnaryEncoding(6, 1.0), np.random.default_rng(17)
    source = exact_sampling.SeededExperiment(random)

    def pooled(parties: list[np.ndarray]) -> np.ndarray:
        return np.array([sum(encoding.tally(mine, source) for mine in parties) for _ in range(400)])

    alike = pooled(np.array_split(random.permutation(cells), 5))
    for deal in (np.array_split(cells, 5), [cells[:96], *np.array_split(cells[96:], 4)]):
        for found, usual in zip(pooled(deal).T, alike.T, strict=True):
            assert stats.ks_2samp(found, usual).pvalue > 1e-7


@pytest.mark.parametrize(("bins", "most"), [(20, 2e-3), (60, 2e-4), (100, 5e-5)])
def test_without_noise_the_auc_is_within_its_target(pool: bench.CountedRows, bins: int, most: float) -> None:
    assert pool.error(pool.quantile_bins(bins)) <= most


@pytest.mark.parametrize("bins", [20, *(pytest.param(bins, marks=pytest.mark.slow) for bins in (60, 100))])
def test_with_distributed_noise_the_auc_is_within_two_thousandths(pool: bench.CountedRows, bins: int) -> None:
    """Every run of 20; the noise alone, 3e-5, would have to be 30 times as large."""
    assert pool.private_errors(bins, "distributed", np.random.default_rng(19), 20).max() <= 2e-3


@pytest.mark.parametrize("bins", [20, *(pytest.param(bins, marks=pytest.mark.slow) for bins in (10, 15))])
def test_with_local_noise_the_auc_is_within_a_hundredth(pool: bench.CountedRows, bins: int) -> None:
    """On average over 20 runs: 4e-3, of which a standard error is 6e-4. False alarm below 1e-9."""
    assert pool.private_errors(bins, "local", np.random.default_rng(20), 20).mean() <= 1e-2


@pytest.mark.slow
def test_quantile_bins_beat_uniform_ones_several_times_on_squeezed_scores() -> None:
    squeezed = bench.CountedRows(bench.squeezed(np.random.default_rng(21)), 14)
    for bins in (10, 20, 60, 100):
        uniform = Histogram.from_rows(squeezed.data, np.linspace(0, 1, bins + 1))
        assert squeezed.error(squeezed.quantile_bins(bins)) < squeezed.error(uniform) / 20


NOISY = (("distributed", 11, 1e-3), ("local", 8, 1e-2))


@pytest.mark.parametrize(
    ("model", "height", "most"),
    [("federated", 14, 1e-4), *(pytest.param(*each, marks=pytest.mark.slow) for each in NOISY)],
)
def test_decisions_at_ten_thresholds_are_within_their_targets(model: str, height: int, most: float) -> None:
    """Means of 5 runs, at the worst threshold: 2e-5, 2e-4, and 6e-3 (precision, where few rows are left; else 2e-3)."""
    data = bench.even(np.random.default_rng(22))
    found = bench.decision_errors(data, height, model, np.random.default_rng(23), 5)
    assert found.max() <= most
    if model == "local":
        assert found[1:].max() <= 5e-3
        assert np.median(found) <= 5e-3


@pytest.mark.slow
def test_calibrated_scores_are_within_a_hundredth_and_distributed_noise_does_not_show() -> None:
    random = np.random.default_rng(24)
    one, other = bench.overconfident(random), bench.overconfident(random)
    before = bench.calibration_error(other, other.y_score)
    errors = {}
    for model, height in (("federated", 8), ("distributed", 8), ("local", 4)):
        found = metrics.bayesian_binning(bench.noisy(bench.equal_bins(one, height), model, random))
        errors[model] = bench.calibration_error(other, found(other.y_score))
    assert before > 0.1
    assert max(errors.values()) <= 0.01
    assert abs(errors["distributed"] - errors["federated"]) < 1e-3


def fallen_short(epsilon: float, shares: int, needed: int) -> float:
    """Return the budget that is really spent where s `shares` hide a row, of the n `needed` or fewer.

    n is `distributed_noise.noise_parties`; s, 0 or more, are shares of parties that neither vanished nor tell theirs.
    epsilon is the session's.

    The law of s shares of n is NB(r, p) − NB(r, p), r = s/n, p = e^−ε. For r < 1 the ratio P[k]/P[k+1] is largest at
    k = 0, and P[k] = (1 − p)^2r C(k + r − 1, k) p^k F(r, r + k; k + 1; p²), with Gauß's F. So still pure differential
    privacy, with a larger budget, infinite without a share.
    """
    if shares >= needed:
        return epsilon
    if shares == 0:
        return math.inf
    r, p = shares / needed, math.exp(-epsilon)
    return math.log(hyp2f1(r, r, 1, p * p) / (r * p * hyp2f1(r, r + 1, 2, p * p)))


def test_a_coalition_weakens_the_promise_by_as_much_as_is_said_and_all_together_void_it() -> None:
    for epsilon in [0.1, 1.0, 3.0]:
        for shares in [1, 5, 8]:
            one = stats.nbinom.pmf(np.arange(6000), shares / 9, -np.expm1(-epsilon))
            law = np.convolve(one, one[::-1])[5999:6061]
            worst = np.log(law[:-1] / law[1:]).max()
            assert fallen_short(epsilon, shares, 9) == pytest.approx(worst, rel=1e-9)
            assert worst > epsilon
    assert (fallen_short(1.0, 9, 9), fallen_short(1.0, 12, 9)) == (1.0, 1.0)
    assert fallen_short(1.0, 0, 9) == math.inf

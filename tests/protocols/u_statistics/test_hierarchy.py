"""Hierarchical histograms: the oracle's law and constant, the recursion against the paper's, theorem 3.

Random numbers are seeded; false-alarm probabilities as in test_krr.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fhe_auc.base.errors import InputError
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.u_statistics.hadamard import HadamardTree
from fhe_auc_protocols.u_statistics.hierarchy import HierarchicalAuc

RUNS = 2000
few = settings(max_examples=25)


def seeded(seed: int) -> exact_sampling.SeededExperiment:
    return exact_sampling.SeededExperiment(np.random.default_rng(seed))


def hierarchical_histogram(leaf_counts: np.ndarray) -> list[np.ndarray]:
    """Return the users under each node, level by level from the root, of so many at each of 2^α leaves."""
    levels = [leaf_counts.astype(float)]
    while len(levels[0]) > 1:
        levels.insert(0, levels[0].reshape(-1, 2).sum(axis=1))
    return levels


def test_a_device_reports_each_level_row_and_sign_with_its_probability() -> None:
    depth, epsilon, users, leaf = 3, 1.0, 300_000, 5
    tree = HadamardTree(depth, epsilon)
    tally = tree.tally(np.full(users, leaf), exact_sampling.secure())
    kept = math.exp(epsilon) / (math.exp(epsilon) + 1)
    expected = np.zeros_like(tally, float)
    for level in range(1, depth + 1):
        for row in range(1 << level):
            minus = bin(row & (leaf >> (depth - level))).count("1") % 2
            for sign in (0, 1):
                expected[sign, (1 << level) + row] = (
                    users / depth / (1 << level) * (kept if sign == minus else 1 - kept)
                )
    assert tally.sum() == users
    assert (tally[expected == 0] == 0).all()
    assert chisquare(tally[expected > 0], expected[expected > 0]).pvalue > 1e-6


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 32.0])
def test_the_scale_of_signs_has_all_its_digits(epsilon: float) -> None:
    flipped = Fraction(exact_sampling.threshold(1, 1, epsilon), 2**64)
    assert HadamardTree(3, epsilon).scale == pytest.approx(float(1 / (1 - 2 * flipped)), rel=1e-15)


def test_node_estimates_are_unbiased_with_the_stated_variance_and_covariance() -> None:
    depth, epsilon, users = 3, 1.5, 400
    tree = HadamardTree(depth, epsilon)
    drawn = np.random.default_rng(1).integers(0, 5, users)  # leaves 5 to 7 are empty
    truth = np.concatenate(hierarchical_histogram(np.bincount(drawn, minlength=8)))
    source = seeded(2)
    found = np.array([np.concatenate(tree.estimate(tree.tally(drawn, source))) for _ in range(RUNS)])
    errors = (found.mean(axis=0) - truth)[1:]
    assert (np.abs(errors) < 4 * found.std(axis=0, ddof=1)[1:] / math.sqrt(RUNS)).all()
    assert (found[:, 0] == users).all()
    scale = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    assert tree.constant == pytest.approx(scale**2)
    variance = users * depth * scale**2 - truth[1:]
    # A sample variance of 2,000 has a relative deviation of 3 %.
    assert found.var(axis=0, ddof=1)[1:] == pytest.approx(variance, rel=0.15)
    assert (variance <= tree.variance_bound(users)).all()
    # Same level: uncorrelated. Different levels: minus the users under both. Deviation of a covariance: variance/√RUNS.
    slack = 5 * tree.variance_bound(users) / math.sqrt(RUNS)
    covariance = np.cov(found.T)
    start = {level: (1 << level) - 1 for level in range(depth + 1)}
    nodes = [(level, p) for level in (1, 2, 3) for p in range(1 << level)]
    for (upper, p), (lower, q) in itertools.combinations(nodes, 2):
        both = truth[start[lower] + q] if upper < lower and q >> (lower - upper) == p else 0
        assert abs(covariance[start[upper] + p, start[lower] + q] + both) < slack


def test_what_is_out_of_range_is_refused() -> None:
    for depth, epsilon, message in ((0, 1.0, "alpha"), (21, 1.0, "alpha"), (-1, 1.0, "alpha"), (3, 9e-7, "epsilon")):
        with pytest.raises(InputError, match=message):
            HadamardTree(depth, epsilon)
    for leaf in (-1, 8):
        with pytest.raises(InputError, match="leaves"):
            HadamardTree(3, 1.0).tally(np.array([leaf]), seeded(0))


def papers_recursion(plus: list, minus: list, v_plus: float, v_minus: float, a: float, level: int = 0, p: int = 0):
    """Return UAUC of node p by [USTAT] eq. 10 as it is written, ties at leaves counted half."""
    if level == len(plus) - 1:
        return plus[level][p] * minus[level][p] / 2
    tilde_plus = max(plus[level][p], math.sqrt(a * v_plus) / 2)
    tilde_minus = max(minus[level][p], math.sqrt(a * v_minus) / 2)
    left, right = 2 * p, 2 * p + 1
    if tilde_plus * tilde_minus < a * math.sqrt(v_plus * v_minus):
        return (plus[level + 1][left] + plus[level + 1][right]) * (minus[level + 1][left] + minus[level + 1][right]) / 2
    return plus[level + 1][right] * minus[level + 1][left] + sum(
        papers_recursion(plus, minus, v_plus, v_minus, a, level + 1, child) for child in (left, right)
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_recursion_by_levels_is_the_papers(seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree = HadamardTree(5, 3.0)
    method = HierarchicalAuc(tree, 3000, 9000)
    tallies = [
        tree.tally(generator.integers(0, 32, n), exact_sampling.SeededExperiment(generator)) for n in (3000, 9000)
    ]
    found = method.estimate(*tallies)
    plus, minus = map(tree.estimate, tallies)
    expected = papers_recursion(plus, minus, tree.variance_bound(3000), tree.variance_bound(9000), method.a)
    assert found.auc == pytest.approx(expected / 3000 / 9000, abs=1e-12)
    # Some nodes are discarded, and not the root alone.
    assert found.auc != pytest.approx(method.recurse(plus, minus, discard=False).auc, abs=1e-6)
    assert found.auc != pytest.approx(0.5, abs=1e-6)


@few
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7)), min_size=2, max_size=60))
def test_without_noise_and_discarding_it_is_scikit_learns_auc(rows: list) -> None:
    from sklearn.metrics import roc_auc_score

    labels, scores = np.array([y for y, _ in rows]), np.array([s for _, s in rows])
    if labels.all() or not labels.any():
        return
    method = HierarchicalAuc(HadamardTree(3, 1.0), int(labels.sum()), int((~labels).sum()))
    exact = (hierarchical_histogram(np.bincount(scores[of], minlength=8)) for of in (labels, ~labels))
    assert method.recurse(*exact, discard=False).auc == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def beta_leaves(generator: np.random.Generator, users: int, share: float, depth: int) -> tuple[np.ndarray, np.ndarray]:
    positives = round(users * share)
    drawn = generator.beta(4, 2, positives), generator.beta(2, 4, users - positives)
    return tuple((scores * 2**depth).astype(np.int64) for scores in drawn)


def truth_of(plus: np.ndarray, minus: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    labels = np.repeat([1, 0], [len(plus), len(minus)])
    return roc_auc_score(labels, np.concatenate([plus, minus]))


def test_without_discarding_the_auc_is_unbiased_and_discarding_biases_it_by_less_than_its_error() -> None:
    plus, minus = beta_leaves(np.random.default_rng(5), 2000, 0.3, 4)
    tree, source = HadamardTree(4, 2.0), seeded(6)
    method = HierarchicalAuc(tree, len(plus), len(minus))
    whole, discarding = [], []
    for _ in range(RUNS // 2):
        noisy = [tree.estimate(tree.tally(of, source)) for of in (plus, minus)]
        whole.append(method.recurse(*noisy, discard=False).auc)
        discarding.append(method.recurse(*noisy))
    truth = truth_of(plus, minus)
    assert abs(np.mean(whole) - truth) < 4 * np.std(whole) / math.sqrt(RUNS // 2)
    found = [of.auc for of in discarding]
    assert abs(np.mean(found) - truth) < np.std(found)
    assert np.std(found) < np.std(whole)  # what discarding is for
    assert np.mean([of.noise_error for of in discarding]) == pytest.approx(np.std(found), rel=0.2)


def test_theorem_3_in_its_own_words() -> None:
    method = HierarchicalAuc(HadamardTree(8, 1.0), 300, 700)
    c = ((math.e + 1) / (math.e - 1)) ** 2
    uauc = c * 300 * 700 * 8**2 * (2000 + 9 * 300 + 21 * math.sqrt(2 * 1000 * c * 2) / (math.sqrt(2) - 1))
    assert method.theorem_3(2.0) == pytest.approx(uauc / (300 * 700) ** 2)

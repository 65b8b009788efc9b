"""Randomised responses and hierarchies: exact probabilities, unbiased estimates, theorems 1 and 3.

Random numbers are seeded. "Four standard errors" fails for a right mean with probability 6e-5, a p-value below 1e-6
with probability 1e-6.
"""

import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fhe_auc.base.errors import InputError
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.u_statistics.mechanisms import HadamardTree, RandomisedResponse, bins_by_rule
from tests.support.lazy import Lazy

roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

RUNS = 1000


def seeded(seed: int) -> exact_sampling.SeededExperiment:
    return exact_sampling.SeededExperiment(np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        *((partial(RandomisedResponse, 4, epsilon), f"must lie between 0.000001 and 32, got {epsilon!r}")
          for epsilon in (0, 33, 9e-7)),
        *((partial(RandomisedResponse, 4, epsilon), f"epsilon must be a number, got {epsilon!r}")
          for epsilon in (math.nan, True, "1", None)),
        *((partial(RandomisedResponse, k, 1.0), f"needs 2 to 4,096 values, got {k:,}") for k in (-1, 0, 1, 4097)),
        *((partial(HadamardTree, depth, 1.0), f"between 1 and 20, got {depth}") for depth in (-1, 0, 21)),
        (partial(HadamardTree, 3, 9e-7), "epsilon must lie between"),
    ],
)  # fmt: skip
def test_what_is_out_of_range_is_refused_with_its_value(made: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        made()


@pytest.mark.parametrize("k", [2, 4096])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 32.0])
def test_the_share_that_is_kept_has_all_its_digits(k: int, epsilon: float) -> None:
    response = RandomisedResponse(k, epsilon)
    kept = 1 - Fraction(exact_sampling.threshold(k, k - 1, epsilon), 2**64)
    assert response.kept == pytest.approx(float(kept), rel=1e-15)
    bound = (Fraction(2, 10) / kept**2 + Fraction(1, 100) / kept**4) / 4
    assert response.variance_bound(10, 10) == pytest.approx(float(bound), rel=1e-12)
    counts = [1, *[0] * (k - 1)]
    assert response.shares(counts)[0] == pytest.approx(float((1 - (1 - kept) / k) / kept), rel=1e-12)


def test_the_estimates_variance_is_hoeffdings_by_enumeration_of_users_and_reports() -> None:
    (m, n), k = (2, 3), 3
    response, order = RandomisedResponse(k, 1.0), (np.sign(np.subtract.outer(range(k), range(k))) + 1) / 2
    first_shares, second_shares = np.array([0.1, 0.3, 0.6]), np.array([0.5, 0.3, 0.2])
    law = response.kept * np.eye(k) + response.beta / k  # of the report, given the value
    firsts, seconds = (np.array(list(itertools.product(range(k), repeat=size))) for size in (m, n))
    counts = [[np.bincount(each, minlength=k) for each in of] for of in (firsts, seconds)]
    found = np.array([[response.auc(positives, negatives).auc for negatives in counts[1]] for positives in counts[0]])

    def mean(first_laws: np.ndarray, second_laws: np.ndarray, values: np.ndarray) -> float:
        """Of what all reports give, where each user reports by the law of its row."""
        likely = [
            np.prod([of[reports] for of, reports in zip(laws, each.T, strict=True)], axis=0)
            for laws, each in ((first_laws, firsts), (second_laws, seconds))
        ]
        return float(likely[0] @ values @ likely[1])

    of_first, of_second, truth = first_shares @ law, second_shares @ law, first_shares @ order @ second_shares
    assert mean([of_first] * m, [of_second] * n, found) == pytest.approx(truth, abs=1e-12)
    variance = mean([of_first] * m, [of_second] * n, found**2) - truth**2
    centred = np.eye(k) - response.beta / k
    pair = centred @ order @ centred.T / response.kept**2
    v10, v01 = of_first @ (pair @ of_second) ** 2 - truth**2, of_second @ (of_first @ pair) ** 2 - truth**2
    v11 = of_first @ pair**2 @ of_second - truth**2 - v10 - v01
    assert variance == pytest.approx(v10 / m + v01 / n + v11 / (m * n), rel=1e-10)
    assert variance < response.variance_bound(m, n)
    for positives, negatives in itertools.product(firsts, seconds):  # given the users, too
        own = order[np.ix_(positives, negatives)].mean()
        assert mean(law[positives], law[negatives], found) == pytest.approx(own, abs=1e-12)


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (5, 0.5), (5, 3.0)])
def test_devices_report_with_the_stated_probabilities(k: int, epsilon: float) -> None:
    users = 200_000
    reports = RandomisedResponse(k, epsilon).tally(np.full(users, 1), exact_sampling.secure())
    shares = np.full(k, 1.0)
    shares[1] = math.exp(epsilon)
    assert chisquare(reports, users * shares / shares.sum()).pvalue > 1e-6


@pytest.mark.parametrize(
    ("k", "epsilon", "positives", "negatives"), [(2, 1.0, 50, 50), (10, 2.0, 60, 300), (36, 1.0, 400, 1600)]
)
def test_the_auc_is_unbiased_given_the_users_varies_as_it_says_and_less_than_theorem_1(
    k: int, epsilon: float, positives: int, negatives: int
) -> None:
    generator, source, response = np.random.default_rng(9), seeded(10), RandomisedResponse(k, epsilon)
    shares = np.arange(1, k + 1) / (k * (k + 1) / 2)
    rows = generator.choice(k, positives, p=shares), generator.choice(k, negatives, p=shares[::-1])
    found = [response.auc(*(response.tally(of, source) for of in rows)) for _ in range(RUNS)]
    aucs, ties = [of.auc for of in found], [of.ties for of in found]
    truth = roc_auc_score(np.repeat([1, 0], [positives, negatives]), np.concatenate(rows))
    assert abs(np.mean(aucs) - truth) < 4 * np.std(aucs, ddof=1) / math.sqrt(RUNS)
    assert np.var(aucs) < found[0].noise_bound
    # Estimated from few users, and without the second-order term.
    assert np.median([of.noise_error for of in found]) == pytest.approx(np.std(aucs), rel=0.35)
    tied = np.equal.outer(*rows).mean() / 2
    assert abs(np.mean(ties) - tied) < 4 * np.std(ties, ddof=1) / math.sqrt(RUNS)


def test_the_number_of_bins_follows_the_papers_rule() -> None:
    asked = (10_000, 1.0), (10_000, 0.25), (2, 0.01), (10**12, 32.0)
    assert [bins_by_rule(*each) for each in asked] == [10, 5, 2, 4096]


# --- Hierarchies ------------------------------------------------------------------------------------------------------


def hierarchical_histogram(leaf_counts: np.ndarray) -> list[np.ndarray]:
    """Return the users under each node, level by level from the root, of so many at each of 2^α leaves."""
    levels = [leaf_counts.astype(float)]
    while len(levels[0]) > 1:
        levels.insert(0, levels[0].reshape(-1, 2).sum(axis=1))
    return levels


def law(tree: HadamardTree, epsilon: float, leaf: int) -> np.ndarray:
    """The probability of each report of a device with this leaf, as a tally has them, by definition."""
    kept, found = math.exp(epsilon) / (math.exp(epsilon) + 1), np.zeros(tree.shape)
    for level in range(1, tree.depth + 1):
        for row in range(1 << level):
            minus = bin(row & (leaf >> (tree.depth - level))).count("1") % 2
            found[[minus, 1 - minus], (1 << level) + row] = np.array([kept, 1 - kept]) / tree.depth / (1 << level)
    return found


def test_a_device_reports_each_level_row_and_sign_with_its_probability() -> None:
    users, tree = 300_000, HadamardTree(3, 1.0)
    tally, expected = tree.tally(np.full(users, 5), exact_sampling.secure()), users * law(tree, 1.0, 5)
    assert tally.sum() == users
    assert (tally[expected == 0] == 0).all()
    assert chisquare(tally[expected > 0], expected[expected > 0]).pvalue > 1e-6


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 32.0])
def test_the_scale_of_signs_has_all_its_digits(epsilon: float) -> None:
    flipped = Fraction(exact_sampling.threshold(1, 1, epsilon), 2**64)
    assert HadamardTree(3, epsilon).scale == pytest.approx(float(1 / (1 - 2 * flipped)), rel=1e-15)


def test_node_estimates_are_unbiased_with_the_stated_variance_and_covariance() -> None:
    """By all reports of one user; users are independent, and their tallies add up."""
    tree, scale = HadamardTree(3, 1.5), (math.exp(1.5) + 1) / (math.exp(1.5) - 1)
    estimates = np.array([np.concatenate(tree.estimate(each)) for each in np.eye(32, dtype=int).reshape(32, 2, 16)])
    for leaf in range(8):
        likely, under = law(tree, 1.5, leaf).ravel(), np.concatenate(hierarchical_histogram(np.eye(8)[leaf]))
        assert likely @ estimates == pytest.approx(under, abs=1e-9)
        # Same level: uncorrelated. Different levels: minus the users under both. The root is no estimate.
        covariance = (estimates.T * likely) @ estimates - np.outer(under, under)
        expected = 3 * scale**2 * np.eye(14) - np.outer(under, under)[1:, 1:]
        assert covariance[1:, 1:] == pytest.approx(expected, abs=1e-9)
    assert (tree.constant, tree.variance_bound(7)) == pytest.approx((scale**2, 7 * 3 * scale**2))


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
    tallies = [
        tree.tally(generator.integers(0, 32, n), exact_sampling.SeededExperiment(generator)) for n in (3000, 9000)
    ]
    found = tree.auc(*tallies)
    plus, minus = map(tree.estimate, tallies)
    expected = papers_recursion(
        plus, minus, tree.variance_bound(3000), tree.variance_bound(9000), tree.discarding(3000, 9000)
    )
    assert found.auc == pytest.approx(expected / 3000 / 9000, abs=1e-12)
    # Some nodes are discarded, and not the root alone.
    assert found.auc != pytest.approx(tree.recurse(plus, minus, discard=False).auc, abs=1e-6)
    assert found.auc != pytest.approx(0.5, abs=1e-6)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7)), min_size=2, max_size=60))
def test_without_noise_and_discarding_it_is_scikit_learns_auc(rows: list) -> None:
    labels, scores = np.array([y for y, _ in rows]), np.array([s for _, s in rows])
    if labels.all() or not labels.any():
        return
    exact = (hierarchical_histogram(np.bincount(scores[of], minlength=8)) for of in (labels, ~labels))
    found, tied = HadamardTree(3, 1.0).recurse(*exact, discard=False), np.equal.outer(scores[labels], scores[~labels])
    assert found.auc == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    assert found.ties == pytest.approx(tied.mean() / 2, abs=1e-12)


def test_without_discarding_the_auc_is_unbiased_and_discarding_biases_it_by_less_than_its_error() -> None:
    generator = np.random.default_rng(5)
    plus, minus = ((scores * 16).astype(int) for scores in (generator.beta(4, 2, 600), generator.beta(2, 4, 1400)))
    tree, source = HadamardTree(4, 2.0), seeded(6)
    whole, discarding = [], []
    for _ in range(RUNS // 2):
        noisy = [tree.estimate(tree.tally(of, source)) for of in (plus, minus)]
        whole.append(tree.recurse(*noisy, discard=False).auc)
        discarding.append(tree.recurse(*noisy))
    truth = roc_auc_score(np.repeat([1, 0], [600, 1400]), np.concatenate([plus, minus]))
    assert abs(np.mean(whole) - truth) < 4 * np.std(whole) / math.sqrt(RUNS // 2)
    found = [of.auc for of in discarding]
    assert abs(np.mean(found) - truth) < np.std(found)
    assert np.std(found) < np.std(whole)  # what discarding is for
    assert np.mean([of.noise_error for of in discarding]) == pytest.approx(np.std(found), rel=0.2)

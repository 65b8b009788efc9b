"""Randomised response: exact probabilities, equal distributions, unbiased estimates, theorem 1.

Random numbers are seeded. "Four standard errors" fails for a right mean with probability 6e-5, a p-value below 1e-6
with probability 1e-6.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from fhe_auc.base.errors import InputError
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.u_statistics.krr import RandomisedResponse, bins_by_rule
from tests.support.lazy import Lazy

roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

RUNS = 2000


def seeded(seed: int) -> exact_sampling.SeededExperiment:
    return exact_sampling.SeededExperiment(np.random.default_rng(seed))


@pytest.mark.parametrize("epsilon", [0, 33, math.nan, True, "1", None, 9e-7])
def test_an_epsilon_out_of_range_is_refused_with_its_value(epsilon: object) -> None:
    with pytest.raises(InputError, match=r"epsilon must lie between 0\.000001 and 32"):
        RandomisedResponse(4, epsilon)  # type: ignore[arg-type]


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
    found = np.array(
        [[response.estimate(positives, negatives).auc for negatives in counts[1]] for positives in counts[0]]
    )

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


@pytest.mark.parametrize("k", [-1, 0, 1, 4097])
def test_what_is_out_of_range_is_refused(k: int) -> None:
    with pytest.raises(InputError, match="needs 2 to 4,096 values"):
        RandomisedResponse(k, 1.0)
    for value in (-1, 5):
        with pytest.raises(InputError, match=r"\[0, 5\)"):
            RandomisedResponse(5, 1.0).tally(np.array([0, value]), seeded(0))


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (5, 0.5), (5, 3.0)])
def test_devices_report_with_the_stated_probabilities(k: int, epsilon: float) -> None:
    users = 200_000
    reports = RandomisedResponse(k, epsilon).tally(np.full(users, 1), exact_sampling.secure())
    shares = np.full(k, 1.0)
    shares[1] = math.exp(epsilon)
    assert chisquare(reports, users * shares / shares.sum()).pvalue > 1e-6


def simulated(response: RandomisedResponse, counts: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return counts of reports in O(k) draws: users of one value are exchangeable, replaced ones spread uniformly."""
    replaced = generator.binomial(counts, response.beta)
    return counts - replaced + generator.multinomial(int(replaced.sum()), np.full(response.k, 1 / response.k))


def test_simulated_counts_have_the_distribution_of_counted_reports() -> None:
    response, source, generator = RandomisedResponse(3, 1.0), seeded(3), np.random.default_rng(4)
    counted = Counter(tuple(response.tally(np.array([0, 0, 0, 1, 2]), source)) for _ in range(10_000))
    drawn = Counter(tuple(simulated(response, np.array([3, 1, 1]), generator)) for _ in range(10_000))
    frequent = [outcome for outcome, times in (counted + drawn).items() if times >= 20]
    assert len(frequent) > 15
    assert chi2_contingency([[of[outcome] for outcome in frequent] for of in (counted, drawn)]).pvalue > 1e-6


@pytest.mark.parametrize(
    ("k", "epsilon", "positives", "negatives"),
    [(2, 1.0, 50, 50), (10, 0.5, 60, 300), (10, 2.0, 60, 300), (36, 1.0, 400, 1600), (36, 8.0, 100, 200)],
)
def test_the_auc_is_unbiased_given_the_users_varies_as_it_says_and_less_than_theorem_1(
    k: int, epsilon: float, positives: int, negatives: int
) -> None:
    generator, response = np.random.default_rng(9), RandomisedResponse(k, epsilon)
    shares = np.arange(1, k + 1) / (k * (k + 1) / 2)
    classes = generator.multinomial(positives, shares), generator.multinomial(negatives, shares[::-1])
    found = [response.estimate(*(simulated(response, of, generator) for of in classes)) for _ in range(RUNS)]
    rows = [np.repeat(np.arange(k), of) for of in classes]
    aucs = [of.auc for of in found]
    truth = roc_auc_score(np.repeat([1, 0], [positives, negatives]), np.concatenate(rows))
    assert abs(np.mean(aucs) - truth) < 4 * np.std(aucs, ddof=1) / math.sqrt(RUNS)
    assert np.var(aucs) < found[0].noise_bound
    # Estimated from few users, and without the second-order term.
    assert np.median([of.noise_error for of in found]) == pytest.approx(np.std(aucs), rel=0.35)
    ties = [of.ties for of in found]
    tied = classes[0] @ classes[1] / (2 * positives * negatives)
    assert abs(np.mean(ties) - tied) < 4 * np.std(ties, ddof=1) / math.sqrt(RUNS)


def test_the_number_of_bins_follows_the_papers_rule() -> None:
    asked = (10_000, 1.0), (10_000, 0.25), (2, 0.01), (10**12, 32.0)
    assert [bins_by_rule(*each) for each in asked] == [10, 5, 2, 4096]

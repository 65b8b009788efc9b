"""Randomised response: exact probabilities, equal distributions, unbiased estimates, theorems 1 and 2.

Random numbers are seeded. "Four standard errors" fails for a right mean with probability 6e-5, a p-value below 1e-6
with probability 1e-6.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from fhe_auc.base.errors import InputError
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.u_statistics import kernels, noiseless
from fhe_auc_protocols.u_statistics.domain import Axis, Domain
from fhe_auc_protocols.u_statistics.kernels import Kernel
from fhe_auc_protocols.u_statistics.krr import RandomisedResponse, bins_by_rule, quantisation_bound
from tests.support.u_statistics import of_rows
from u_statistics import krr_counts

RUNS = 2000


def seeded(seed: int) -> exact_sampling.SeededExperiment:
    return exact_sampling.SeededExperiment(np.random.default_rng(seed))


def assert_unbiased(estimates: list, truth: float) -> None:
    error = np.std(estimates, ddof=1) / math.sqrt(len(estimates))
    assert abs(np.mean(estimates) - truth) < 4 * error


@pytest.mark.parametrize("epsilon", [0, -1, 33, math.nan, math.inf, True, "1", None, 0.0, 9e-7, 1e-17, 1e-25])
def test_an_epsilon_out_of_range_is_refused_with_its_value(epsilon: object) -> None:
    with pytest.raises(InputError, match=r"epsilon must lie between 0\.000001 and 32"):
        RandomisedResponse(4, epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [2, 4096])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 32.0])
def test_the_share_that_is_kept_has_all_its_digits(k: int, epsilon: float) -> None:
    response = RandomisedResponse(k, epsilon)
    kept = 1 - Fraction(exact_sampling.threshold(k, k - 1, epsilon), 2**64)
    assert response.kept == pytest.approx(float(kept), rel=1e-15)
    assert response.variance_bound(10) == pytest.approx(
        float(1 / (10 * kept**2) + (2 - kept) ** 2 / (180 * kept**4)), rel=1e-12
    )
    counts = [1, *[0] * (k - 1)]
    assert response.shares(counts)[0] == pytest.approx(float((1 - (1 - kept) / k) / kept), rel=1e-12)


def test_the_estimates_variance_is_hoeffdings_by_enumeration_of_users_and_reports() -> None:
    n, k = 4, 3
    response, shares = RandomisedResponse(k, 1.0), np.array([0.5, 0.3, 0.2])
    matrix = kernels.gini(2.0).matrix(np.arange(3.0)[:, None]) / 2
    law = response.kept * np.eye(k) + response.beta / k  # of the report, given the value
    weights, found = [], []
    for reports in itertools.product(range(k), repeat=n):
        weights.append(np.prod((shares @ law)[list(reports)]))
        found.append(response.estimate(np.bincount(reports, minlength=k), matrix))
    truth = shares @ matrix @ shares
    assert np.dot(weights, found) == pytest.approx(truth, abs=1e-12)
    variance = np.dot(weights, np.square(found)) - truth**2
    of_reports, centred = shares @ law, np.eye(k) - response.beta / k
    pair = centred @ matrix @ centred.T / response.kept**2
    first = of_reports @ (pair @ of_reports) ** 2 - truth**2
    second = of_reports @ pair**2 @ of_reports - truth**2 - 2 * first
    assert variance == pytest.approx(4 * first / n + 2 * second / (n * (n - 1)), rel=1e-10)
    assert variance < response.variance_bound(n)
    for users in itertools.product(range(k), repeat=n):
        likely = [np.prod(law[list(users), list(reports)]) for reports in itertools.product(range(k), repeat=n)]
        own = noiseless.u_statistic(np.bincount(users, minlength=k), matrix)
        assert np.dot(likely, found) == pytest.approx(own, abs=1e-12)


@pytest.mark.parametrize("k", [-1, 0, 1, 4097])
def test_what_is_out_of_range_is_refused(k: int) -> None:
    with pytest.raises(InputError, match="needs 2 to 4,096 values"):
        RandomisedResponse(k, 1.0)
    for value in (-1, 5):
        with pytest.raises(InputError, match=r"\[0, 5\)"):
            RandomisedResponse(5, 1.0).randomise(np.array([0, value]), seeded(0))
    with pytest.raises(InputError, match="no reports"):
        RandomisedResponse(4, 0.3).shares([0, 0, 0, 0])


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (5, 0.5), (5, 3.0)])
def test_devices_report_with_the_stated_probabilities(k: int, epsilon: float) -> None:
    users = 200_000
    reports = RandomisedResponse(k, epsilon).randomise(np.full(users, 1), exact_sampling.secure())
    shares = np.full(k, 1.0)
    shares[1] = math.exp(epsilon)
    assert chisquare(np.bincount(reports, minlength=k), users * shares / shares.sum()).pvalue > 1e-6


def discrete(kernel: Kernel, columns: int = 1, size: int = 6) -> tuple[Domain, np.ndarray]:
    domain = Domain((Axis(np.arange(float(size))),) * columns)
    return domain, kernel.matrix(domain.points)


SQUARED = Kernel("half squared", lambda x, y: (x[..., 0] - y[..., 0]) ** 2 / 2, 0.0, 12.5)
CASES = {
    "kendall": (kernels.KENDALL, 2),
    "gini": (kernels.gini(5.0), 1),
    "renyi2": (kernels.COLLISION, 1),
    "a user's own": (SQUARED, 1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("epsilon", [0.5, pytest.param(2.0, marks=pytest.mark.slow)])
def test_the_estimate_is_unbiased_given_the_users_and_varies_as_its_standard_error_says(
    name: str, epsilon: float
) -> None:
    kernel, columns = CASES[name]
    domain, matrix = discrete(kernel, columns)
    generator = np.random.default_rng(6)
    counts = generator.multinomial(4000, generator.dirichlet(np.ones(len(domain))))
    response = RandomisedResponse(len(domain), epsilon)
    reported = [krr_counts(response, counts, generator) for _ in range(RUNS)]
    estimates = [response.estimate(reports, matrix) for reports in reported]
    assert_unbiased(estimates, noiseless.u_statistic(counts, matrix))
    if columns == 1:  # of two, so few users' second-order term is not small
        stated = np.mean([response.standard_error(reports, matrix) for reports in reported])
        assert stated == pytest.approx(np.std(estimates), rel=0.1)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_auc_of_public_classes_is_unbiased(epsilon: float) -> None:
    generator = np.random.default_rng(9)
    positives, negatives = generator.multinomial(60, [0.1] * 10), generator.multinomial(300, np.arange(10) / 45)
    order, response = kernels.between_classes(np.arange(10.0)), RandomisedResponse(10, epsilon)
    reported = [[krr_counts(response, of, generator) for of in (positives, negatives)] for _ in range(RUNS)]
    estimates = [response.estimate_between(*reports, order) for reports in reported]
    assert_unbiased(estimates, noiseless.auc(positives, negatives))
    assert np.var(estimates) < response.variance_bound_between(60, 300)
    errors = [response.standard_error_between(*reports, order) for reports in reported[:100]]
    # Estimated from few users, and without the second-order term.
    assert np.median(errors) == pytest.approx(np.std(estimates), rel=0.35)


@pytest.mark.parametrize(
    ("k", "epsilon", "users"), [(2, 1, 100), (6, 0.5, 500), (6, 4, 100), (36, 1, 2000), (36, 8, 300)]
)
def test_the_squared_error_stays_below_theorem_1_in_its_own_words(k: int, epsilon: float, users: int) -> None:
    generator = np.random.default_rng(10)
    kernel = kernels.gini(k - 1.0)
    matrix = kernel.matrix(np.arange(float(k))[:, None])
    shares = generator.dirichlet(np.ones(k))
    truth = shares @ matrix @ shares
    response = RandomisedResponse(k, epsilon)
    squares = [
        (response.estimate(krr_counts(response, generator.multinomial(users, shares), generator), matrix) - truth) ** 2
        for _ in range(RUNS)
    ]
    beta = k / (k + math.exp(epsilon) - 1)
    bound = 1 / (users * (1 - beta) ** 2) + (1 + beta) ** 2 / (2 * users * (users - 1) * (1 - beta) ** 4)
    assert response.variance_bound(users, kernel.width) == pytest.approx(kernel.width**2 * bound)
    assert 0 < np.mean(squares) < kernel.width**2 * bound


def test_rounding_shifts_a_lipschitz_kernel_by_its_bound_at_most_which_is_twice_what_theorem_2_prints() -> None:
    drawn = np.random.default_rng(12).random(500)
    for k in (2, 5, 20):
        axis = Axis.bins(0.0, 1.0, k)
        shift = noiseless.gini(axis.points[axis.index(drawn)]) - noiseless.gini(drawn)
        assert shift**2 <= quantisation_bound(k, 1.0)
    k, slope = 4, 0.5
    axis, values = Axis.bins(0.0, 1.0, k), np.full(10, 0.5)  # all on the edge of a bin
    total = Kernel("sum", lambda x, y: slope * (x[..., 0] + y[..., 0]), 0.0, 1.0, lipschitz=slope)
    moved = axis.points[axis.index(values)]
    shift = of_rows(moved[:, None], total) - of_rows(values[:, None], total)
    assert shift**2 == pytest.approx(quantisation_bound(k, slope))
    assert shift**2 > slope**2 / (2 * k**2)


def test_the_number_of_bins_follows_the_papers_rule() -> None:
    asked = (10_000, 1.0), (10_000, 0.25), (10_000, 1.0, 4.0), (2, 0.01), (10**12, 32.0, 1e6)
    assert [bins_by_rule(*each) for each in asked] == [10, 5, 20, 2, 4096]

"""Pairs: pairings, theorem 5 with its constant, composition, and the ideal two-party steps.

Random numbers are seeded, but for OpenDP's. False-alarm probabilities as in test_ustat_krr; a mean square of 2,000
values has a relative deviation of about 3 %, so that 25 % is eight of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from scipy.stats import kstest, laplace

from fhe_auc.base.errors import InputError
from fhe_auc_protocols import opendp_samplers
from fhe_auc_protocols.u_statistics import kernels, pairs
from fhe_auc_protocols.u_statistics.kernels import Kernel
from tests.support.u_statistics import of_rows

RUNS = 2000
slow = partial(pytest.param, marks=pytest.mark.slow)
CONSTANT = Kernel("constant", lambda x, y: np.zeros(np.broadcast_shapes(x.shape, y.shape)[:-1]), 0.0, 1.0)


def estimates(
    rows_of: object, kernel: Kernel, epsilon: float, number: int, runs: int = RUNS, seed: int = 1
) -> np.ndarray:
    generator = np.random.default_rng(seed)
    step = pairs.IdealLaplace(kernel, epsilon / number, pairs.seeded_laplace(generator))
    found = []
    for _ in range(runs):
        rows = rows_of(generator)
        found.append(pairs.estimate(rows, step, pairs.pairings(len(rows), number, generator))[0])
    return np.array(found)


@pytest.mark.parametrize("users", [2, 7, 10])
@pytest.mark.parametrize("number", [1, 3])
def test_a_pairing_has_every_user_at_most_once(users: int, number: int) -> None:
    found = pairs.pairings(users, number, np.random.default_rng(0))
    half = users // 2
    assert found.shape == (number * half, 2)
    for start in range(0, len(found), half):
        assert len(set(found[start : start + half].ravel())) == 2 * half
        assert found.max() < users


def test_every_pair_is_equally_likely() -> None:
    generator = np.random.default_rng(1)
    seen = np.zeros((4, 4))
    for _ in range(6000):
        first, second = pairs.pairings(4, 1, generator).T
        np.add.at(seen, (first, second), 1)
    both = (seen + seen.T)[np.triu_indices(4, 1)]
    assert (np.abs(both - 2000) < 5 * math.sqrt(2000)).all()


def test_pairings_need_users_and_a_number_and_responses_a_table_and_values() -> None:
    for users, number, what in ((1, 1, "at least two"), (10, 0, "at least one pairing")):
        with pytest.raises(InputError, match=what):
            pairs.pairings(users, number, np.random.default_rng(0))
    for epsilon, size in ((1.0, 3), (1e-4, 100)):
        with pytest.raises(InputError, match="too small"):
            pairs.ValueResponse((-1.0, 0.0, 1.0), epsilon, size)
    with pytest.raises(InputError, match="one value"):
        pairs.ValueResponse((1.0,), 1.0, 4060)


UNBIASED = {
    "kendall": (kernels.KENDALL, lambda g: g.integers(0, 6, (60, 2)).astype(float)),
    "gini": (kernels.gini(1.0), lambda g: g.random((61, 1))),
    "renyi2": (kernels.COLLISION, lambda g: g.integers(0, 4, (60, 1)).astype(float)),
    "auc": (kernels.AUC, lambda g: np.stack([g.random(60), g.random(60) < 0.3], axis=1)),
}


@pytest.mark.parametrize("name", UNBIASED)
@pytest.mark.parametrize("number", [slow(1), 3])
def test_the_estimate_is_unbiased_given_the_users(name: str, number: int) -> None:
    kernel, draw = UNBIASED[name]
    rows = draw(np.random.default_rng(2))
    found = estimates(lambda generator: rows, kernel, 2.0, number)
    assert abs(found.mean() - of_rows(rows, kernel)) < 4 * found.std(ddof=1) / math.sqrt(RUNS)


def zetas(shares: np.ndarray, matrix: np.ndarray) -> tuple[float, float]:
    """From the probability of each of k values and the kernel's matrix."""
    conditional = matrix @ shares
    mean = shares @ conditional
    return float(shares @ conditional**2 - mean**2), float(shares @ matrix**2 @ shares - mean**2)


EVEN = [(100, 1.0, 1), (100, 8.0, 1), (200, 20.0, 2), (50, 20.0, 4), (500, 2.0, 5), (30, 32.0, 10)]


def all_pairings(users: list[int]) -> Iterator[list[tuple[int, int]]]:
    if len(users) < 2:
        yield []
        return
    first, *rest = users
    for other in rest:
        for left in all_pairings([user for user in rest if user != other]):
            yield [(first, other), *left]
    if len(users) % 2:
        yield from all_pairings(rest)


@pytest.mark.parametrize(
    ("users", "number", "values"),
    [(2, 2, (0.0, 1.0, 3.0)), (3, 2, (0.0, 1.0, 3.0)), (4, 1, (0.0, 1.0, 3.0)), (4, 2, (0.0, 1.0)), (5, 2, (0.0, 1.0))],
)
def test_the_squared_error_without_noise_is_that_of_all_users_and_pairings(
    users: int, number: int, values: tuple
) -> None:
    points, shares = np.array(values), np.array([0.3, 0.7] if len(values) == 2 else [0.2, 0.5, 0.3])
    matrix = np.abs(points[:, None] - points) ** 1.5
    mean = shares @ matrix @ shares
    drawn = [np.array(pairing) for pairing in all_pairings(list(range(users)))]
    squares = 0.0
    for records in itertools.product(range(len(values)), repeat=users):
        of_pairing = [matrix[np.take(records, pairing[:, 0]), np.take(records, pairing[:, 1])] for pairing in drawn]
        means = [np.mean(choice) for choice in itertools.product([of.mean() for of in of_pairing], repeat=number)]
        squares += float(np.prod(shares[list(records)]) * np.mean((np.array(means) - mean) ** 2))
    assert pairs.mean_squared_error(users, number, *zetas(shares, matrix), 0.0) == pytest.approx(squares, rel=1e-12)


@pytest.mark.parametrize(("users", "expected"), [(3, 1 / 4), (5, 1 / 8), (9, 1 / 16)])
def test_the_error_bound_is_reached_by_a_fair_coin_of_odd_users(users: int, expected: float) -> None:
    # f = 1 where two coins fall alike: ζ₂ = 1/4 and ζ₁ = 0, so that with one pairing the bound is the error.
    assert pairs.error_bound(users, 1, 1.0, 0.0) == pytest.approx(expected)
    assert pairs.mean_squared_error(users, 1, 0.0, 1 / 4, 0.0) == pytest.approx(expected)


@pytest.mark.parametrize(("users", "epsilon", "number"), EVEN)
def test_for_even_users_the_squared_error_is_theorem_5_as_it_is_written(
    users: int, epsilon: float, number: int
) -> None:
    n, p, (first, second) = users, number, (0.1, 0.23)
    sampling = 2 * (p - 1) * (1 - 1 / (n - 1)) * first + (1 + (p - 1) / (n - 1)) * second
    found = pairs.mean_squared_error(n, p, first, second, 2 * (p / epsilon) ** 2)
    assert found == pytest.approx(2 / (p * n) * sampling + 4 * p / (n * epsilon**2))


def test_the_noise_is_twice_what_theorem_5_prints() -> None:
    users, epsilon, number = 100, 1.0, 2
    found = estimates(lambda generator: np.zeros((users, 1)), CONSTANT, epsilon, number)
    assert np.mean(found**2) == pytest.approx(4 * number / (users * epsilon**2), rel=0.15)
    noise_of_a_pair = pairs.IdealLaplace(CONSTANT, epsilon / number, opendp_samplers.laplace).noise_variance
    stated = pairs.mean_squared_error(users, number, 0.0, 0.0, noise_of_a_pair)
    assert stated == pytest.approx(4 * number / (users * epsilon**2))


def test_opendps_noise_is_laplace_of_the_kernels_width_over_the_steps_budget() -> None:
    rows = np.zeros((20_000, 1))
    found = pairs.IdealLaplace(kernels.gini(3.0), 0.5, opendp_samplers.laplace).noisy(rows, rows)
    assert kstest(found, laplace(scale=6.0).cdf).pvalue > 1e-6


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 7.0])
@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 0.0, 1.0), (0.0, 1.0, 3.0, 7.0)])
def test_a_response_table_is_private_and_hardly_more_than_asked(epsilon: float, values: tuple) -> None:
    table = pairs.ValueResponse(values, epsilon, 4060).table
    number = np.bincount(table, minlength=len(values))
    assert number.sum() == 4060
    assert len(set(number[1:])) == 1
    assert number[0] / number[1] <= math.exp(epsilon)
    if number[1] > 1:
        assert (number[0] + len(values) - 1) / (number[1] - 1) > math.exp(epsilon)

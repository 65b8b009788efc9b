"""Kernels, domains and the values without noise, against scipy, scikit-learn and brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError, UndefinedAucError
from fhe_auc_protocols.u_statistics import kernels, noiseless
from fhe_auc_protocols.u_statistics.domain import Axis, Domain
from fhe_auc_protocols.u_statistics.kernels import Kernel
from fhe_auc_protocols.u_statistics.statistics import without_noise
from tests.support.u_statistics import of_rows

few = settings(max_examples=25)
ratings = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=40)
whole = st.lists(st.integers(-1000, 1000), min_size=2, max_size=40)


def brute_force(rows: list, kernel) -> Fraction:
    values = [Fraction(kernel(x, y)) for x, y in itertools.combinations(rows, 2)]
    return sum(values, Fraction(0)) / len(values)


def sign(number: int) -> int:
    return (number > 0) - (number < 0)


def tau_of_counts(rows: np.ndarray) -> tuple[float, float]:
    """Return both coefficients through counts and kernel matrices, the way that reports are estimated from."""
    domain = Domain((Axis(np.arange(6.0)),) * 2)
    counts = np.bincount(domain.index(rows), minlength=36)
    points = domain.points
    tied = (points[:, None] == points[None]).astype(float)
    tau_a = noiseless.u_statistic(counts, kernels.KENDALL.matrix(points))
    return tau_a, noiseless.tau_b(tau_a, *(noiseless.u_statistic(counts, tied[..., column]) for column in (0, 1)))


@few
@given(ratings)
def test_kendalls_tau_from_counts_and_of_rows_is_scipys_with_ties(rows: list) -> None:
    from scipy.stats import kendalltau

    tau_a, tau_b = tau_of_counts(np.array(rows))
    expected = kendalltau(*np.array(rows).T).statistic
    assert tau_b == pytest.approx(expected, abs=1e-12, nan_ok=True)
    concordant = brute_force(rows, lambda x, y: sign(x[0] - y[0]) * sign(x[1] - y[1]))
    assert tau_a == pytest.approx(float(concordant), abs=1e-12)
    assert math.isnan(expected) or noiseless.kendall(rows)[0] == pytest.approx(tau_a, abs=1e-12)


@few
@given(whole)
def test_gini_by_sorting_is_brute_force(values: list) -> None:
    expected = float(brute_force(values, lambda x, y: abs(x - y)))
    assert noiseless.gini(values) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert of_rows(np.array(values)[:, None], kernels.gini(2000.0)) == pytest.approx(expected, rel=1e-12)


def test_gini_keeps_its_digits_under_a_large_offset() -> None:
    values = np.arange(1000.0)
    assert noiseless.gini(values + 2.0**40) == noiseless.gini(values) == pytest.approx(1001 / 3)


@few
@given(st.lists(st.integers(0, 4), min_size=2, max_size=40))
def test_collision_probability_is_brute_force(values: list) -> None:
    expected = float(brute_force(values, lambda x, y: int(x == y)))
    assert noiseless.collision(values) == pytest.approx(expected, abs=1e-15)
    counts = np.bincount(values, minlength=5)
    points = np.arange(5.0)[:, None]
    assert noiseless.u_statistic(counts, kernels.COLLISION.matrix(points)) == pytest.approx(expected, abs=1e-15)


@few
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=2, max_size=60))
def test_auc_is_scikit_learns_by_three_ways(rows: list) -> None:
    from sklearn.metrics import roc_auc_score

    labels, scores = np.array([y for y, _ in rows]), np.array([s for _, s in rows])
    positives, negatives = (np.bincount(scores[of], minlength=10) for of in (labels, ~labels))
    if labels.all() or not labels.any():
        with pytest.raises(UndefinedAucError):
            noiseless.auc(positives, negatives)
        return
    expected = roc_auc_score(labels, scores)
    assert noiseless.auc(positives, negatives) == pytest.approx(expected, abs=1e-12)
    order = kernels.between_classes(np.arange(10.0))
    assert positives @ order @ negatives / positives.sum() / negatives.sum() == pytest.approx(expected, abs=1e-12)
    n, pairs = len(rows), positives.sum() * negatives.sum()
    records = np.stack([scores, labels], axis=1).astype(float)
    found = of_rows(records, kernels.AUC) * n * (n - 1) / 2 / pairs
    assert found == pytest.approx(expected, abs=1e-12)
    assert without_noise("auc", records)["auc"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("number", [0, 1])
def test_fewer_than_two_users_are_refused(number: int) -> None:
    with pytest.raises(InputError, match=f"there are {number} users"):
        noiseless.gini(np.zeros(number))
    with pytest.raises(InputError, match="at least two"):
        noiseless.u_statistic([number, 0], np.eye(2))


def test_kernels_ranges_and_axes_that_are_none_are_refused() -> None:
    two, points = np.zeros((2, 1)), np.arange(3.0)[:, None]
    undefined = Kernel("undefined", lambda x, y: np.full(len(x), np.nan), 0.0, 1.0)
    less = Kernel("less", lambda x, y: (x[..., 0] < y[..., 0]).astype(float), 0.0, 1.0)
    cut = Kernel("cut", lambda x, y: np.abs(x - y), 0.0, 2.0)
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: kernels.gini(2.0)(two[:1], two[:1] + 3), r"'gini' has the value 3, outside its range \[0.0, 2.0\]"),
        (lambda: undefined(two, two), "nan"),
        (lambda: less.matrix(points), "not symmetric"),
        (lambda: cut.matrix(points), "shape"),
    ]
    for ends in ((1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0)):
        refused.append((partial(Kernel, "k", lambda x, y: x[..., 0], *ends), "range"))
        refused.append((partial(Axis.bins, *ends, 4), "range"))
    for wrong in ([1.0], [1.0, 1.0], [2.0, 1.0], [0.0, math.nan], [[0.0, 1.0]]):
        refused.append((partial(Axis, np.array(wrong)), "ascending"))
    for make, message in refused:
        with pytest.raises(InputError, match=message):
            make()


def test_a_kernel_that_is_symmetric_up_to_rounding_gives_a_symmetric_matrix() -> None:
    points = np.random.default_rng(0).random((30, 2))
    skewed = Kernel("skewed", lambda x, y: (x[..., 0] * 0.1 + x[..., 1]) + (y[..., 0] * 0.1 + y[..., 1]), 0.0, 3.0)
    raw = skewed(points[:, None], points[None])
    matrix = Kernel("rounded", lambda x, y: skewed(x, y) + 1e-13 * x[..., 0], 0.0, 3.0).matrix(points)
    assert np.array_equal(matrix, matrix.T)
    assert matrix == pytest.approx(raw, abs=1e-12)


@few
@given(st.floats(-10, 10), st.integers(2, 50))
def test_bins_round_to_the_nearest_middle(value: float, k: int) -> None:
    axis = Axis.bins(-1.0, 3.0, k)
    moved = axis.points[axis.index([value])[0]]
    assert abs(moved - value) <= np.abs(axis.points - value).min() + 1e-12
    if -1 <= value <= 3:
        assert abs(moved - value) <= 2 / k + 1e-12


def test_a_domain_indexes_its_own_points() -> None:
    domain = Domain((Axis(np.array([0.0, 1.0, 5.0])), Axis(np.array([-1.0, 1.0]))))
    assert len(domain) == 6
    assert domain.index(domain.points).tolist() == list(range(6))
    with pytest.raises(InputError, match="1 columns, but the domain has 2"):
        domain.index(np.zeros((3, 1)))

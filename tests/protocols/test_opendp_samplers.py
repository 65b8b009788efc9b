"""Noise has the law it says, from OpenDP and not from anything that could be seeded.

The samplers cannot be seeded, so tests of their law reject an honest one with probability `FALSE_ALARM` each; beside
each stands one that a scale wrong by a fifth does not pass.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fhe_auc.base.errors import InputError
from fhe_auc_protocols import opendp_samplers

slow = partial(pytest.param, marks=pytest.mark.slow)
FALSE_ALARM = 1e-7
DRAWS = 10_000


def discrete_gaussian(sigma: float) -> Callable[[np.ndarray], np.ndarray]:
    support = np.arange(-20 * int(sigma + 1), 20 * int(sigma + 1) + 1)
    total = np.exp(-(support**2) / (2 * sigma**2)).sum()
    return lambda k: np.exp(-(k**2) / (2 * sigma**2)) / total


def p_value_discrete(drawn: np.ndarray, mass: Callable[[np.ndarray], np.ndarray]) -> float:
    """Test integers against a law by chi-square, tails pooled where fewer than 20 are expected."""
    k = np.arange(-500, 501)
    expected = len(drawn) * mass(k)
    inside = k[expected >= 20]
    pooled = np.clip(drawn, inside[0] - 1, inside[-1] + 1)
    observed = np.array([(pooled == value).sum() for value in range(inside[0] - 1, inside[-1] + 2)])
    tail = (len(drawn) - expected[expected >= 20].sum()) / 2
    wanted = np.concatenate([[tail], expected[expected >= 20], [tail]])
    return float(stats.chisquare(observed, wanted * len(drawn) / wanted.sum()).pvalue)


@pytest.mark.parametrize("scale", [0.7, slow(3.0), 12.5])
def test_integers_get_the_discrete_laplace_law(scale: float) -> None:
    drawn = opendp_samplers.laplace(np.zeros(DRAWS, np.int64), scale)
    assert drawn.dtype == np.int64
    assert p_value_discrete(drawn, stats.dlaplace(1 / scale).pmf) > FALSE_ALARM
    assert p_value_discrete(drawn, stats.dlaplace(1 / (1.2 * scale)).pmf) < FALSE_ALARM


@pytest.mark.parametrize("sigma", [0.7, slow(3.0), slow(12.5)])
def test_integers_get_the_discrete_gaussian_law(sigma: float) -> None:
    drawn = opendp_samplers.gaussian(np.zeros(DRAWS, np.int64), sigma)
    assert drawn.dtype == np.int64
    assert p_value_discrete(drawn, discrete_gaussian(sigma)) > FALSE_ALARM
    assert p_value_discrete(drawn, discrete_gaussian(1.2 * sigma)) < FALSE_ALARM


@pytest.mark.parametrize(
    ("add", "law", "of_absolute"),
    [(opendp_samplers.laplace, stats.laplace, stats.expon), (opendp_samplers.gaussian, stats.norm, stats.halfnorm)],
    ids=["laplace", "gaussian"],
)
@pytest.mark.parametrize("scale", [0.01, slow(1e6)])
def test_floats_get_the_continuous_law(add: Callable[..., Any], law: Any, of_absolute: Any, scale: float) -> None:
    drawn = add(np.full(DRAWS, 0.25), scale)
    assert drawn.dtype == np.float64
    assert stats.kstest(drawn, law(loc=0.25, scale=scale).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(np.abs(drawn - 0.25), of_absolute(scale=scale).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(np.abs(drawn - 0.25), of_absolute(scale=1.2 * scale).cdf).pvalue < FALSE_ALARM


@pytest.mark.parametrize("add", [opendp_samplers.laplace, opendp_samplers.gaussian])
def test_noise_is_drawn_for_each_value_and_keeps_the_shape(add: Callable[..., Any]) -> None:
    values = np.arange(1200).reshape(4, 300) * 10**6
    noised = add(values, 50.0)
    assert noised.shape == (4, 300)
    assert len(np.unique(noised - values)) > 100
    assert abs(np.corrcoef((noised - values)[:, :-1].ravel(), (noised - values)[:, 1:].ravel())[0, 1]) < 0.2
    assert np.abs(noised - values).max() < 50 * 40  # e^-40 for each value


@pytest.mark.parametrize("probability", [0.01, 0.25, 0.5])
def test_each_label_is_flipped_with_the_stated_probability_whatever_it_is(probability: float) -> None:
    bits = np.arange(160_003) % 3 == 0
    flipped = opendp_samplers.randomized_response(bits, probability) != bits
    assert (flipped.shape, flipped.dtype) == (bits.shape, np.bool_)
    for rows in (bits, ~bits):
        assert stats.binomtest(int(flipped[rows].sum()), int(rows.sum()), probability).pvalue > FALSE_ALARM
        assert stats.binomtest(int(flipped[rows].sum()), int(rows.sum()), 0.6 * probability).pvalue < 1e-3
    neighbours = flipped[1:] & flipped[:-1]  # dependent in pairs only: the variance is at most 3 times the binomial one
    chance = probability**2
    assert abs(neighbours.mean() - chance) < 5.5 * np.sqrt(3 * chance * (1 - chance) / len(neighbours))


def test_a_length_that_fills_no_byte_keeps_every_bit_in_its_place() -> None:
    bits = np.array([1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1], bool)
    np.testing.assert_array_equal(opendp_samplers.randomized_response(bits, 1e-300), bits)


@pytest.mark.parametrize("bits", [np.ones(17, bool), np.ones(1, bool), np.zeros(0, bool)])
def test_every_vector_of_bits_is_one_that_opendp_is_told_to_expect(
    bits: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = []
    domains = opendp_samplers._opendp()[0]
    real = domains.bitvector_domain

    def recorded(max_weight: int) -> Any:
        weights.append(max_weight)
        return real(max_weight=max_weight)

    monkeypatch.setattr(domains, "bitvector_domain", recorded)
    opendp_samplers._flipper.cache_clear()
    assert opendp_samplers.randomized_response(bits, 0.25).shape == bits.shape
    assert weights == [max(1, len(bits))]


def test_opendp_states_the_privacy_that_we_do() -> None:
    assert opendp_samplers._adder("laplace", "int64", 400.0).map(2.0) == pytest.approx(2 / 400, rel=1e-12)
    assert opendp_samplers._adder("laplace", "float64", 0.1).map(1.0) == pytest.approx(10, rel=1e-12)
    assert opendp_samplers._adder("gaussian", "float64", 5.0).map(1.0) == pytest.approx(1 / 50, rel=1e-12)  # ρ: Δ²/2σ²


def test_no_seed_has_any_say() -> None:
    def draw() -> list[int]:
        np.random.seed(0)  # noqa: NPY002 - that it does nothing is what is tested
        random.seed(0)
        return opendp_samplers.laplace(np.zeros(20, np.int64), 1000.0).tolist()

    assert draw() != draw()


def test_integers_saturate_rather_than_wrap_around() -> None:
    ends = np.array([2**63 - 1, -(2**63)] * 50)
    noised = opendp_samplers.laplace(ends, 1e6)
    assert ((noised > 0) == (ends > 0)).all()


@pytest.mark.parametrize("add", [opendp_samplers.laplace, opendp_samplers.gaussian])
def test_a_scale_that_is_none_and_values_that_cannot_be_noised_are_refused(add: Callable[..., Any]) -> None:
    for scale in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match=f"(scale|sigma) must be positive and finite, got {scale}"):
            add(np.zeros(2), scale)
    for values in (np.array([np.nan]), np.array([0.0, np.inf]), np.zeros(2, np.float32), np.ones(1, bool)):
        with pytest.raises(InputError, match=r"noise is added to (finite|int64 or float64)"):
            add(values, 1.0)


def test_only_rows_of_bits_are_flipped_and_with_a_probability() -> None:
    for probability in (0.0, -0.1, 0.500001, 1.0, np.nan):
        with pytest.raises(InputError, match=r"flip probability must lie in \(0, 1/2\]"):
            opendp_samplers.randomized_response(np.ones(3, bool), probability)
    for bits in (np.ones(3, int), np.ones((2, 2), bool)):
        with pytest.raises(InputError, match="one-dimensional boolean array"):
            opendp_samplers.randomized_response(bits, 0.1)

"""Arithmetic on residues is that of Python's integers, at every size of modulus."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular

PRIMES = [3, 101, 257, 2**31 - 1, 2199023288321, (1 << 55) - 55, (1 << 56) - 5]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    prime = draw(st.sampled_from(PRIMES))
    element = st.one_of(st.integers(0, prime - 1), st.sampled_from([0, 1, prime - 1, prime // 2]))
    size = draw(st.integers(1, 8))
    vector = st.lists(element, min_size=size, max_size=size)
    return prime, draw(vector), draw(vector)


@given(pairs())
def test_sums_differences_and_products_are_those_of_integers(case: tuple[int, list[int], list[int]]) -> None:
    prime, left, right = case
    x, y = np.array(left, np.uint64), np.array(right, np.uint64)
    assert modular.add(x, y, prime).tolist() == [(a + b) % prime for a, b in zip(left, right, strict=True)]
    assert modular.subtract(x, y, prime).tolist() == [(a - b) % prime for a, b in zip(left, right, strict=True)]
    assert modular.multiply(x, y, prime).tolist() == [a * b % prime for a, b in zip(left, right, strict=True)]
    assert int(modular.total(x, prime)) == sum(left) % prime


@given(pairs())
def test_a_factor_may_be_up_to_twice_its_modulus(case: tuple[int, list[int], list[int]]) -> None:
    prime, left, right = case
    x, y = np.array(left, np.uint64) + np.uint64(prime), np.array(right, np.uint64)
    assert modular.multiply(x, y, prime).tolist() == [a * b % prime for a, b in zip(left, right, strict=True)]


def test_every_element_may_have_a_modulus_of_its_own() -> None:
    moduli = np.array(PRIMES, np.uint64)
    largest = moduli - np.uint64(1)
    assert modular.multiply(largest, largest, moduli).tolist() == [1] * len(PRIMES)


@given(st.sampled_from(PRIMES), st.integers(1, 2**60))
def test_an_inverse_times_its_element_is_one(prime: int, number: int) -> None:
    element = np.array([1 + number % (prime - 1)], np.uint64)
    assert modular.multiply(element, modular.inverse(element, prime), prime).tolist() == [1]


def test_integers_of_either_sign_become_residues() -> None:
    assert modular.residues([-1, 0, 5, 103], 101).tolist() == [100, 0, 5, 2]


def test_a_modulus_beyond_56_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 56 bits"):
        modular.multiply(np.ones(1, np.uint64), np.ones(1, np.uint64), (1 << 57) + 9)


@pytest.mark.parametrize("modulus", [3, 100, 127, 128, 129, 256, 1021])
def test_draws_are_uniform(modulus: int) -> None:
    """Chi-squared; the seed is fixed, the chance of a false alarm was 1e-6 for each modulus."""
    drawn = modular.uniform(KeyStream(bytes(32)), modulus, 400, 500)
    assert drawn.shape == (400, 500)
    assert stats.chisquare(np.bincount(drawn.ravel().astype(int), minlength=modulus)).pvalue > 1e-6


def test_draws_cover_large_moduli_evenly() -> None:
    """As above, in 64 classes of equal size."""
    for modulus in PRIMES[4:]:
        drawn = modular.uniform(KeyStream(b"\1" * 32), modulus, 200_000)
        assert int(drawn.max()) < modulus
        classes = np.bincount((drawn.astype(float) / modulus * 64).astype(int), minlength=64)
        assert stats.chisquare(classes).pvalue > 1e-6


def test_nonzero_draws_are_never_zero_and_reach_both_ends() -> None:
    assert set(modular.nonzero(KeyStream(bytes(32)), 5, 1000).tolist()) == {1, 2, 3, 4}

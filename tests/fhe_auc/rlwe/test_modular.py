"""Arithmetic on residues is that of Python's integers, at every size of modulus."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import is_prime, primes_above, primes_below

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
    prime, left, right = case
    x, y = np.array(left, np.uint64) + np.uint64(prime), np.array(right, np.uint64)
    assert modular.multiply(x, y, prime).tolist() == [a * b % prime for a, b in zip(left, right, strict=True)]


def test_moduli_may_differ_by_element_residues_have_either_sign_and_57_bits_are_refused() -> None:
    moduli = np.array(PRIMES, np.uint64)
    largest = moduli - np.uint64(1)
    assert modular.multiply(largest, largest, moduli).tolist() == [1] * len(PRIMES)
    assert modular.residues([-1, 0, 5, 103], 101).tolist() == [100, 0, 5, 2]
    with pytest.raises(ValueError, match="at most 56 bits"):
        modular.multiply(np.ones(1, np.uint64), np.ones(1, np.uint64), (1 << 57) + 9)


@given(st.sampled_from(PRIMES), st.integers(1, 2**60))
def test_an_inverse_times_its_element_is_one(prime: int, number: int) -> None:
    element = np.array([1 + number % (prime - 1)], np.uint64)
    assert modular.multiply(element, modular.inverse(element, prime), prime).tolist() == [1]


def test_draws_are_uniform_at_every_modulus_and_nonzero_ones_reach_both_ends() -> None:
    """Chi-squared; the seed is fixed, the chance of a false alarm was 1e-6 for each modulus."""
    for modulus in [3, 100, 127, 128, 129, 256, 1021]:
        drawn = modular.uniform(KeyStream(bytes(32)), modulus, 400, 500)
        assert drawn.shape == (400, 500)
        assert stats.chisquare(np.bincount(drawn.ravel().astype(int), minlength=modulus)).pvalue > 1e-6
    # As above, in 64 classes of equal size.
    for modulus in PRIMES[4:]:
        drawn = modular.uniform(KeyStream(b"\1" * 32), modulus, 200_000)
        assert int(drawn.max()) < modulus
        classes = np.bincount((drawn.astype(float) / modulus * 64).astype(int), minlength=64)
        assert stats.chisquare(classes).pvalue > 1e-6
    assert set(modular.nonzero(KeyStream(bytes(32)), 5, 1000).tolist()) == {1, 2, 3, 4}


def test_primes_are_those_of_trial_division_and_told_from_products_of_fifty_bits() -> None:
    assert [n for n in range(2000) if is_prime(n)] == [n for n in range(2, 2000) if all(n % d for d in range(2, n))]
    # The least that fool the first 4, 5, 6, 7 (and 8), 9 (to 11) and 12 bases; the last is beyond what is claimed.
    fooling = (3215031751, 2152302898747, 3474749660383, 341550071728321, 3825123056546413051)
    assert not any(map(is_prime, fooling))
    assert is_prime(318665857834031151167461)
    step = 2 * 8192
    factors = [n for n in range(2**24 + 1, 2**26, 16 * step) if all(n % d for d in range(2, math.isqrt(n) + 1))]
    products = [x * y for x in factors for y in factors]
    assert {each.bit_length() for each in products} >= {49, 50}
    assert not any(map(is_prime, products))


def test_primes_above_and_below_are_all_of_their_residue_class() -> None:
    found = primes_above(1000, 5, 8)
    assert list(found) == [n for n in range(1001, found[-1] + 1) if n % 16 == 1 and is_prime(n)]
    found = primes_below(10, 5, 8)
    assert list(found) == [n for n in range(1023, found[-1] - 1, -1) if n % 16 == 1 and is_prime(n)]


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 511, 512, 65536, 65537, 200_000])
def test_a_sum_of_the_largest_residues_is_right_at_every_length(length: int) -> None:
    """Blocks of 256 residues of 56 bits fill 64 bits exactly: one more would wrap around."""
    largest = np.full((length, 2), PRIMES[-1] - 1, np.uint64)
    assert modular.total(largest, PRIMES[-1], axis=0).tolist() == [-length % PRIMES[-1]] * 2
    assert modular.total(largest.T, PRIMES[-1]).tolist() == [-length % PRIMES[-1]] * 2

"""The noise of BFV ciphertexts: as large as derived, and after flooding it tells nothing of a plaintext factor.

Noise is measured exactly, with the secret key, by the definition: t·(c0 + c1·s) modulo Q.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fhe_auc import bfv
from fhe_auc.bfv.ciphertext_noise import (
    integers,
    plain_product_bound,
    scaled_noise,
    sum_variance,
)
from fhe_auc.bfv.flooding import uniform_noise
from fhe_auc.bfv.parameters import CHAINS, FLOODING_SHARE, BfvParameters
from fhe_auc.rlwe.polynomials import Polynomials, Sum, Words
from fhe_auc.rlwe.primes import primes_above
from fhe_auc.rlwe.transform import coefficients_of, values_of
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.exact_auc.planner import plan_exact

SLOTS = 8192
(PRIME,) = primes_above(2**41, 1, SLOTS)
FALSE_ALARM = 1e-7  # of each statistical test; keys and noise are fresh in every run


@pytest.fixture(scope="module")
def pair(backend: str) -> bfv.KeyPair:
    chain = CHAINS[backend][0]
    return bfv.generate(BfvParameters(backend, SLOTS, chain.modulus_bits, chain.special_bits, (PRIME,)))


@pytest.fixture(scope="module")
def plan(backend: str) -> ExactPlan:
    """With sealed keys: plaintexts that only the aggregator knows are multiplied by fresh ciphertexts."""
    return plan_exact(thresholds=1000, parties=2, backend=backend)


@pytest.fixture(scope="module")
def factors(plan: ExactPlan) -> bfv.KeyPair:
    return bfv.generate(plan.parameters)


def values(seed: int) -> bfv.Residues:
    return np.random.default_rng(seed).integers(0, PRIME, SLOTS, dtype=np.uint64)


def summed(pair: bfv.KeyPair, parties: int) -> Words:
    total = Sum(pair.public.ciphertext_shape)
    for seed in range(parties):
        total.add(pair.public.read_submission(pair.secret.encrypt(values(seed), 0), 0))
    return total.words


def noise(pair: bfv.KeyPair, words: Words) -> np.ndarray:
    return np.array([each / PRIME for each in scaled_noise(pair.secret, words, 0)])


def times(pair: bfv.KeyPair, factor: int) -> bfv.Ciphertext:
    """A fresh ciphertext times the same number in every slot."""
    fresh = pair.public.ciphertext(pair.public.read_submission(pair.secret.encrypt(values(1), 0), 0), 0)
    return pair.public.multiply_values(fresh, np.full(SLOTS, factor))


# --- Bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parties", [pytest.param(1, marks=pytest.mark.slow), 20])
def test_noise_of_sums_is_as_derived(pair: bfv.KeyPair, parties: int) -> None:
    found = np.sqrt((noise(pair, summed(pair, parties)) ** 2).mean())
    assert 0.9 < found / math.sqrt(sum_variance(parties)) < 1.05


# --- Flooding ---------------------------------------------------------------------------------------------------------


def test_flooding_takes_its_share_of_the_capacity_and_always_decrypts(pair: bfv.KeyPair) -> None:
    parameters = pair.public.parameters
    shape = pair.public.ciphertext_shape
    moduli = shape.moduli[: len(shape.moduli) // 2]
    capacity = math.prod(moduli) / (2 * PRIME)
    share = 2**parameters.flooding_bits / capacity
    assert FLOODING_SHARE / 2 < share <= FLOODING_SHARE * 1.0001
    flooded = noise(pair, pair.public.flood(times(pair, PRIME // 2)).words)
    bound = 2.0**parameters.flooding_bits + 2 * plain_product_bound(parameters, 1)
    assert 2.0**parameters.flooding_bits * 0.99 < np.abs(flooded).max() < bound < capacity


@pytest.mark.parametrize("bits", [1, 31, 32, 63, 64, 150])
def test_flooding_noise_is_uniform_on_its_range_to_the_last_unit(bits: int) -> None:
    half = (
        Polynomials(SLOTS, primes_above(2**53, 4, SLOTS))
        if bits > 40
        else Polynomials(SLOTS, primes_above(2**41, 1, SLOTS))
    )
    modulus = math.prod(half.moduli)
    drawn = integers(half, coefficients_of(half, uniform_noise(half, bits)))
    signed = [each - modulus if each > modulus // 2 else each for each in drawn]
    assert -(2**bits) <= min(signed)
    assert max(signed) < 2**bits
    assert stats.kstest(np.array(signed, float) / 2**bits, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM or bits == 1
    counts = np.bincount(np.array([each % 4 for each in signed]), minlength=4)  # and the lowest bits, too
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def gcd_attack(pair: bfv.KeyPair, ciphertext: bfv.Ciphertext) -> int:
    """What all coefficients of the noise have in common."""
    return math.gcd(*scaled_noise(pair.secret, ciphertext.words, 0))


def size_attack(pair: bfv.KeyPair, ciphertext: bfv.Ciphertext) -> float:
    """An estimate of a factor from how large the noise is, for somebody who knows what noise ciphertexts have."""
    return float(noise(pair, ciphertext.words).std() / math.sqrt(sum_variance(1)))


FACTORS = (12_345_678_901, 3, PRIME // 2 - 5)


@pytest.mark.parametrize("factor", FACTORS)
def test_without_flooding_the_noise_gives_a_factor_away(factors: bfv.KeyPair, factor: int) -> None:
    made = times(factors, factor)
    assert gcd_attack(factors, made) == factor
    assert 0.5 < size_attack(factors, made) / factor < 1.5


@pytest.mark.parametrize("factor", FACTORS)
def test_with_flooding_the_noise_does_not_tell_a_factor(plan: ExactPlan, factors: bfv.KeyPair, factor: int) -> None:
    """Neither attack finds anything, and the margin of the planner holds for the noise that there is.

    The noise is no test's idea of uniform by luck: it would have to differ by 2^-40 at most (`ExactPlan`).
    """
    parameters = plan.parameters
    made = times(factors, factor)
    before = np.abs(noise(factors, made.words)).max()
    flooded = factors.public.flood(made)
    assert gcd_attack(factors, flooded) == 1
    seen = noise(factors, flooded.words) / 2.0**parameters.flooding_bits
    assert stats.kstest(seen, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM  # the same for every factor
    margin = parameters.flooding_bits - math.log2(SLOTS * before)
    assert margin > plan.flooding_margin > plan.flooding_bits == 40


def test_too_little_flooding_stops_one_attack_and_shows_in_the_other(
    factors: bfv.KeyPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: flooding as large as the noise for factor 1 does not hide others' size."""
    monkeypatch.setattr(BfvParameters, "flooding_bits", math.ceil(math.log2(sum_variance(1)) / 2))
    for factor in (12_345_678_901, PRIME // 2 - 5):
        flooded = factors.public.flood(times(factors, factor))
        assert gcd_attack(factors, flooded) == 1
        assert 0.5 < size_attack(factors, flooded) / factor < 1.5


def test_flooding_changes_both_polynomials_and_not_the_message(pair: bfv.KeyPair) -> None:
    plain = values(3)
    ciphertext = pair.public.ciphertext(pair.public.read_submission(pair.secret.encrypt(plain, 0), 0), 0)
    first, second = (pair.public.flood(ciphertext).words for _ in range(2))
    assert not (first == second).any(axis=1).all()
    assert ((first == second).mean(axis=1) < 0.01).all()
    assert pair.secret.decrypt(pair.public.dump_result(pair.public.ciphertext(first, 0)), 0).tolist() == plain.tolist()


@pytest.mark.parametrize("times_capacity", [-1 - 2**-30, -1 + 2**-30, 1 - 2**-30, 1 + 2**-30])
def test_noise_up_to_the_capacity_decrypts_and_beyond_it_does_not(pair: bfv.KeyPair, times_capacity: float) -> None:
    half = pair.secret.mask_shape
    added = round(times_capacity * 2**40) * (math.prod(half.moduli) // (2 * PRIME)) >> 40
    constant = np.array([[added % modulus] * SLOTS for modulus in half.moduli], np.uint64)
    words = pair.public.read_submission(pair.secret.encrypt(values(1), 0), 0)
    half.add_in_place(words[: len(half.moduli)], values_of(half, constant))
    found = pair.secret.decrypt(pair.public.dump_result(pair.public.ciphertext(words, 0)), 0)
    assert (found.tolist() == values(1).tolist()) == (abs(times_capacity) < 1)

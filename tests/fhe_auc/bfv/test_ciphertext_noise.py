"""The noise of BFV ciphertexts: as large as derived, and after flooding it tells nothing of the multiplier r.

Noise is measured exactly, with the secret key, by the definition: t·(c0 + c1·s) modulo Q.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from scipy import stats

from fhe_auc import bfv
from fhe_auc.bfv.ciphertext_noise import (
    CONFIDENCE,
    integers,
    noise_bound,
    product_deviation,
    scaled_noise,
    sum_variance,
)
from fhe_auc.bfv.flooding import uniform_noise
from fhe_auc.bfv.parameters import CHAINS, FLOODING_SHARE, BfvParameters, primes_above
from fhe_auc.rlwe.polynomials import Polynomials, Sum, Words
from fhe_auc.rlwe.transform import coefficients_of, values_of
from fhe_auc_protocols.exact_auc.planner import plan_exact

SLOTS = 8192
(PRIME,) = primes_above(2**41, 1, SLOTS)
FALSE_ALARM = 1e-7  # of each statistical test; keys and noise are fresh in every run


@pytest.fixture(scope="module")
def pair(backend: str) -> bfv.KeyPair:
    (chain,) = CHAINS[backend]
    return bfv.generate(BfvParameters(backend, SLOTS, chain.modulus_bits, chain.special_bits, (PRIME,)))


def values(seed: int) -> bfv.Residues:
    return np.random.default_rng(seed).integers(0, PRIME, SLOTS, dtype=np.uint64)


def summed(pair: bfv.KeyPair, parties: int) -> Words:
    total = Sum(pair.public.ciphertext_shape)
    for seed in range(parties):
        total.add(pair.public.read_submission(pair.secret.encrypt(values(seed), 0), 0))
    return total.words


def words_of(pair: bfv.KeyPair, ciphertext: bfv.Ciphertext) -> Words:
    return ciphertext.words


def noise(pair: bfv.KeyPair, words: Words) -> np.ndarray:
    return np.array([each / PRIME for each in scaled_noise(pair.secret, words, 0)])


def product(pair: bfv.KeyPair, parties: int) -> bfv.Ciphertext:
    left, right = (pair.public.ciphertext(summed(pair, parties), 0) for _ in range(2))
    return pair.public.multiply(left, right)


def times(pair: bfv.KeyPair, ciphertext: bfv.Ciphertext, multiplier: int) -> bfv.Ciphertext:
    return pair.public.multiply_values(ciphertext, np.full(SLOTS, multiplier))


# --- Bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parties", [1, 20])
def test_noise_of_sums_and_of_their_product_is_as_derived(pair: bfv.KeyPair, parties: int) -> None:
    found = np.sqrt((noise(pair, summed(pair, parties)) ** 2).mean())
    assert 0.9 < found / math.sqrt(sum_variance(parties)) < 1.05
    made = noise(pair, words_of(pair, product(pair, parties)))
    derived = product_deviation(pair.public.parameters, parties)
    assert 0.6 < made.std() / derived < 1.3  # it depends on the secret key's and the ciphertexts' norms
    assert np.abs(made).max() < CONFIDENCE * derived


@pytest.mark.parametrize("multiplier", [1, PRIME // 2, PRIME // 2 + 1, PRIME - 1])
def test_no_multiplier_takes_noise_beyond_the_bound(pair: bfv.KeyPair, multiplier: int) -> None:
    made = product(pair, 2)
    largest, blinded = (
        np.abs(noise(pair, words_of(pair, each))).max() for each in (made, times(pair, made, multiplier))
    )
    assert blinded == pytest.approx(largest * min(multiplier, PRIME - multiplier))
    assert blinded < noise_bound(pair.public.parameters, 2)


def test_relinearisation_adds_no_more_than_derived(pair: bfv.KeyPair) -> None:
    """Measured where it shows: in a product of encryptions of zero by a toy prime, whose own noise is small."""
    toy = msgspec.structs.replace(pair.public.parameters, plain_moduli=(65537,))
    fresh = bfv.generate(toy)
    zero = fresh.public.ciphertext(fresh.public.read_submission(fresh.secret.encrypt(np.zeros(SLOTS, int), 0), 0), 0)
    found = np.array(scaled_noise(fresh.secret, fresh.public.multiply(zero, zero).words, 0), float)
    assert (found / 65537).std() < 1.3 * product_deviation(toy, 1)


@pytest.mark.slow
def test_a_thousand_parties_stay_within_the_bound_and_decrypt_exactly(pair: bfv.KeyPair) -> None:
    parameters = pair.public.parameters
    made = product(pair, 1000)
    blinded = times(pair, made, PRIME // 2)
    expected = np.array([sum(column) for column in zip(*(values(seed).tolist() for seed in range(1000)), strict=True)])
    wanted = [int(each) ** 2 * (PRIME // 2) % PRIME for each in expected]
    assert pair.secret.decrypt(pair.public.dump_result(pair.public.flood(blinded)), 0).tolist() == wanted
    largest = np.abs(noise(pair, words_of(pair, blinded))).max()
    assert largest < noise_bound(parameters, 1000)
    assert parameters.flooding_bits - math.log2(SLOTS * largest) > 40


# --- Flooding ---------------------------------------------------------------------------------------------------------


def test_flooding_takes_its_share_of_the_capacity_and_always_decrypts(pair: bfv.KeyPair) -> None:
    parameters = pair.public.parameters
    shape = pair.public.ciphertext_shape
    moduli = shape.moduli[: len(shape.moduli) // 2]
    capacity = math.prod(moduli) / (2 * PRIME)
    share = 2**parameters.flooding_bits / capacity
    assert FLOODING_SHARE[parameters.backend] / 2 < share <= FLOODING_SHARE[parameters.backend] * 1.0001
    flooded = noise(pair, words_of(pair, pair.public.flood(times(pair, product(pair, 2), PRIME // 2))))
    bound = 2.0**parameters.flooding_bits + 2 * noise_bound(parameters, 2)
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
    return math.gcd(*scaled_noise(pair.secret, words_of(pair, ciphertext), 0))


def size_attack(pair: bfv.KeyPair, ciphertext: bfv.Ciphertext) -> float:
    """An estimate of |r| from how large the noise is, for somebody who knows what noise products have."""
    return float(noise(pair, words_of(pair, ciphertext)).std() / product_deviation(pair.public.parameters, 2))


MULTIPLIERS = (12_345_678_901, 3, PRIME // 2 - 5)


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_without_flooding_the_noise_gives_the_multiplier_away(pair: bfv.KeyPair, multiplier: int) -> None:
    blinded = times(pair, product(pair, 2), multiplier)
    assert gcd_attack(pair, blinded) == multiplier
    assert 0.5 < size_attack(pair, blinded) / multiplier < 1.5


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_with_flooding_the_noise_does_not_tell_the_multiplier(pair: bfv.KeyPair, multiplier: int) -> None:
    """Neither attack finds anything, and the margin of the planner holds for the noise that there is.

    The noise is no test's idea of uniform by luck: it would have to differ by 2^-40 at most (`ExactPlan`).
    """
    parameters = pair.public.parameters
    plan = plan_exact(thresholds=1000, parties=2, backend=parameters.backend)
    blinded = times(pair, product(pair, 2), multiplier)
    before = np.abs(noise(pair, words_of(pair, blinded))).max()
    flooded = pair.public.flood(blinded)
    assert gcd_attack(pair, flooded) == 1
    seen = noise(pair, words_of(pair, flooded)) / 2.0**parameters.flooding_bits
    assert stats.kstest(seen, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM  # the same for every multiplier
    margin = parameters.flooding_bits - math.log2(SLOTS * before)
    assert margin > plan.flooding_margin > plan.flooding_bits == 40


def test_too_little_flooding_stops_one_attack_and_shows_in_the_other(
    pair: bfv.KeyPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: with flooding as large as noise is for r = 1, the noise still shows how large r is."""
    little = math.ceil(math.log2(product_deviation(pair.public.parameters, 2)))
    monkeypatch.setattr(BfvParameters, "flooding_bits", little)
    for multiplier in (12_345_678_901, PRIME // 2 - 5):
        flooded = pair.public.flood(times(pair, product(pair, 2), multiplier))
        assert gcd_attack(pair, flooded) == 1
        assert 0.5 < size_attack(pair, flooded) / multiplier < 1.5


def test_flooding_changes_both_polynomials_and_not_the_message(pair: bfv.KeyPair) -> None:
    plain = values(3)
    ciphertext = pair.public.ciphertext(pair.public.read_submission(pair.secret.encrypt(plain, 0), 0), 0)
    first, second = (words_of(pair, pair.public.flood(ciphertext)) for _ in range(2))
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

"""The aggregator's randomness has the stated distributions and comes from `secrets` alone.

Statistical tests here fail by chance with a probability of at most 1e-9 each.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import stats

from fhe_auc import ckks, keystream
from fhe_auc_protocols.blinded_auc import blinding

FALSE_ALARM = 1e-9
SLOTS = 4096


# --- Multipliers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [17, 26, 33, 50])
def test_multipliers_are_integers_within_their_range(bits: int) -> None:
    drawn = [blinding.multiplier(bits) for _ in range(5000)]
    assert all(type(value) is int for value in drawn)
    assert 2 ** (bits - 16) <= min(drawn) <= max(drawn) <= 2**bits


def test_multipliers_are_log_uniform() -> None:
    exponents = [np.log2(blinding.multiplier(40)) for _ in range(20_000)]
    assert stats.kstest(exponents, stats.uniform(24, 16).cdf).pvalue > FALSE_ALARM


def test_the_ends_of_the_range_are_reached_and_not_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blinding.secrets, "randbits", lambda bits: 0)
    assert blinding.multiplier(30) == 2**30
    monkeypatch.setattr(blinding.secrets, "randbits", lambda bits: 2**bits - 1)
    assert blinding.multiplier(30) == 2**14


def test_multipliers_hardly_ever_repeat() -> None:
    drawn = [blinding.multiplier(50) for _ in range(1000)]
    assert len(set(drawn)) == len(drawn)  # at least 2^34 values: two equal ones have probability below 1e-4


def test_multipliers_are_not_all_even() -> None:
    # With round numbers the gcd of what is decrypted would lose bits of the multiplier.
    low = np.array([blinding.multiplier(50) % 256 for _ in range(20_000)])
    counts = np.bincount(low, minlength=256)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


# --- The blur of limited digits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 2.9, 32.0, 200.5])
def test_symmetric_integers_are_uniform_on_all_integers_within_the_bound(bound: float) -> None:
    limit = int(bound)
    drawn = [blinding.symmetric_integer(bound) for _ in range(400 * (2 * limit + 1))]
    assert all(type(value) is int for value in drawn)
    assert set(drawn) == set(range(-limit, limit + 1))
    assert stats.chisquare(np.bincount(np.array(drawn) + limit)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("bound", [0, 0.99])
def test_a_bound_below_one_leaves_zero(bound: float) -> None:
    assert {blinding.symmetric_integer(bound) for _ in range(100)} == {0}


def test_wide_symmetric_integers_fill_their_range() -> None:
    bound = 0.5e-2 * 2.0**50
    drawn = np.array([blinding.symmetric_integer(bound) for _ in range(10_000)]) / bound
    assert stats.kstest(drawn, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM


def test_a_negative_or_infinite_bound_is_an_error() -> None:
    for bound in (-1.0, float("inf"), float("nan")):
        with pytest.raises((ValueError, OverflowError)):
            blinding.symmetric_integer(bound)


# --- Flooding ---------------------------------------------------------------------------------------------------------


def flooding_layers(deviation: float, *, slots: int = SLOTS) -> list[ckks.Slots]:
    """Two layers."""
    return blinding.flooding_layers(slots, deviation, unit=deviation * 2.0**-80)


@pytest.mark.parametrize("bits", [1, 49, 51, 85, 110, 140, 170])
def test_layer_follows_layer_until_the_lowest_bits_are_filled(bits: int) -> None:
    layers = blinding.flooding_layers(16, 2.0**bits, unit=1.0)
    assert len(layers) == (1 if bits <= 50 else 2 if bits <= 90 else 3 if bits <= 130 else 4)
    smallest = bits - 40 * (len(layers) - 1)
    assert smallest <= 50  # so that a double, of 53 bits, has no zeros at its end
    assert np.abs(layers[-1]).max() < 10 * 2.0**smallest


def test_flooding_layers_are_complex_gaussian_of_the_stated_deviation() -> None:
    deviation = 3e7
    layers = [flooding_layers(deviation) for _ in range(4)]
    for number, scale in enumerate((deviation, deviation * 2.0**-40)):
        drawn = np.concatenate([pair[number] for pair in layers])
        for part in (drawn.real, drawn.imag):
            assert stats.kstest(part, stats.norm(0, scale / np.sqrt(2)).cdf).pvalue > FALSE_ALARM
        # E|z|² = scale²: 2|z|²/scale² of n values is chi-square with 2n degrees of freedom.
        power = 2 * (np.abs(drawn) ** 2).sum() / scale**2
        lowest, highest = stats.chi2(2 * drawn.size).ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2])
        assert lowest < power < highest


def test_all_slots_are_flooded_independently() -> None:
    first, second = flooding_layers(1.0)
    second = second * 2.0**40
    pairs = [(first.real, first.imag), (first.real, second.real), (first.imag, second.imag)]
    pairs += [(first.real, np.roll(first.real, step)) for step in (1, 2, 4, 2048)]
    # The fourth moments vanish as well: a sign that is flipped would leave the correlation at zero, not this.
    pairs += [(first.real**2, first.imag**2), (first.real**2, second.real**2)]
    for left, right in pairs:
        # Under independence √n times the correlation is close to standard normal; 7 has probability 2.6e-12.
        assert abs(np.corrcoef(left, right)[0, 1]) * np.sqrt(SLOTS) < 7


def test_noise_is_always_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    class Extreme:
        def __init__(self, *arguments: object, **named: object) -> None: ...

        def encryptor(self) -> Extreme:
            return self

        def update(self, data: bytes) -> bytes:
            return b"\0" * (len(data) // 2) + b"\xff" * (len(data) // 2)

    monkeypatch.setattr(keystream, "Cipher", Extreme)
    for layer, size in zip(flooding_layers(1.0), (1.0, 2.0**-40), strict=True):
        layer = layer / size
        assert np.isfinite(layer).all()
        assert 8 < layer.imag.max() * np.sqrt(2) < 9
        assert -9 < layer.real.min() * np.sqrt(2) < -8


def test_two_calls_never_give_the_same() -> None:
    one, two = flooding_layers(1.0), flooding_layers(1.0)
    values = np.concatenate([*one, *two])
    assert np.unique(values.real).size == values.size
    assert not np.array_equal(one[0], one[1] * 2.0**40)


def test_each_layer_has_a_key_stream_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    genuine = blinding.secrets.token_bytes
    monkeypatch.setattr(blinding.secrets, "token_bytes", lambda size: asked.append(size) or genuine(size))
    flooding_layers(1.0)
    assert asked == [32, 32]


# --- Nothing comes from a general-purpose generator -------------------------------------------------------------------


def forbidden(*arguments: object, **named: object) -> None:
    raise AssertionError("a general-purpose generator was used")


def test_neither_numpy_nor_the_standard_library_generates(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("random", "randint", "randrange", "getrandbits", "uniform", "gauss", "normalvariate", "seed"):
        monkeypatch.setattr(random, name, forbidden)
    for name in np.random.__all__:
        monkeypatch.setattr(np.random, name, forbidden)
    assert 2**10 <= blinding.multiplier(26) <= 2**26
    assert abs(blinding.symmetric_integer(1e6)) <= 1e6
    assert np.isfinite(flooding_layers(1.0, slots=16)).all()


def test_seeding_the_general_purpose_generators_changes_nothing() -> None:
    drawn = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002 - the legacy global generator is what is tested here
        drawn.append(
            (blinding.multiplier(50), blinding.symmetric_integer(2.0**50), flooding_layers(1.0, slots=4)[0][0])
        )
    assert drawn[0][0] != drawn[1][0]
    assert drawn[0][1] != drawn[1][1]
    assert drawn[0][2] != drawn[1][2]

"""Flooding noise has the stated distribution and comes from `secrets` alone.

Statistical tests here fail by chance with a probability of at most 1e-9 each.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fhe_auc import ckks
from fhe_auc.base import keystream
from fhe_auc.ckks import flooding
from tests.support import general_purpose_generators

FALSE_ALARM = 1e-9
SLOTS = 4096


def flooding_layers(deviation: float, *, slots: int = SLOTS) -> list[ckks.Slots]:
    """Two layers."""
    return flooding.flooding_layers(slots, deviation, unit=deviation * 2.0**-80)


@pytest.mark.parametrize("bits", [1, 49, 51, 85, 110, 140, 170])
def test_layer_follows_layer_until_the_lowest_bits_are_filled(bits: int) -> None:
    layers = flooding.flooding_layers(16, 2.0**bits, unit=1.0)
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

        def update_into(self, data: bytes, into: memoryview) -> None:
            into[:] = b"\0" * (len(data) // 2) + b"\xff" * (len(data) // 2)

    monkeypatch.setattr(keystream, "Cipher", Extreme)
    for layer, size in zip(flooding_layers(1.0), (1.0, 2.0**-40), strict=True):
        layer = layer / size
        assert np.isfinite(layer).all()
        assert np.abs(layer) == pytest.approx(np.sqrt(53 * np.log(2)))


def test_fractions_become_noise_by_the_chi_square_laws_quantiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """2|z|²/σ² of a complex Gaussian number is chi-square with 2 degrees of freedom, whatever its angle."""
    smallest = 2.0**-53
    above = np.concatenate([smallest * 2.0 ** np.arange(53), 1 - smallest * 2.0 ** np.arange(52)])
    turns = (np.arange(above.size) + 0.5) / above.size

    class Fractions:
        def __init__(self, key: bytes) -> None: ...
        def fractions(self, *shape: int) -> np.ndarray:  # type: ignore[type-arg]
            assert shape == (2, above.size)
            return np.stack([above, turns])

    monkeypatch.setattr(flooding, "KeyStream", Fractions)
    (drawn,) = flooding.flooding_layers(above.size, 3e7, unit=1.0)
    assert 2 * np.abs(drawn) ** 2 / 3e7**2 == pytest.approx(stats.chi2(2).isf(above), rel=1e-12)
    assert np.angle(drawn) / (2 * np.pi) % 1 == pytest.approx(turns, rel=1e-12)


def test_no_two_calls_give_the_same_and_each_layer_has_a_key_stream_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = flooding_layers(1.0), flooding_layers(1.0)
    values = np.concatenate([*one, *two])
    assert np.unique(values.real).size == values.size
    assert not np.array_equal(one[0], one[1] * 2.0**40)
    asked: list[int] = []
    genuine = flooding.secrets.token_bytes
    monkeypatch.setattr(flooding.secrets, "token_bytes", lambda size: asked.append(size) or genuine(size))
    flooding_layers(1.0)
    assert asked == [32, 32]
    general_purpose_generators.forbid(monkeypatch)
    assert np.isfinite(flooding_layers(1.0, slots=16)).all()

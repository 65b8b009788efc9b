"""Multipliers are uniform on the 23-smooth integers of their range, and come from `secrets` alone."""

import pytest

from fhe_auc_protocols.blinded_auc import blinding
from tests.support import general_purpose_generators
from tests.support.blinded_auc import largest_multiplier, smallest_multiplier


def is_smooth(number: int) -> bool:
    for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23):
        while number % prime == 0:
            number //= prime
    return number == 1


def test_each_smooth_integer_of_the_range_belongs_to_equally_many_random_numbers() -> None:
    smooth = [number for number in range(2, 2**17 + 1) if is_smooth(number)]
    starts = [-(-(place << 64) // len(smooth)) for place in range(len(smooth) + 1)]  # 2^64 cut into equal parts
    drawn = [blinding.multiplier(17, lambda bits, start=start: start) for start in starts[:-1]]
    assert sorted(drawn) == smooth
    for place in range(0, len(smooth), 50):
        assert blinding.multiplier(17, lambda bits, place=place: starts[place + 1] - 1) == drawn[place]


@pytest.mark.parametrize("bits", [17, 26, 34, 50])
def test_multipliers_are_smooth_and_reach_both_ends_of_their_range(bits: int) -> None:
    drawn = [blinding.multiplier(bits) for _ in range(100)]
    assert all(type(r) is int and is_smooth(r) and 2 ** (bits - 16) <= r <= 2**bits for r in drawn)
    assert blinding.multiplier(bits, largest_multiplier) == 2**bits
    assert blinding.multiplier(bits, smallest_multiplier) == 2 ** (bits - 16)


def test_no_general_generator_draws_a_multiplier(monkeypatch: pytest.MonkeyPatch) -> None:
    general_purpose_generators.forbid(monkeypatch)
    assert len({blinding.multiplier(50) for _ in range(100)}) > 90  # of 4 million: 100 differ but for a chance of 0.1 %

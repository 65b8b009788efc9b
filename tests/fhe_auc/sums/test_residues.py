"""Residues as bytes: those of one large integer, and nothing else is read."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.sums.pads import pack, packed_size, unpack

PRIMES = [2, 3, 101, 257, 65537, 2**41 - 21, 2199023288321, 2**50 - 27, 2**56 - 5, 2**63 - 25]
WIDTHS = [1, 2, 7, 9, 17, 41, 42, 50, 56, 63]
PRIME, WIDTH = 2**41 - 21, 41


def packed(values: list[int], width: int) -> bytes:
    """By way of one integer of count·width bits."""
    number = sum(value << (position * width) for position, value in enumerate(values))
    return number.to_bytes(-(-len(values) * width // 8), "little")


@given(st.sampled_from(list(zip(PRIMES, WIDTHS, strict=True))), st.data())
@settings(max_examples=50)
def test_bytes_are_those_of_one_integer_and_are_read_again(prime_width: tuple[int, int], data: st.DataObject) -> None:
    prime, width = prime_width
    element = st.one_of(st.integers(0, prime - 1), st.sampled_from([0, 1, prime - 1]))
    values = data.draw(st.lists(element, min_size=1, max_size=200))
    found = pack(np.array(values, np.uint64), prime)
    assert found == packed(values, width)
    assert len(found) == packed_size(len(values), prime)
    assert unpack(found, len(values), prime).tolist() == values


def test_a_wrong_length_a_residue_that_is_not_below_its_prime_and_padding_that_is_not_zero_are_refused() -> None:
    for length in (0, 1, 15, 17, 32):
        with pytest.raises(DeserialisationError, match=f"expected 16 bytes of residues, got {length}") as caught:
            unpack(bytes(length), 3, PRIME)
        assert caught.value.field == "length"
    for place, residue in itertools.product(range(3), (PRIME, PRIME + 1, 2**WIDTH - 1)):
        values = [residue if k == place else PRIME - 1 for k in range(3)]
        with pytest.raises(DeserialisationError, match=f"residue {place} is not below its prime, {PRIME}"):
            unpack(packed(values, WIDTH), 3, PRIME)
    good = packed([1, 2, 3], WIDTH)
    assert unpack(good, 3, PRIME).tolist() == [1, 2, 3]
    for bit in range(3, 8):
        with pytest.raises(DeserialisationError, match="behind the last residue"):
            unpack(good[:-1] + bytes([good[-1] | 1 << bit]), 3, PRIME)


@given(st.binary(min_size=16, max_size=16))
def test_what_is_read_has_one_form(data: bytes) -> None:
    try:
        values = unpack(data, 3, PRIME)
    except DeserialisationError:
        return
    assert pack(values, PRIME) == data


def test_the_bit_order_is_pinned_and_what_is_no_residue_is_not_packed() -> None:
    assert pack(np.array([1, 2, PRIME - 1], np.uint64), PRIME).hex() == "01000000000400000000a8ffffffff07"
    for values in ([PRIME], [0, 2**63], [1, 2**64 - 1]):
        with pytest.raises(ValueError, match="not below its prime"):
            pack(np.array(values, np.uint64), PRIME)

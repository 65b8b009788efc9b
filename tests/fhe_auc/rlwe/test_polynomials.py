"""Packed polynomials: what goes in comes out, sums are sums modulo each prime, and expanded ones are uniform."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.polynomials import WORD, Polynomials, PolynomialSum, Words

N = 4
# One, two, … eight bytes a coefficient; just below, at and just above a whole number of bytes; the largest allowed.
MODULI = (251, 257, 65537, 2**24 - 3, 2**40 + 15, 36028797018652673, 2251799813554177)
MODULI += (2**56 - 5, 2**56 + 81, 2**63 - 25)
FALSE_ALARM = 1e-9
"""Probability with which a statistical test here fails although all is well."""
few = settings(max_examples=50, deadline=None)


@st.composite
def samples(draw: st.DrawFn, count: int = 1) -> tuple[Polynomials, list[list[list[int]]]]:
    """Some polynomials, and `count` values of them with the extremes more often than by chance."""
    moduli = tuple(draw(st.lists(st.sampled_from(MODULI), min_size=1, max_size=4)))
    polynomials = Polynomials(N, moduli)
    values = [
        [draw(st.lists(st.sampled_from((0, 1, q - 1)) | st.integers(0, q - 1), min_size=N, max_size=N)) for q in moduli]
        for _ in range(count)
    ]
    return polynomials, values


def words(values: list[list[int]]) -> Words:
    return np.array(values, np.uint64)


@few
@given(samples())
def test_a_coefficient_is_its_integer_in_as_few_bytes_as_the_modulus_needs_and_comes_back(
    sample: tuple[Polynomials, list[list[list[int]]]],
) -> None:
    polynomials, (values,) = sample
    packed = polynomials.pack(words(values))
    expected = b"".join(
        value.to_bytes((len(f"{modulus:x}") + 1) // 2, "little")
        for row, modulus in zip(values, polynomials.moduli, strict=True)
        for value in row
    )
    assert (packed, polynomials.packed_size) == (expected, len(expected))
    assert polynomials.unpack(packed).tolist() == values


def test_other_lengths_and_coefficients_that_are_not_below_their_modulus_are_refused() -> None:
    polynomials = Polynomials(N, MODULI)
    for surplus in [-(10**6), -WORD, -1, 1, WORD]:
        data = bytes(max(polynomials.packed_size + surplus, 0))
        with pytest.raises(DeserialisationError, match=f"expected {polynomials.packed_size} bytes .* got {len(data)}"):
            polynomials.unpack(data)
    for row in range(len(MODULI)):
        for position in [0, N - 1]:
            values = np.array([[q - 1] * N for q in MODULI], np.uint64)
            largest = (1 << 8 * polynomials.widths[row]) - 1
            polynomials.unpack(polynomials.pack(values))  # as large as may be
            for excess in {MODULI[row], largest}:
                values[row, position] = excess
                with pytest.raises(DeserialisationError, match="not below its modulus"):
                    polynomials.unpack(polynomials.pack(values))


def test_what_was_unpacked_may_be_added_to_a_thousand_times_without_overflow() -> None:
    polynomials = Polynomials(N, MODULI)
    packed = polynomials.pack(polynomials.uniform(bytes(32)))
    total = polynomials.unpack(packed)
    polynomials.add_in_place(total, polynomials.unpack(packed))
    assert not np.array_equal(total, polynomials.unpack(packed))
    assert polynomials.pack(polynomials.unpack(packed)) == packed
    total, largest = PolynomialSum(polynomials), np.array([[q - 1] * N for q in MODULI], np.uint64)
    for _ in range(1000):
        total.add(largest)
    assert total.words.tolist() == [[(q - 1) * 1000 % q] * N for q in MODULI]


@few
@given(samples(count=3))
def test_sums_and_differences_are_those_modulo_each_prime(sample: tuple[Polynomials, list[list[list[int]]]]) -> None:
    polynomials, values = sample
    summands = [words(each) for each in values]
    total, difference = PolynomialSum(polynomials), words(values[0])
    for summand in summands:
        total.add(summand)
    polynomials.subtract_in_place(difference, summands[1])
    assert [each.tolist() for each in summands] == values  # left alone
    for row, prime in enumerate(polynomials.moduli):
        columns = list(zip(*(each[row] for each in values), strict=True))
        assert total.words[row].tolist() == [sum(column) % prime for column in columns]
        assert difference[row].tolist() == [(x - y) % prime for x, y, _ in columns]
    polynomials.subtract_in_place(difference, difference.copy())
    assert np.array_equal(difference, polynomials.zeros())


# Primes in use, and one just above a power of two, of which every second draw is thrown away.
EXPANDED = Polynomials(8192, (36028797018652673, 2251799813554177, 36028797018652673, 2**56 + 81, 257, 2**63 - 25))


def seed(number: int) -> bytes:
    return number.to_bytes(32, "little")


@settings(max_examples=20, deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_expanded_coefficients_are_below_their_modulus_and_come_from_the_seed_alone(data: bytes) -> None:
    expanded = EXPANDED.uniform(data)
    assert expanded.shape == (len(EXPANDED.moduli), EXPANDED.ring_dimension)
    assert all(int(row.max()) < modulus for row, modulus in zip(expanded, EXPANDED.moduli, strict=True))
    assert np.array_equal(expanded, EXPANDED.uniform(data))


def test_polynomials_have_nothing_in_common_and_are_the_key_stream_of_chacha20() -> None:
    first, second = EXPANDED.uniform(seed(1)), EXPANDED.uniform(seed(2))
    for left, right, modulus in zip(first, second, EXPANDED.moduli, strict=True):
        # Equal places: 8192/q on average, so none or one modulo the large primes, and 32 modulo 257.
        assert (left == right).sum() <= 1 + 3 * EXPANDED.ring_dimension / modulus
    expanded = EXPANDED.uniform(seed(3))
    assert EXPANDED.moduli[0] == EXPANDED.moduli[2]
    assert (expanded[0] == expanded[2]).sum() <= 1
    shifts = range(1, 100)
    assert all((np.roll(expanded[0], shift) == expanded[2]).sum() <= 1 for shift in shifts)
    # RFC 8439, appendix A.1, test vectors 1 and 3: the first block under the zero key, and the second one under a key
    # that ends in 1. Whoever expands otherwise at another site gets another key, and a session that fails.
    modulus = 2**63 - 25
    for ends_in, block, stream in (
        (0, 0, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"),
        (1, 1, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"),
    ):
        octets = bytes.fromhex(stream)
        expected = [int.from_bytes(octets[k : k + 8], "little") % 2**63 for k in range(0, 32, 8)]
        expanded = Polynomials(16, (modulus,)).uniform(bytes([*[0] * 31, ends_in]))
        assert expanded[0].tolist()[8 * block :][:4] == expected

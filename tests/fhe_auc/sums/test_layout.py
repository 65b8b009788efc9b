"""Layouts: every sum has slots of its own, as few ciphertexts as there can be, and masks that hide all but the sums."""

import itertools
from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import CapacityError, DeserialisationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe.modular import multiply
from fhe_auc.rlwe.packing import pack, unpack
from fhe_auc.sums.expansion import coefficients, monomials
from fhe_auc.sums.layout import LEAST_SAVED, MOST_CIPHERTEXTS, Layout
from fhe_auc.sums.terms import Factor, Part, Release, Sketch, Sum, Term
from tests.support.plain_sums import PRIMES, random_residues


def release_of(*lengths: int, factors: int = 1) -> Release:
    """A release of one sum over each vector: of its entries, or of their product with another's."""
    vectors = [(f"x{number}", length) for number, length in enumerate(lengths)]
    twins = [(f"y{number}", length) for number, length in enumerate(lengths)]
    sums = tuple(
        Sum(name, (Term(tuple(Factor((Part(each),)) for each in (name, f"y{number}")[:factors])),))
        for number, (name, _) in enumerate(vectors)
    )
    return Release(Sketch((*vectors, *twins)), sums)


lengths = st.lists(st.integers(1, 40), min_size=1, max_size=6)


@given(lengths, st.integers(6, 50), st.integers(1, 2))
@settings(max_examples=40)
def test_there_are_as_few_ciphertexts_as_there_can_be(lengths: list[int], slots: int, factors: int) -> None:
    found = Layout.of(release_of(*lengths, factors=factors), slots)
    counts = [2 * length + 1 if factors == 2 else 1 for length in lengths]
    fits = [c for c in range(1, 1000) if sum(-(-count // c) for count in counts) <= slots]
    assert found.ciphertexts == fits[0]
    assert all(width * found.ciphertexts >= count for width, count in zip(found.widths, counts, strict=True))
    assert sum(found.widths) <= slots


@given(lengths, st.integers(6, 50), st.sampled_from(PRIMES), st.integers(0, 2**60))
@settings(max_examples=40)
def test_what_is_placed_is_in_its_sum_s_total(lengths: list[int], slots: int, prime: int, seed: int) -> None:
    layout = Layout.of(release_of(*lengths, factors=2), slots)
    vectors = [random_residues(seed + number, 2 * length + 1, prime) for number, length in enumerate(lengths)]
    placed = layout.monomials([[each[: len(each) // 2], each[len(each) // 2 :]] for each in vectors])
    assert placed.shape == (layout.ciphertexts, slots)
    assert not placed[:, sum(layout.widths) :].any()
    added = np.array([sum(column) % prime for column in zip(*placed.tolist(), strict=True)], np.uint64)
    assert layout.totals([added], prime).tolist() == [sum(each.tolist()) % prime for each in vectors]
    assert sorted(placed[placed > 0].tolist()) == sorted(x for each in vectors for x in each.tolist() if x)


def test_the_largest_residues_in_the_most_slots_add_up_and_more_is_refused() -> None:
    prime, layout = PRIMES[-1], Layout(2**14, 1, (2**14,), ((0, 0),))
    slots = np.full(2**14, prime - 1, np.uint64)
    assert layout.totals([slots], prime).tolist() == [-(2**14) % prime]
    most = 4 * MOST_CIPHERTEXTS - 1  # of a vector whose products take 8,191 numbers
    assert Layout.of(release_of(most, factors=2), 8).ciphertexts == MOST_CIPHERTEXTS
    with pytest.raises(CapacityError, match="1 sums of 8,193 numbers take more than 1,024 ciphertexts of 8 slots"):
        Layout.of(release_of(most + 1, factors=2), 8)
    with pytest.raises(CapacityError, match="3 sums of 3 numbers take more than"):
        Layout.of(release_of(1, 1, 1), 2)
    with pytest.raises(CapacityError, match="at most 16,384 slots"):
        Layout.of(release_of(1), 2**15)


@pytest.mark.parametrize("widths", [(2, 2), (3, 1), (1, 1), (4,), (2,)])
@pytest.mark.parametrize("prime", [2, 3, 5])
def test_a_masked_vector_tells_its_totals_and_nothing_else(widths: tuple[int, ...], prime: int) -> None:
    """By all draws: over them a masked vector takes each value that has its totals, unused slots any, equally often.

    So two vectors with the same totals, masked, cannot be told apart: they have one distribution, which depends on
    the totals alone.
    """
    slots = 4 if prime == 5 else 5
    layout = Layout(slots, 1, widths, tuple((0, place) for place in range(len(widths))))
    every = np.array(list(itertools.product(range(prime), repeat=slots)), np.uint64)
    streams: list[Any] = [SimpleNamespace(fill=partial(np.copyto, src=draw)) for draw in every]
    clear = np.zeros(len(widths), np.uint64)
    for vector in every[[0, 7, -2]]:
        totals = layout.totals([vector], prime)
        seen = Counter(tuple((layout.mask(each, clear, prime) + vector) % prime) for each in streams)
        possible = {tuple(each) for each in every if (layout.totals([each], prime) == totals).all()}
        assert set(seen) == possible
        assert set(seen.values()) == {len(every) // len(possible)}


def twins(entries: int, sums: int) -> Release:
    """Products of the same two vectors, each shifted otherwise."""
    factors = (Factor((Part("y", "below", weight), Part("y"))) for weight in range(1, sums + 1))
    made = tuple(Sum.product(f"s{at}", Factor((Part("x"),)), own) for at, own in enumerate(factors))
    return Release(Sketch((("x", entries), ("y", entries))), made)


def test_two_sums_of_the_same_bases_share_a_place_where_that_saves_as_much_as_a_result_costs() -> None:
    for entries, saved in ((11, LEAST_SAVED), (7, 0)):
        layout = Layout.of(twins(entries, 2), 5)
        assert layout.places == (((0, 0), (1, 0)) if saved else ((0, 0), (0, 1)))
        assert layout.ciphertexts == (5 if saved else 8)
    assert Layout.of(twins(11, 3), 5).places == ((0, 0), (1, 0), (0, 1))
    assert Layout.of(twins(11, 4), 5).places == ((0, 0), (1, 0), (0, 1), (1, 1))


@pytest.mark.parametrize("sums", [2, 3, 4])
@pytest.mark.parametrize("prime", [101, PRIMES[3]])
def test_results_of_both_layers_tell_each_sum_and_hide_all_else(sums: int, prime: int) -> None:
    release, entries = twins(11, sums), 11
    layout = Layout.of(release, 5)
    hidden, clear = (release.evaluate(random_residues(seed, 2 * entries, prime), prime) for seed in (1, 2))
    encrypted = layout.monomials([monomials(total, hidden, prime) for total in release.sums])
    firsts, others = zip(*[coefficients(total, clear, prime) for total in release.sums], strict=True)
    results = []
    for layer in range(layout.layers):
        products = multiply(encrypted, layout.coefficients(others, layer), prime).sum(axis=0) % np.uint64(prime)
        mask = layout.mask(KeyStream(bytes(32)), np.concatenate(firsts), prime, layer)
        results.append((products + mask) % np.uint64(prime))
    pooled = (random_residues(2, 22, prime) + np.uint64(prime) - random_residues(1, 22, prime)) % np.uint64(prime)
    assert layout.totals(results, prime).tolist() == release.totals(pooled, prime).tolist()
    lone = [place for place, _ in enumerate(layout.widths) if (1, place) not in layout.places]
    assert lone == ([1] if sums == 3 else [])  # what nobody has in a second result is a mask alone
    for place in lone:
        where = slice(sum(layout.widths[:place]), sum(layout.widths[: place + 1]))
        assert not layout.coefficients(others, 1)[:, where].any()


# --- Residues ---------------------------------------------------------------------------------------------------------


PRIME, WIDTH = 2**41 - 21, 41


def packed(values: list[int]) -> bytes:
    """By way of one integer of 41 bits each."""
    number = sum(value << (position * WIDTH) for position, value in enumerate(values))
    return number.to_bytes(-(-len(values) * WIDTH // 8), "little")


def test_a_wrong_length_a_residue_that_is_not_below_its_prime_and_padding_that_is_not_zero_are_refused() -> None:
    for length in (0, 1, 15, 17, 32):
        with pytest.raises(DeserialisationError, match=f"expected 16 bytes of residues, got {length}") as caught:
            unpack(bytes(length), 3, PRIME)
        assert caught.value.field == "length"
    for place, residue in itertools.product(range(3), (PRIME, PRIME + 1, 2**WIDTH - 1)):
        values = [residue if k == place else PRIME - 1 for k in range(3)]
        with pytest.raises(DeserialisationError, match=f"residue {place} is not below its modulus, {PRIME}"):
            unpack(packed(values), 3, PRIME)
    good = packed([1, 2, 3])
    assert unpack(good, 3, PRIME).tolist() == [1, 2, 3]
    for bit in range(3, 8):
        with pytest.raises(DeserialisationError, match="behind the last residue"):
            unpack(good[:-1] + bytes([good[-1] | 1 << bit]), 3, PRIME)


def test_the_bit_order_is_pinned_and_what_is_no_residue_is_not_packed() -> None:
    assert pack(np.array([1, 2, PRIME - 1], np.uint64), PRIME).hex() == "01000000000400000000a8ffffffff07"
    for values in ([PRIME], [0, 2**63], [1, 2**64 - 1]):
        with pytest.raises(ValueError, match="not below its modulus"):
            pack(np.array(values, np.uint64), PRIME)

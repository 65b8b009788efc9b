"""Running totals are those of integers, however many parties there are."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.sums.running_total import RunningTotal
from tests.support.plain_sums import PRIMES


@given(st.sampled_from(PRIMES), st.lists(st.lists(st.integers(0, 2**60), min_size=3, max_size=3), max_size=30))
def test_totals_are_those_of_integers(prime: int, parties: list[list[int]]) -> None:
    total = RunningTotal(3, prime)
    for each in parties:
        total.add(np.array(each, np.uint64) % np.uint64(prime))
    assert total.residues.tolist() == [sum(column) % prime for column in zip(*parties, strict=True)] or not parties
    assert parties or total.residues.tolist() == [0, 0, 0]


@pytest.mark.parametrize(("prime", "parties"), [(2**50 - 27, 2**14 + 3), (2**62 - 57, 50)])
def test_more_parties_than_fit_into_64_bits_do_not_overflow(prime: int, parties: int) -> None:
    assert parties * (prime - 1) > 2**64
    total, largest = RunningTotal(2, prime), np.array([prime - 1, 1], np.uint64)
    for _ in range(parties):
        total.add(largest)
    assert total.residues.tolist() == [-parties % prime, parties]


@pytest.mark.slow
def test_four_million_parties_add_up() -> None:
    prime, parties = 2**42 - 11, 2**22 + 3
    assert parties * (prime - 1) > 2**64
    total, largest = RunningTotal(1, prime), np.array([prime - 1], np.uint64)
    for _ in range(parties):
        total.add(largest)
    assert total.residues.tolist() == [-parties % prime]


def test_what_is_read_is_the_caller_s_own() -> None:
    total = RunningTotal(1, 101)
    total.add(np.array([100], np.uint64))
    before = total.residues
    total.add(np.array([2], np.uint64))
    assert (before.tolist(), total.residues.tolist()) == ([100], [1])


def test_memory_does_not_grow_with_the_parties() -> None:
    total, values = RunningTotal(1000, 2**50 - 27), np.ones(1000, np.uint64)
    total.add(values)
    tracemalloc.start()
    try:
        for _ in range(1000):
            total.add(values)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < values.nbytes


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(1, np.uint64),  # numpy would add it to every entry
        np.zeros(4, np.uint64),
        np.zeros((1, 3), np.uint64),
        np.zeros(3, np.int64),
        np.array([0, 101, 0], np.uint64),
    ],
    ids=["one", "too many", "two-dimensional", "signed", "the prime itself"],
)
def test_what_are_no_residues_of_this_size_is_refused_and_not_added(values: Any) -> None:
    total = RunningTotal(3, 101)
    with pytest.raises(ValueError, match="expected 3 residues modulo 101"):
        total.add(values)
    assert not total.residues.any()

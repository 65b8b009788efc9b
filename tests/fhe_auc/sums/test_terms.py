"""Sketches and terms: as in Python's integers; and what does not fit is refused, from outside, too."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.rlwe import modular
from fhe_auc.sums.terms import (
    MOST_ENTRIES,
    MOST_EVALUATED,
    MOST_PARTS,
    Factor,
    MergedVectors,
    Part,
    Release,
    Sketch,
    Sum,
    Term,
)
from tests.support import plain_sums
from tests.support.plain_sums import PRIMES

SKETCH = Sketch((("p", 3), ("n", 3), ("tag", 1)))
P = Factor((Part("p"),))
ONES = Factor(constants=(1, 1, 1))


@given(plain_sums.releases(), st.sampled_from(PRIMES), st.data())
@settings(max_examples=30)
def test_factors_are_those_of_integers(release: Release, prime: int, data: st.DataObject) -> None:
    values = data.draw(plain_sums.sketches(release.sketch))
    vectors = plain_sums.vectors_of(release.sketch, values)
    found = release.evaluate(plain_sums.residues(values, prime), prime)
    for wanted in release.sums:
        for term in wanted.terms:
            for factor in term.factors:
                length = len(found[factor])
                assert length in (1, plain_sums.term_length(term, vectors))
                assert found[factor].tolist() == [plain_sums.entry(factor, vectors, k) % prime for k in range(length)]


@pytest.mark.parametrize("over", ["each", "below", "above", "total"])
def test_sums_over_the_longest_vectors_of_the_largest_residues_do_not_overflow(over: Any) -> None:
    prime = PRIMES[-1]
    largest, n = np.full(MOST_ENTRIES, prime - 1, np.uint64), MOST_ENTRIES
    counts = {"each": [1, 1, 1], "below": [0, 9999, n - 1], "above": [n - 1, n - 10_000, 0], "total": [n]}
    factor = Factor((Part("x", over, -7),))
    found = Release(Sketch((("x", n),)), (sum_of(factor),)).evaluate(largest, prime)[factor]
    places = [0] if over == "total" else [0, 9999, -1]
    assert found[places].tolist() == [7 * count % prime for count in counts[over]]


def test_other_numbers_than_residues_are_not_evaluated() -> None:
    release = Release(SKETCH, (Sum("s", (Term((P,)),)),))
    for values in (np.full(7, 101, np.uint64), np.zeros(7, np.int64), np.zeros(7)):
        with pytest.raises(ValueError, match="must be residues"):
            release.evaluate(values, 101)
    for size in (0, 6, 8):
        with pytest.raises(ValueError, match="has 7 entries"):
            release.evaluate(np.zeros(size, np.uint64), 101)
    with pytest.raises(ValueError, match="at most 50 bits"):
        release.evaluate(np.zeros(7, np.uint64), 2**50 + 1)


def sum_of(*factors: Factor) -> Sum:
    return Sum("s", (Term(factors),))


@pytest.mark.parametrize(
    ("sums", "shown"),
    [
        ((), "a sum at least"),
        ((sum_of(P), sum_of(P)), "different names"),
        ((Sum("s", ()),), "sum 's' has no terms"),
        ((sum_of(Factor((Part("q"),))),), "'each' of the vector 'q' cannot be"),
        ((sum_of(Factor((Part("p", "beyond"),))),), "'beyond' of the vector 'p' cannot be"),  # type: ignore[arg-type]
        ((sum_of(Factor((Part("p", "each", 0),))),), "0 times 'each' of the vector 'p' cannot be"),
        ((sum_of(Factor((Part("p"), Part("tag")))),), "different lengths, 1, 3"),
        ((sum_of(P, Factor((Part("tag", "below"),))),), "different lengths, 1, 3"),
        ((sum_of(P, Factor(constants=(1, 1))),), "different lengths, 2, 3"),
        ((sum_of(Factor()),), "1 to 3 factors|either parts or constants"),
        ((sum_of(Factor((Part("p"),), (1, 1, 1)), P),), "either parts or constants"),
        ((sum_of(Factor((Part("p"),), repeat=0)),), "repeated once at least"),
        ((sum_of(P, Factor(constants=(1,), repeat=3)),), "constants and totals are not repeated"),
        ((sum_of(P, Factor((Part("p", "total"),), times=3)),), "constants and totals are not repeated"),
        ((sum_of(),), "1 to 3 factors that are no constants, got 0"),
        ((sum_of(P, P, P, P),), "1 to 3 factors that are no constants, got 4"),
        ((sum_of(ONES, ONES),), "1 to 3 factors that are no constants, got 0"),
    ],
)
def test_sums_that_would_be_computed_wrongly_are_refused(sums: tuple[Sum, ...], shown: str) -> None:
    with pytest.raises(InputError, match=shown):
        Release(SKETCH, sums)


@pytest.mark.parametrize(
    "sketch", [Sketch((("p", 3), ("p", 3))), Sketch((("p", 3),), (MergedVectors((0,), (("p", "p"),)),))]
)
def test_two_vectors_of_one_name_are_refused(sketch: Sketch) -> None:
    with pytest.raises(InputError, match="different names"):
        Release(sketch, (sum_of(P),))


def test_more_than_a_reader_should_have_to_compute_is_refused_before_it_fills_the_memory() -> None:
    """`evaluate` holds so many residues, of 8 bytes, at once."""
    many = Factor(tuple(Part("p", "below", weight) for weight in range(1, MOST_PARTS // 2 + 1)))
    Release(SKETCH, (Sum("s", (Term((many, many)),)),))
    with pytest.raises(CapacityError, match="at most 16,384 parts and constants, got 16,385"):
        Release(SKETCH, (Sum("s", (Term((many, many, ONES)),)),))
    with pytest.raises(CapacityError, match="at most 1,048,576 entries, got 1,048,577"):
        Sketch((("p", MOST_ENTRIES), ("n", 1)))
    sketch = Sketch((("x", MOST_ENTRIES),))
    parts = [Part("x", "below", weight) for weight in range(1, MOST_EVALUATED // MOST_ENTRIES + 1)]
    terms = tuple(Term((Factor((part,)),)) for part in parts)
    Release(sketch, (Sum("s", terms),))
    more = Term((Factor((Part("x"),)),))
    with pytest.raises(CapacityError, match="at most 16,777,216 entries, got 17,825,792"):
        Release(sketch, (Sum("s", (*terms, more)),))


@given(plain_sums.releases(largest=3), st.data())
def test_some_sums_come_out_of_the_vectors_that_they_take_and_no_others(release: Release, data: st.DataObject) -> None:
    values = np.array(data.draw(plain_sums.sketches(release.sketch)), np.int64)
    chosen = [True, *(data.draw(st.booleans()) for _ in release.sums[1:])]
    own = release.only(chosen)
    sketch = release.sketch.taken(values, own.sketch)
    found = own.totals(modular.residues(sketch, PRIMES[3]), PRIMES[3])
    assert found.tolist() == release.totals(modular.residues(values, PRIMES[3]), PRIMES[3])[chosen].tolist()
    if not all(chosen):
        taken = {part.vector for each in own.sums for term in each.terms for f in term.factors for part in f.parts}
        assert set(own.sketch.lengths) == taken


def test_merged_bins_alone_are_counted_where_no_sum_takes_the_others() -> None:
    merged = MergedVectors((0, 2), (("p merged", "p"), ("n merged", "n")))
    sums = (Sum.product("ties", Factor.each("p"), Factor.each("n")),)
    sums += (Sum.product("merged ties", Factor.each(["p merged"]), Factor.each(["n merged"])),)
    release = Release(Sketch((("p", 3), ("n", 3)), (merged,)), sums)
    assert release.only([True, True]) is release
    assert release.only([True, False]).sketch == Sketch(release.sketch.vectors)
    alone = release.only([False, True]).sketch
    assert alone == Sketch((("p merged", 2), ("n merged", 2)))
    assert release.sketch.taken(np.array([1, 2, 4, 8, 16, 32]), alone).tolist() == [3, 4, 24, 32]


@pytest.mark.parametrize("starts", [(), (1,), (0, 2, 2), (0, 3), (0, 2, 1)])
def test_vectors_that_leave_an_entry_out_or_have_an_empty_one_are_refused(starts: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="from the first entry to the last"):
        Sketch((("p", 3),), (MergedVectors(starts, (("p merged", "p"),)),))
    with pytest.raises(InputError, match="from the first entry to the last"):
        Sketch((("p", 3),), (MergedVectors((0,), (("p merged", "q"),)),))

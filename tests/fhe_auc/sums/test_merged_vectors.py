"""Merged vectors, and the part of a release that one prime has."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError
from fhe_auc.rlwe import modular
from fhe_auc.sums.terms import Factor, MergedVectors, Release, Sketch, Sum
from tests.support import plain_sums

PRIME = plain_sums.PRIMES[3]


@given(plain_sums.releases(largest=3), st.data())
def test_some_sums_come_out_of_the_vectors_that_they_take_and_no_others(release: Release, data: st.DataObject) -> None:
    values = np.array(data.draw(plain_sums.sketches(release.sketch)), np.int64)
    chosen = [True, *(data.draw(st.booleans()) for _ in release.sums[1:])]
    own = release.only(chosen)
    sketch = release.sketch.taken(values, own.sketch)
    found = own.totals(modular.residues(sketch, PRIME), PRIME)
    assert found.tolist() == release.totals(modular.residues(values, PRIME), PRIME)[chosen].tolist()
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

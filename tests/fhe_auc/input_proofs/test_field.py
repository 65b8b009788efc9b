"""Transforms, powers and sums are those of Python's integers, up to primes of 56 bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.input_proofs.proofs import coefficients_of, root_of_unity, values_at_roots
from fhe_auc.rlwe.modular import primes_below, total
from tests.support.proved_counts import PRIMES, oracles_field

LARGEST = primes_below(56, 1, 2**14)[0]


@given(st.data(), st.sampled_from([*PRIMES, LARGEST]), st.sampled_from([1, 2, 4, 32]))
def test_transforms_are_values_at_the_roots_and_undo_one_another(data: st.DataObject, prime: int, size: int) -> None:
    element = st.one_of(st.integers(0, prime - 1), st.sampled_from([0, prime - 1]))
    rows = data.draw(st.lists(st.lists(element, min_size=size, max_size=size), min_size=1, max_size=3))
    field, found = oracles_field(prime), values_at_roots(np.array(rows, np.uint64), prime)
    assert found.tolist() == [[field.value(row, root) for root in field.roots(size)] for row in rows]
    assert coefficients_of(found, prime).tolist() == rows
    assert coefficients_of(np.array(rows, np.uint64), prime).tolist() == [field.interpolated(row) for row in rows]


@pytest.mark.parametrize("prime", [*PRIMES, LARGEST])
def test_a_root_has_its_order_and_an_order_that_the_field_lacks_is_refused(prime: int) -> None:
    for order in (1, 2, 64):
        root = root_of_unity(order, prime)
        assert [exponent for exponent in range(1, order + 1) if pow(root, exponent, prime) == 1] == [order]
    for order in (0, 3, 2**40):
        with pytest.raises(ValueError, match="no element of order"):
            root_of_unity(order, prime)


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 511, 512, 65536, 65537, 200_000])
def test_a_sum_of_the_largest_residues_is_right_at_every_length(length: int) -> None:
    """Blocks of 256 residues of 56 bits fill 64 bits exactly: one more would wrap around."""
    largest = np.full((length, 2), LARGEST - 1, np.uint64)
    assert total(largest, LARGEST, axis=0).tolist() == [-length % LARGEST] * 2
    assert total(largest.T, LARGEST).tolist() == [-length % LARGEST] * 2

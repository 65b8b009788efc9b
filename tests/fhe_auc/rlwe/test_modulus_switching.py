"""Switching to a smaller modulus divides and rounds, coefficient by coefficient, as Python's integers do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fhe_auc.rlwe.modulus_switching import kept_shape, switched
from fhe_auc.rlwe.number_theoretic_transform import coefficients_of, values_of
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.primes import primes_above
from tests.support.bfv_contexts import integers

SIZE = 64
SHAPES = {
    "54 bits": Polynomials(SIZE, primes_above(2**53, 3, SIZE)),
    "sizes mixed": Polynomials(SIZE, (*primes_above(2**47, 2, SIZE), *primes_above(2**55, 2, SIZE))),
    "small": Polynomials(SIZE, primes_above(2**17, 3, SIZE)),
}


def some(shape: Polynomials) -> list[int]:
    """Coefficients modulo Q: the extremes, multiples of what is dropped and their halves, and any others."""
    modulus = math.prod(shape.moduli)
    last = shape.moduli[-1]
    special = [0, 1, modulus - 1, modulus // 2, modulus // 2 + 1, last // 2, last // 2 + 1, 5 * last, 5 * last - 1]
    generator = np.random.default_rng(1)
    return special + [int.from_bytes(generator.bytes(40), "little") % modulus for _ in range(SIZE - len(special))]


def residues(shape: Polynomials, numbers: list[int]) -> Words:
    return np.array([[each % modulus for each in numbers] for modulus in shape.moduli], np.uint64)


@pytest.mark.parametrize(("name", "kept"), [(name, kept) for name in SHAPES for kept in (1, 2)])
def test_each_coefficient_is_divided_and_rounded(name: str, kept: int) -> None:
    shape = SHAPES[name]
    numbers = some(shape)
    small = kept_shape(shape, kept)
    found = integers(small, coefficients_of(small, switched(shape, values_of(shape, residues(shape, numbers)), kept)))
    modulus, dropped = math.prod(small.moduli), math.prod(shape.moduli[kept:])
    for number, rounded in zip(numbers, found, strict=True):
        off = (rounded * dropped - number) % (modulus * dropped)
        off = min(off, modulus * dropped - off)
        assert 2 * off * shape.moduli[kept] <= dropped * (shape.moduli[kept] + 2)  # rounding twice adds 2/q at most
    if kept == len(shape.moduli) - 1:
        assert found == [(each + dropped // 2) // dropped % modulus for each in numbers]


def test_a_polynomial_of_which_no_prime_is_dropped_is_left_as_it_was() -> None:
    shape = SHAPES["54 bits"]
    values = shape.uniform(bytes(32))
    assert np.array_equal(switched(shape, values, 3), values)


def test_what_is_switched_is_not_changed_itself() -> None:
    shape = SHAPES["54 bits"]
    values = shape.uniform(bytes(32))
    switched(shape, values, 1)
    assert np.array_equal(values, shape.uniform(bytes(32)))


@pytest.mark.parametrize("kept", [-1, 0, 4])
def test_another_number_of_primes_than_there_are_is_refused(kept: int) -> None:
    shape = SHAPES["54 bits"]
    with pytest.raises(ValueError, match=f"of 3 primes, 1 to 3 can be kept, got {kept}"):
        switched(shape, shape.zeros(), kept)

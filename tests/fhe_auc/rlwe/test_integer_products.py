"""Products of polynomials over the integers, scaled and rounded: as Python's integers, to the last unit."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fhe_auc.rlwe.ciphertexts import kept_shape, switched
from fhe_auc.rlwe.integer_products import lifted, rounded, summed_products, wide
from fhe_auc.rlwe.modular import primes_above, primes_below
from fhe_auc.rlwe.polynomials import Polynomials, coefficients_of
from tests.support.polynomials import integers, polynomial, product, signed

SIZE = 16
HALF = Polynomials(SIZE, primes_below(48, 4, SIZE))
MODULUS = math.prod(HALF.moduli)


def some(seed: int) -> list[int]:
    """Coefficients between -Q/2 and Q/2, a few of them at the ends."""
    generator = np.random.default_rng(seed)
    ends = [MODULUS // 2, -(MODULUS // 2), 0, 1, -1]
    return ends + [int.from_bytes(generator.bytes(40), "little") % MODULUS - MODULUS // 2 for _ in range(SIZE - 5)]


def test_a_lifted_polynomial_has_the_integers_nearest_zero() -> None:
    coefficients, shape = some(1), wide(HALF)
    assert signed(shape, coefficients_of(shape, lifted(HALF, polynomial(HALF, coefficients)))) == coefficients


@pytest.mark.parametrize("kept", [1, 3, 4])
@pytest.mark.parametrize("pairs", [1, 5])
def test_sums_of_products_are_scaled_and_rounded_exactly(kept: int, pairs: int) -> None:
    t, factors = 2**41 + 7, [(some(2 * pair), some(2 * pair + 1)) for pair in range(pairs)]
    total = [sum(column) for column in zip(*(product(x, y) for x, y in factors), strict=True)]
    words = summed_products(HALF, ([lifted(HALF, polynomial(HALF, each)) for each in pair] for pair in factors))
    small = Polynomials(SIZE, HALF.moduli[:kept])
    q = math.prod(small.moduli)
    scaled = [math.floor(Fraction(t * q * each, MODULUS**2) + Fraction(1, 2)) for each in total]
    found = coefficients_of(small, rounded(HALF, words, t, kept))
    assert found.tolist() == [[each % modulus for each in scaled] for modulus in small.moduli]


def test_a_million_products_of_the_largest_integers_do_not_wrap_and_no_other_primes_are_kept() -> None:
    for size in [SIZE, 8192]:
        half = Polynomials(size, primes_below(48, 4, size))
        largest = 2**20 * size * (math.prod(half.moduli) // 2) ** 2
        assert math.prod(wide(half).moduli) > 2 * largest
    for kept in [0, 5]:
        with pytest.raises(ValueError, match="1 to 4 can be kept"):
            rounded(HALF, wide(HALF).zeros(), 17, kept)


RING = 64
SHAPES = {
    "54 bits": Polynomials(RING, primes_above(2**53, 3, RING)),
    "sizes mixed": Polynomials(RING, (*primes_above(2**47, 2, RING), *primes_above(2**55, 2, RING))),
    "small": Polynomials(RING, primes_above(2**17, 3, RING)),
}


def extremes(shape: Polynomials) -> list[int]:
    """Coefficients modulo Q: the extremes, multiples of what is dropped and their halves, and any others."""
    modulus = math.prod(shape.moduli)
    last = shape.moduli[-1]
    special = [0, 1, modulus - 1, modulus // 2, modulus // 2 + 1, last // 2, last // 2 + 1, 5 * last, 5 * last - 1]
    generator = np.random.default_rng(1)
    return special + [int.from_bytes(generator.bytes(40), "little") % modulus for _ in range(RING - len(special))]


def test_switching_divides_and_rounds_each_coefficient_and_changes_nothing_else() -> None:
    for name, kept in [(name, kept) for name in SHAPES for kept in (1, 2)]:
        shape = SHAPES[name]
        numbers = extremes(shape)
        small = kept_shape(shape, kept)
        found = integers(small, coefficients_of(small, switched(shape, polynomial(shape, numbers), kept)))
        modulus, dropped = math.prod(small.moduli), math.prod(shape.moduli[kept:])
        for number, result in zip(numbers, found, strict=True):
            off = (result * dropped - number) % (modulus * dropped)
            off = min(off, modulus * dropped - off)
            assert 2 * off * shape.moduli[kept] <= dropped * (shape.moduli[kept] + 2)  # rounding twice adds 2/q at most
        if kept == len(shape.moduli) - 1:
            assert found == [(each + dropped // 2) // dropped % modulus for each in numbers]
    shape = SHAPES["54 bits"]
    values = shape.uniform(bytes(32))
    assert np.array_equal(switched(shape, values, 3), values)
    switched(shape, values, 1)
    assert np.array_equal(values, shape.uniform(bytes(32)))
    for kept in [-1, 0, 4]:
        with pytest.raises(ValueError, match=f"of 3 primes, 1 to 3 can be kept, got {kept}"):
            switched(shape, shape.zeros(), kept)

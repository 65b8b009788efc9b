"""Slots are what encoding.py says they are, by the definition alone, and sums over slots are exact to 2^-44.

Oracles are sums over roots of unity, one by one, and Python's integers. No keys are needed.
"""

import cmath
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.ckks import encoding
from fhe_auc.ckks.parameters import PRODUCTS
from fhe_auc.rlwe.modular import primes_above
from fhe_auc.rlwe.polynomials import Polynomials
from tests.support.polynomials import signed

MOST = 2.0**encoding.MOST_BITS
PRIMES = primes_above(2**55, 3, 64)


def roots(slots: int) -> list[complex]:
    return [cmath.exp(1j * cmath.pi * (4 * j + 1) / (2 * slots)) for j in range(slots)]


def some(slots: int, seed: int, components: int = 4) -> Any:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(components, slots, 2)) @ (1, 1j)


def square(numbers: Any) -> Any:
    """Coefficients of the square modulo x^N + 1."""
    whole = np.convolve(numbers, numbers)
    found = whole[: len(numbers)].copy()
    found[: len(numbers) - 1] -= whole[len(numbers) :]
    return found


def integers(numbers: Any) -> list[int]:
    """What `message` makes of coefficients, from its residues: exact, from -Q/2 to Q/2."""
    half = Polynomials(len(numbers), PRIMES)
    words = encoding.message(half, np.array(numbers, float))
    assert all(int(row.max()) < prime for row, prime in zip(words, PRIMES, strict=True))
    return signed(half, words)


@pytest.mark.parametrize("components", PRODUCTS)
@pytest.mark.parametrize("slots", [1, 2, 8, 32])
def test_coefficients_are_those_of_the_definition_and_have_the_slots_as_values(slots: int, components: int) -> None:
    values, y = some(slots, slots, components), roots(slots)
    found = encoding.coefficients(values)
    assert found.shape == (2 * components * slots,)
    for component, row in enumerate(values):
        for k in range(2 * slots):
            expected = sum(v * root**-k for v, root in zip(row, y, strict=True)).real / slots
            assert found[components * k + component] == pytest.approx(expected, abs=1e-12)
        own = found[component::components]
        at_roots = [sum(c * root**k for k, c in enumerate(own)) for root in y]
        assert at_roots == pytest.approx(row, abs=1e-12)
    # The polynomial itself, at a root of x^N + 1: all components, by powers of x.
    x = cmath.exp(1j * cmath.pi / (2 * components * slots))
    expected = sum(x**component * row[0] for component, row in enumerate(values))
    assert x**components == pytest.approx(y[0])
    assert sum(c * x**k for k, c in enumerate(found)) == pytest.approx(expected, abs=1e-11)


@settings(max_examples=30)
@given(log2_slots=st.integers(0, 6), seed=st.integers(0, 2**32 - 1))
def test_components_of_a_square_sum_up_as_documented(log2_slots: int, seed: int) -> None:
    slots = 2**log2_slots
    y = np.array(roots(slots))
    for components, triples in PRODUCTS.items():
        values = some(slots, seed, components)
        positions = encoding.sum_positions(2 * components * slots, components)
        found = square(encoding.coefficients(values))[positions] * slots
        expected = [
            sum(
                (values[a] * values[b] * (y if a + b >= components else 1)).sum()
                for a, b in np.ndindex(components, components)
                if (a + b) % components == k
            )
            for k in encoding.summed(components)
        ]
        assert found.view(complex) == pytest.approx(np.array(expected), abs=1e-9 * slots)
        # Where those of the triples are filled alone, there are their products, and nothing else.
        empty = np.setdiff1d(np.arange(components), triples)
        values[empty] = 0
        found = square(encoding.coefficients(values))[positions] * slots
        expected = [2 * (values[a] * values[b]).sum() for a, *others in triples for b in others]
        assert found.view(complex) == pytest.approx(np.array(expected), abs=1e-10 * slots)


@pytest.mark.parametrize("slots", [1024, 2048])
@pytest.mark.parametrize("log2_ratio", [-30, 0, 30])
def test_sums_are_exact_to_the_bound_whatever_the_balance_between_components(slots: int, log2_ratio: int) -> None:
    """Relative to 2PN, as `error_bound` reckons: Y of norm N, both X of up to √2·2P in every slot."""
    y, one, other = np.random.default_rng(slots).integers(-(2**20), 2**20, (3, 2, slots))
    values = np.zeros((4, slots), complex)
    values[0] = (y[0] + 1j * y[1]) * 2.0**log2_ratio
    values[1], values[3] = one[0] + 1j * one[1], other[0] + 1j * other[1]
    log2_scale = 71 - max(log2_ratio, 0)
    encoded = np.array(integers(encoding.coefficients(values) * 2.0**log2_scale), object)
    unit = np.linalg.norm(y) * 2.0**20
    for x, component in ((one, 1), (other, 3)):
        p, q = encoded[0::4], encoded[component::4]
        real = p[0] * q[0] - (p[1:] * q[:0:-1]).sum()
        imag = (p[: slots + 1] * q[slots::-1]).sum() - (p[slots + 1 :] * q[:slots:-1]).sum()
        (a, b), (c, d) = y.astype(object), x.astype(object)
        for found, expected in ((real, (a * c - b * d).sum()), (imag, (a * d + b * c).sum())):
            told = Fraction(slots * found) / Fraction(2) ** (2 * log2_scale + log2_ratio)
            assert abs(told - expected) < Fraction(2) ** -44 * Fraction(unit)


@settings(max_examples=30)
@given(st.lists(st.floats(-MOST, MOST, exclude_min=True, exclude_max=True), min_size=64, max_size=64))
def test_messages_are_the_nearest_integers_at_every_size_and_of_either_sign(numbers: list[float]) -> None:
    assert integers(numbers) == [round(each) for each in numbers]
    sizes = [0.0, 0.5, 1.0, 1.5, 2.0**40 - 1, 2.0**40, 2.0**40 + 1, np.nextafter(MOST, 0)]
    edges = [sign * size for size in sizes for sign in (1, -1)] * 4
    assert integers(edges) == [round(each) for each in edges]

"""Slots and messages: what encodes them is their definition in Python's integers, for every size of t."""

import math

import numpy as np
import pytest

from fhe_auc.bfv.context import decoded, encoded, multiplier
from fhe_auc.rlwe.ciphertexts import phase_of
from fhe_auc.rlwe.modular import Residues, primes_above
from fhe_auc.rlwe.polynomials import Polynomials, coefficients_of
from tests.support.polynomials import integers, polynomial, product, signed

SIZE = 32
HALVES = {
    "3 of 54 bits": Polynomials(SIZE, primes_above(2**53, 3, SIZE)),
    "4 of 50 bits": Polynomials(SIZE, primes_above(2**49, 4, SIZE)),
    "48 and 56 bits": Polynomials(SIZE, (*primes_above(2**47, 3, SIZE), *primes_above(2**55, 1, SIZE))),
}
PRIMES = [primes_above(least, 1, SIZE)[0] for least in (2**16, 2**40, 2**41, 2**43, 2**50 - 2**14)]


@pytest.fixture(params=HALVES)
def half(request: pytest.FixtureRequest) -> Polynomials:
    return HALVES[request.param]


@pytest.fixture(params=PRIMES, ids=lambda t: f"{t.bit_length()} bits")
def t(request: pytest.FixtureRequest) -> int:
    return request.param


def some(seed: int, t: int) -> Residues:
    values = np.random.default_rng(seed).integers(0, t, SIZE, dtype=np.uint64)
    values[:5] = 0, 1, t // 2, t // 2 + 1, t - 1
    return values


def plaintext(t: int, values: Residues) -> list[int]:
    """The coefficients, from 0 to t - 1, of the polynomial with these slots."""
    return coefficients_of(Polynomials(SIZE, (t,)), values[None])[0].tolist()


def rounded(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def test_messages_factors_products_and_sums_are_their_definitions_slot_by_slot(half: Polynomials, t: int) -> None:
    values, modulus = some(1, t), math.prod(half.moduli)
    expected = [rounded(modulus * each, t) % modulus for each in plaintext(t, values)]
    assert integers(half, encoded(half, t, values)) == expected
    values = some(2, t)
    centred = [each - t if each > t // 2 else each for each in plaintext(t, values)]
    assert signed(half, coefficients_of(half, multiplier(half, t, values))) == centred
    for constant in [1, -1]:
        factor = multiplier(half, t, np.full(SIZE, constant % t, np.uint64))
        assert signed(half, coefficients_of(half, factor)) == [constant, *[0] * (SIZE - 1)]
    ring = Polynomials(SIZE, (t,))
    found = polynomial(ring, product(*(plaintext(t, some(seed, t)) for seed in (5, 6))))[0].tolist()
    assert found == [x * y % t for x, y in zip(some(5, t).tolist(), some(6, t).tolist(), strict=True)]


def test_noise_below_the_capacity_decrypts_and_any_phase_to_the_nearest_message(half: Polynomials, t: int) -> None:
    """A phase is Q·m/t + x by definition; the largest |x| that is below Q/2t, and the least beyond it."""
    for share in [-1, -(1 - 2**-40), 0, 1 - 2**-40, 1]:
        values, modulus = some(3, t), math.prod(half.moduli)
        noise = int(share * 2**52) * modulus // (2 * t) >> 52
        beyond = 2 * t if abs(share) == 1 else 0  # the message is rounded by 1/2
        phase = [rounded(modulus * each, t) + noise + beyond * int(share) for each in plaintext(t, values)]
        if beyond:
            phase = [each + int(share) * (modulus >> 48) for each in phase]  # double precision decides nearer than that
        found = decoded(half, t, polynomial(half, phase))
        assert (found.tolist() == values.tolist()) == (abs(share) < 1)
    modulus = math.prod(half.moduli)
    generator = np.random.default_rng(4)
    phase = [int.from_bytes(generator.bytes(40), "little") % modulus for _ in range(SIZE)]
    found = decoded(half, t, polynomial(half, phase))
    assert plaintext(t, found) == [rounded(t * each, modulus) % t for each in phase]


def test_the_phase_is_the_first_polynomial_plus_the_second_times_the_key(half: Polynomials) -> None:
    first, second, secret = (half.uniform(bytes([seed]) * 32) for seed in range(3))
    found = phase_of(half, np.concatenate((first, second)), secret).tolist()
    for row, a, b, c, q in zip(found, first.tolist(), second.tolist(), secret.tolist(), half.moduli, strict=True):
        assert row == [(x + y * z) % q for x, y, z in zip(a, b, c, strict=True)]

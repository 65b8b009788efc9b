"""Slots and messages are their definition in Python's integers, for every size of t; noise is as large as derived.

Noise is measured exactly, with the secret key, by the definition: t·(c0 + c1·s) modulo Q.
"""

import math

import numpy as np
import pytest
from scipy import stats

from fhe_auc import bfv
from fhe_auc.base.errors import CapacityError
from fhe_auc.bfv.context import decoded, encoded, multiplier, uniform_noise
from fhe_auc.bfv.parameters import (
    CONFIDENCE,
    MODULUS_SWITCHING_BOUND,
    BfvParameters,
    flooding_margin,
    plain_product_bound,
    sum_variance,
)
from fhe_auc.rlwe.ciphertexts import divided, kept_shape
from fhe_auc.rlwe.modular import Residues, primes_above
from fhe_auc.rlwe.polynomials import Polynomials, PolynomialSum, coefficients_of, values_of
from fhe_auc_protocols.exact_auc.exact_plan import ExactPlan
from fhe_auc_protocols.exact_auc.exact_protocols import plan_exact
from tests.support.bfv_contexts import (
    PRIMES,
    SLOTS,
    Case,
    loaded,
    noise,
    parameters_of,
    scaled_noise,
    some,
    unflooded,
    words_of,
)
from tests.support.polynomials import integers, polynomial, product, residues, signed

SIZE = 32
HALVES = {
    "3 of 54 bits": Polynomials(SIZE, primes_above(2**53, 3, SIZE)),
    "4 of 50 bits": Polynomials(SIZE, primes_above(2**49, 4, SIZE)),
    "48 and 56 bits": Polynomials(SIZE, (*primes_above(2**47, 3, SIZE), *primes_above(2**55, 1, SIZE))),
}
SLOT_PRIMES = [primes_above(least, 1, SIZE)[0] for least in (2**16, 2**40, 2**41, 2**43, 2**50 - 2**14)]


@pytest.fixture(params=HALVES)
def half(request: pytest.FixtureRequest) -> Polynomials:
    return HALVES[request.param]


@pytest.fixture(params=SLOT_PRIMES, ids=lambda t: f"{t.bit_length()} bits")
def t(request: pytest.FixtureRequest) -> int:
    return request.param


def anything(seed: int, t: int) -> Residues:
    values = np.random.default_rng(seed).integers(0, t, SIZE, dtype=np.uint64)
    values[:5] = 0, 1, t // 2, t // 2 + 1, t - 1
    return values


def plaintext(t: int, values: Residues) -> list[int]:
    """The coefficients, from 0 to t - 1, of the polynomial with these slots."""
    return coefficients_of(Polynomials(SIZE, (t,)), values[None])[0].tolist()


def rounded(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def test_messages_factors_products_and_sums_are_their_definitions_slot_by_slot(half: Polynomials, t: int) -> None:
    values, modulus = anything(1, t), math.prod(half.moduli)
    expected = [rounded(modulus * each, t) % modulus for each in plaintext(t, values)]
    assert integers(half, encoded(half, t, values)) == expected
    values = anything(2, t)
    centred = [each - t if each > t // 2 else each for each in plaintext(t, values)]
    assert signed(half, coefficients_of(half, multiplier(half, t, values))) == centred
    for constant in [1, -1]:
        factor = multiplier(half, t, np.full(SIZE, constant % t, np.uint64))
        assert signed(half, coefficients_of(half, factor)) == [constant, *[0] * (SIZE - 1)]
    ring = Polynomials(SIZE, (t,))
    found = polynomial(ring, product(*(plaintext(t, anything(seed, t)) for seed in (5, 6))))[0].tolist()
    assert found == [x * y % t for x, y in zip(anything(5, t).tolist(), anything(6, t).tolist(), strict=True)]


def test_noise_below_the_capacity_decrypts_and_any_phase_to_the_nearest_message(half: Polynomials, t: int) -> None:
    """A phase is Q·m/t + x by definition; the largest |x| that is below Q/2t, and the least beyond it."""
    for share in [-1, -(1 - 2**-40), 0, 1 - 2**-40, 1]:
        values, modulus = anything(3, t), math.prod(half.moduli)
        noise = int(share * 2**52) * modulus // (2 * t) >> 52
        beyond = 2 * t if abs(share) == 1 else 0  # the message is rounded by 1/2
        phase = [rounded(modulus * each, t) + noise + beyond * int(share) for each in plaintext(t, values)]
        if beyond:
            phase = [each + int(share) * (modulus >> 48) for each in phase]  # double precision decides nearer than that
        found = decoded(half, t, residues(half, phase))
        assert (found.tolist() == values.tolist()) == (abs(share) < 1)
    modulus = math.prod(half.moduli)
    generator = np.random.default_rng(4)
    phase = [int.from_bytes(generator.bytes(40), "little") % modulus for _ in range(SIZE)]
    found = decoded(half, t, residues(half, phase))
    assert plaintext(t, found) == [rounded(t * each, modulus) % t for each in phase]


pytestmark = pytest.mark.backends("one")  # encryptions of zero are the library's, what is done with them ours

(PRIME,) = primes_above(2**41, 1, SLOTS)
FALSE_ALARM = 1e-8  # of each statistical test; keys and noise are fresh in every run


@pytest.fixture(scope="module")
def pair(backend: str) -> bfv.KeyPair:
    return bfv.generate(parameters_of(backend, (PRIME,)))


@pytest.fixture(scope="module")
def plan(backend: str) -> ExactPlan:
    """With sealed keys: plaintexts that only the aggregator knows are multiplied by fresh ciphertexts."""
    return plan_exact(thresholds=1000, parties=2, backend=backend)


@pytest.fixture(scope="module")
def factors(plan: ExactPlan) -> bfv.KeyPair:
    return bfv.generate(plan.parameters)


@pytest.mark.backends("all")
@pytest.mark.parametrize("parties", [pytest.param(1, marks=pytest.mark.slow), 20])
def test_noise_of_sums_is_as_derived(pair: bfv.KeyPair, parties: int) -> None:
    total = PolynomialSum(pair.public.ciphertext_shape)
    for seed in range(parties):
        total.add(loaded(pair, some(seed, PRIME)).words)
    found = np.sqrt((noise(pair.secret, total.words) ** 2).mean())
    assert 0.9 < found / math.sqrt(sum_variance(parties)) < 1.05


@pytest.mark.backends("all")
@pytest.mark.parametrize("products", [1, 4])
def test_noise_of_plaintext_products_is_as_derived(case: Case, products: int) -> None:
    """Factors are all polynomials with coefficients t/2 in absolute value: of none is the noise larger on average."""
    public, t = case.pair.public, case.primes[0]
    ring = Polynomials(SLOTS, (t,))
    generator = np.random.default_rng(7)
    signs = generator.choice(np.array([t // 2, t // 2 + 1], np.uint64), (products, SLOTS))
    factors = [values_of(ring, row[None])[0] for row in signs]
    total = public.sum_of_products(0, [case.loaded(case.some(seed)) for seed in range(products)], factors)
    found = noise(case.pair.secret, total.words)
    derived = plain_product_bound(case.parameters, products)
    assert 0.9 < found.std() * CONFIDENCE / derived < 1.1
    assert np.abs(found).max() < derived


@pytest.mark.parametrize("backend_name", ["openfhe", "tenseal"])
def test_margins_are_those_of_the_specification(backend_name: str) -> None:
    """One prime is left of three: b = 110 or 119, about 45.8 or 54.8 bits, half a bit less for twice the products."""
    large = parameters_of(backend_name, PRIMES["50 bits"], chain=-1)
    for chain, flooding_bits, most in (0, 110, 45.8), (1, 119, 54.8):
        parameters = parameters_of(backend_name, PRIMES["41 bits"], chain=chain)
        assert parameters.flooding_bits == flooding_bits
        for products in (1, 2, 16):
            assert abs(flooding_margin(parameters, products, 1) - (most - math.log2(products) / 2)) < 0.1
    with pytest.raises(CapacityError, match="1 of 4 primes leave results no room"):
        flooding_margin(large, 1, 1)
    one_prime = parameters_of(backend_name, PRIMES["50 bits"][1:], chain=-1)
    assert abs(flooding_margin(one_prime, 1, 2) - 84.8) < 0.1


def test_a_modulus_that_cannot_hold_the_flooding_is_no_plan(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = parameters_of(backend, PRIMES["41 bits"])
    monkeypatch.setattr(BfvParameters, "flooding_bits", 111)
    for kept in (1, 2, 3):
        with pytest.raises(CapacityError, match="no room for noise"):
            flooding_margin(parameters, 1, kept)


def test_switching_adds_no_more_noise_than_the_bound_which_fails_less_than_once_in_two_to_the_81(case: Case) -> None:
    """The phase modulo q, less q/Q of the phase modulo Q: the roundings alone."""
    half, secret = case.half, case.pair.secret.secret_words
    small = kept_shape(half, case.kept)
    parts = np.split(case.pair.public.flood(case.sum_of_products(3)[0], case.some(99)).coefficients, 2)
    phases = []
    for shape in (half, small):
        first, second = (divided(half, part.copy(), len(shape.moduli)) for part in parts)
        phase = coefficients_of(shape, shape.multiply(values_of(shape, second), secret[: len(shape.moduli)]))
        shape.add_in_place(phase, first)
        phases.append(signed(shape, phase))
    modulus, q = math.prod(half.moduli), math.prod(small.moduli)
    off = [(after * modulus - before * q) % (modulus * q) for before, after in zip(*phases, strict=True)]
    added = np.array([(each - modulus * q if each > modulus * q // 2 else each) / modulus for each in off])
    assert np.abs(added).max() < MODULUS_SWITCHING_BOUND
    assert 0.8 < added.std() / math.sqrt((1 + SLOTS * 2 / 3) / 12) < 1.25  # roundings, times a ternary key
    assert 2 * SLOTS * math.exp(-6 * MODULUS_SWITCHING_BOUND**2 / (SLOTS + 1)) < 2.0**-81


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_noise_that_a_plan_admits_decrypts(case: Case, sign: int) -> None:
    """Flooding at its end, the bound of the products and of switching on top, in every coefficient."""
    public, secret = case.pair
    half, values = case.half, case.some(1)
    q = math.prod(half.moduli[: case.kept])
    rounding = int(MODULUS_SWITCHING_BOUND) * math.prod(half.moduli) // q
    added = sign * (2**case.parameters.flooding_bits + int(plain_product_bound(case.parameters, 8)) + rounding)
    constant = np.array([[added % modulus] * SLOTS for modulus in half.moduli], np.uint64)
    ciphertext = case.loaded(values)
    half.add_in_place(ciphertext.words[: len(half.moduli)], values_of(half, constant))
    for kept in (len(case.half.moduli), case.kept):
        dumped = public.dump_result(unflooded(public, ciphertext), kept)
        assert secret.decrypt(dumped, 0, kept).tolist() == values.tolist()


def test_flooding_takes_what_there_is_and_hides_by_the_margin(case: Case) -> None:
    before, _ = case.sum_of_products(4)
    secret = case.pair.secret
    flooded = noise(secret, words_of(secret, case.pair.public.flood(before, case.some(99))))
    parameters = case.parameters
    capacity = math.prod(case.half.moduli) / (2 * case.primes[0])
    largest = 2.0**parameters.flooding_bits + plain_product_bound(parameters, 4)
    assert 2.0**parameters.flooding_bits * 0.99 < np.abs(flooded).max() < largest < capacity
    assert 0.35 * capacity < 2.0**parameters.flooding_bits <= 0.7001 * capacity
    hidden = parameters.flooding_bits - math.log2(SLOTS * np.abs(noise(case.pair.secret, before.words)).max())
    assert hidden > flooding_margin(parameters, 4, case.kept) > 40


@pytest.mark.parametrize("bits", [1, 31, 32, 63, 64, 150])
def test_flooding_noise_is_uniform_on_its_range_to_the_last_unit(bits: int) -> None:
    half = Polynomials(SLOTS, primes_above(2**53, 4, SLOTS) if bits > 40 else (PRIME,))
    drawn = signed(half, uniform_noise(half, bits))
    assert -(2**bits) <= min(drawn)
    assert max(drawn) < 2**bits
    assert stats.kstest(np.array(drawn, float) / 2**bits, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM or bits == 1
    counts = np.bincount(np.array([each % 4 for each in drawn]), minlength=4)  # and the lowest bits, too
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize("factor", [12_345_678_901, 3, PRIME // 2 - 5])
def test_noise_gives_a_factor_away_but_for_flooding(factors: bfv.KeyPair, factor: int, plan: ExactPlan) -> None:
    made = factors.public.sum_of_products(0, [loaded(factors, some(1, PRIME))], [np.full(SLOTS, factor)])
    before, deviation = noise(factors.secret, made.words), math.sqrt(sum_variance(1))
    assert math.gcd(*scaled_noise(factors.secret, made.words, 0)) == factor
    assert 0.5 < before.std() / deviation / factor < 1.5
    # Neither attack finds anything, and the margin of the planner holds for the noise that there is.
    # The noise is no test's idea of uniform by luck: it would have to differ by 2^-40 at most (`ExactPlan`).
    parameters = plan.parameters
    flooded = words_of(factors.secret, factors.public.flood(made, some(99, PRIME)))
    assert math.gcd(*scaled_noise(factors.secret, flooded, 0)) == 1
    seen = noise(factors.secret, flooded) / 2.0**parameters.flooding_bits
    assert stats.kstest(seen, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM  # the same for every factor
    margin = parameters.flooding_bits - math.log2(SLOTS * np.abs(before).max())
    assert margin > plan.flooding_margin > plan.flooding_bits == 40

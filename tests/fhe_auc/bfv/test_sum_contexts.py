"""Contexts without a relinearisation key: plaintext times ciphertext, summed, flooded and switched down; exact.

Where a test has an oracle it is Python's integers.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import bfv
from fhe_auc.base.errors import CapacityError, DeserialisationError
from fhe_auc.base.serialise import encode
from fhe_auc.bfv.ciphertext_noise import (
    CONFIDENCE,
    MODULUS_SWITCHING_BOUND,
    flooding_margin,
    integers,
    plain_product_bound,
    scaled_noise,
)
from fhe_auc.bfv.parameters import CHAINS, BfvParameters
from fhe_auc.rlwe import container
from fhe_auc.rlwe.modulus_switching import kept_shape, switched
from fhe_auc.rlwe.parameters import Chain
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.primes import primes_above
from fhe_auc.rlwe.transform import coefficients_of, values_of
from tests.support.wire import DAMAGE

SLOTS = 8192
PRIMES = {
    "41 bits": (*primes_above(2**41, 2, SLOTS), 65537),
    "50 bits": (*primes_above(2**50 - 2**21, 1, SLOTS), *primes_above(2**49, 1, SLOTS)),
}
KEPT = {"41 bits": 1, "50 bits": 2}


def parameters_of(backend: str, chain: Chain, plain_moduli: tuple[int, ...]) -> bfv.BfvParameters:
    return bfv.BfvParameters(backend, chain.ring_dimension, chain.modulus_bits, chain.special_bits, plain_moduli)


@dataclass(frozen=True)
class Case:
    """Fresh keys for one size of plaintext moduli."""

    pair: bfv.KeyPair
    other: bfv.KeyPair
    kept: int

    @property
    def parameters(self) -> bfv.BfvParameters:
        return self.pair.public.parameters

    @property
    def primes(self) -> tuple[int, ...]:
        return self.parameters.plain_moduli

    @property
    def half(self) -> Polynomials:
        return self.pair.secret.mask_shape

    def loaded(self, values: bfv.Residues, prime: int) -> bfv.Ciphertext:
        public, secret = self.pair
        return public.ciphertext(public.read_submission(secret.encrypt(values, prime), prime), prime)

    def some(self, seed: int, prime: int) -> bfv.Residues:
        """Values in all slots, a quarter of them extreme."""
        t = self.primes[prime]
        generator = np.random.default_rng(seed)
        values = generator.integers(0, t, SLOTS, dtype=np.uint64)
        values[::4] = generator.choice(np.array([0, 1, t // 2, t // 2 + 1, t - 1], np.uint64), SLOTS // 4)
        return values

    def sum_of_products(self, products: int, prime: int) -> tuple[bfv.Ciphertext, list[int]]:
        """Σ plaintext·ciphertext + plaintext, not flooded, and what it is."""
        public, t = self.pair.public, self.primes[prime]
        mask = self.some(99, prime)
        expected = mask.tolist()
        total: bfv.Ciphertext | None = None
        for seed in range(products):
            values, factors = self.some(seed, prime), self.some(100 + seed, prime)
            product = public.multiply_values(self.loaded(values, prime), factors)
            if total is None:
                total = product
            else:
                public.add_in_place(total, product)
            columns = zip(expected, values.tolist(), factors.tolist(), strict=True)
            expected = [(e + v * f) % t for e, v, f in columns]
        assert total is not None
        return public.add_values(total, mask), expected


@pytest.fixture(scope="module", params=PRIMES)
def case(backend: str, request: pytest.FixtureRequest) -> Case:
    chain = CHAINS[backend][list(PRIMES).index(request.param)]
    parameters = parameters_of(backend, chain, PRIMES[request.param])
    return Case(bfv.generate(parameters), bfv.generate(parameters), KEPT[request.param])


def signed(half: Polynomials, coefficients: Words) -> list[int]:
    modulus = math.prod(half.moduli)
    return [each - modulus if each > modulus // 2 else each for each in integers(half, coefficients)]


def noise(case: Case, ciphertext: bfv.Ciphertext) -> np.ndarray:
    t = case.primes[ciphertext.prime]
    return np.array([each / t for each in scaled_noise(case.pair.secret, ciphertext.words, ciphertext.prime)])


# --- Arithmetic is exact ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("products", [1, 3])
def test_sums_of_plaintext_products_come_out_exactly_at_every_size(case: Case, products: int) -> None:
    """The whole circuit, read from all primes of the modulus and from as few as the planner keeps."""
    public, secret = case.pair
    for prime in range(len(case.primes)):
        total, expected = case.sum_of_products(products, prime)
        flooded = public.flood(total)
        for kept in (None, case.kept, case.kept + 1):
            assert secret.decrypt(public.dump_result(flooded, kept), prime, kept).tolist() == expected


def test_a_result_of_two_polynomials_modulo_one_prime_is_short(case: Case) -> None:
    flooded = case.pair.public.flood(case.sum_of_products(1, 0)[0])
    sizes = [len(case.pair.public.dump_result(flooded, kept)) for kept in range(1, len(case.half.moduli) + 1)]
    for kept, size in enumerate(sizes, 1):
        assert 0 <= size - 2 * 7 * SLOTS * kept < 200


def test_all_primes_by_number_are_all_primes_by_default(case: Case) -> None:
    public, secret = case.pair
    values, total = case.some(1, 0), len(case.half.moduli)
    ciphertext = public.encrypt(values, 0)
    assert public.dump_result(ciphertext, total) == public.dump_result(ciphertext)
    assert secret.decrypt(public.dump_result(ciphertext), 0, total).tolist() == values.tolist()


def test_operands_and_what_was_read_are_left_as_they_were(case: Case) -> None:
    public, secret = case.pair
    values = case.some(1, 0)
    words = public.read_submission(secret.encrypt(values, 0), 0)
    before = words.copy()
    ciphertext, other = public.ciphertext(words, 0), public.encrypt(values, 0)
    public.multiply_values(ciphertext, case.some(2, 0))
    public.add_values(ciphertext, case.some(2, 0))
    public.dump_result(public.flood(ciphertext), case.kept)
    assert np.array_equal(ciphertext.words, before)
    public.add_in_place(ciphertext, other)
    assert np.array_equal(words, before)  # the caller's array is not the ciphertext's own


def test_contexts_from_bytes_work_with_the_originals(case: Case) -> None:
    public = bfv.load_public(case.pair.public.to_bytes())
    secret = bfv.load_secret(case.pair.secret.to_bytes())
    values, factors = case.some(1, 0), case.some(2, 0)
    ciphertext = public.ciphertext(public.read_submission(case.pair.secret.encrypt(values, 0), 0), 0)
    result = public.dump_result(public.flood(public.multiply_values(ciphertext, factors)), case.kept)
    expected = [x * y % case.primes[0] for x, y in zip(values.tolist(), factors.tolist(), strict=True)]
    for each in (secret, case.pair.secret):
        assert each.decrypt(result, 0, case.kept).tolist() == expected


_AGGREGATE = """
import base64, json, sys
import numpy as np
from fhe_auc import bfv
context, submission = [base64.b64decode(line) for line in sys.stdin.buffer.read().split()]
public, kept = bfv.load_public(context), int(sys.argv[1])
ciphertext = public.ciphertext(public.read_submission(submission, 1), 1)
product = public.multiply_values(ciphertext, np.arange(8192))
print(json.dumps(base64.b64encode(public.dump_result(public.flood(product), kept)).decode()))
"""


def test_a_process_that_got_only_bytes_computes_what_the_key_owner_decrypts(case: Case, run_child: Any) -> None:
    values = case.some(1, 1)
    parts = [case.pair.public.to_bytes(), case.pair.secret.encrypt(values, 1)]
    result = base64.b64decode(run_child(_AGGREGATE, str(case.kept), data=b"\n".join(map(base64.b64encode, parts))))
    expected = [x * slot % case.primes[1] for slot, x in enumerate(values.tolist())]
    assert case.pair.secret.decrypt(result, 1, case.kept).tolist() == expected


# --- There is no relinearisation key ----------------------------------------------------------------------------------


def test_there_is_no_evaluation_key(case: Case) -> None:
    public = case.pair.public
    assert public._stored.relinearisation_key == b""
    # Half of the public key, a seed for the other half, and nothing else of their size.
    assert 0 <= len(public.to_bytes()) - case.parameters.polynomial_bytes(case.parameters.special_bits) < 300


def test_a_relinearisation_key_that_the_parameters_do_not_call_for_is_refused(case: Case) -> None:
    more = msgspec.structs.replace(case.pair.public._stored, relinearisation_key=b"\0" * 64)
    with pytest.raises(DeserialisationError, match="has no relinearisation key"):
        bfv.load_public(container.seal(case.pair.public.kind, more.fingerprint, encode(more)))


def test_no_library_makes_evaluation_keys_for_them(case: Case) -> None:
    """Not even one to learn their layout from, which is made when somebody asks for it."""
    assert "relinearisation_key" not in vars(case.pair.public._scheme)


# --- What does not belong is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [-1, 0, 5])
def test_another_number_of_primes_than_there_are_is_refused(case: Case, kept: int) -> None:
    ciphertext = case.pair.public.encrypt(case.some(1, 0), 0)
    for call in (
        lambda: case.pair.public.dump_result(ciphertext, kept),
        lambda: case.pair.secret.decrypt(b"", 0, kept),
        lambda: flooding_margin(case.parameters, 1, kept),
    ):
        with pytest.raises(ValueError, match="can be kept"):
            call()


def test_a_result_in_another_number_of_primes_than_agreed_is_refused(case: Case) -> None:
    flooded = case.pair.public.flood(case.loaded(case.some(1, 0), 0))
    everyone: list[int | None] = [None, *range(1, len(case.half.moduli))]
    for sent in everyone:
        data = case.pair.public.dump_result(flooded, sent)
        for agreed in everyone:
            if agreed != sent:
                with pytest.raises(DeserialisationError, match="expected a result"):
                    case.pair.secret.decrypt(data, 0, agreed)


def test_a_switched_result_under_another_key_or_for_another_prime_is_refused(case: Case) -> None:
    data = case.pair.public.dump_result(case.pair.public.encrypt(case.some(1, 0), 0), case.kept)
    with pytest.raises(DeserialisationError, match="made under another key"):
        case.other.secret.decrypt(data, 0, case.kept)
    with pytest.raises(DeserialisationError, match=f"modulo {case.primes[1]}"):
        case.pair.secret.decrypt(data, 1, case.kept)
    with pytest.raises(DeserialisationError, match="expected a result"):
        case.pair.secret.decrypt(case.pair.secret.encrypt(case.some(1, 0), 0), 0, case.kept)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_behind_a_good_checksum_is_refused(case: Case, damage: str) -> None:
    data = case.pair.public.dump_result(case.pair.public.encrypt(case.some(1, 0), 0), case.kept)
    kind = container.kind_of(data)
    fingerprint, payload = container.open_any(kind, data)
    with pytest.raises(DeserialisationError, match=r"bytes of coefficients|not below its modulus"):
        case.pair.secret.decrypt(container.seal(kind, fingerprint, DAMAGE[damage](payload)), 0, case.kept)


@pytest.mark.parametrize("second", ["zero", "one", "small"])
def test_a_switched_result_that_hides_nothing_is_refused(case: Case, second: str) -> None:
    """With c1 = 1 a party would publish its secret key as the result."""
    shape = kept_shape(case.half, case.kept)
    generator = np.random.default_rng(1)
    row = {
        "zero": np.zeros(SLOTS, int),
        "one": np.eye(1, SLOTS, dtype=int)[0],
        "small": generator.integers(0, 9, SLOTS),
    }
    coefficients = np.repeat(row[second][None].astype(np.uint64), case.kept, axis=0)
    words = np.concatenate((shape.uniform(bytes(32)), values_of(shape, coefficients)))
    kind = container.kind_of(case.pair.public.dump_result(case.pair.public.encrypt(case.some(1, 0), 0), case.kept))
    packed = Polynomials(SLOTS, 2 * shape.moduli).pack(words)
    with pytest.raises(DeserialisationError, match=r"second polynomial is (zero|small)"):
        case.pair.secret.decrypt(container.seal(kind, case.pair.public.fingerprint, packed), 0, case.kept)


@pytest.mark.parametrize(
    ("plain_moduli", "shown"),
    [
        (primes_above(2**50, 1, SLOTS), "17 to 50 bits"),
        ((40961,), "17 to 50 bits"),
        ((2**49 + 27,), "must be a prime that is 1 modulo 16384"),
        ((PRIMES["50 bits"][0] + 2 * SLOTS,), "must be a prime"),
        (primes_above(2**41, 9, SLOTS), "1 to 8 plaintext moduli"),
    ],
)
def test_plaintext_moduli_beyond_fifty_bits_or_not_prime_are_refused(
    backend: str, plain_moduli: tuple[int, ...], shown: str
) -> None:
    for chain in CHAINS[backend]:
        with pytest.raises(CapacityError, match=shown):
            parameters_of(backend, chain, plain_moduli)


def test_a_plaintext_modulus_that_divides_the_ciphertext_modulus_is_refused(backend: str) -> None:
    if backend != "tenseal":
        pytest.skip("OpenFHE's primes have 53 bits and more")
    chain = CHAINS[backend][1]
    known = bfv.generate(parameters_of(backend, chain, PRIMES["50 bits"])).secret.mask_shape.moduli
    for moduli in ((known[0],), (PRIMES["50 bits"][0], known[-1])):
        with pytest.raises(CapacityError, match=f"must not be a prime of the modulus of ciphertexts: {moduli[-1]}"):
            bfv.generate(parameters_of(backend, chain, moduli))


# --- Noise ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("products", [1, 4])
def test_noise_of_plaintext_products_is_as_derived(case: Case, products: int) -> None:
    """Factors are all polynomials with coefficients t/2 in absolute value: of none is the noise larger on average."""
    public, t = case.pair.public, case.primes[0]
    ring = Polynomials(SLOTS, (t,))
    generator = np.random.default_rng(7)
    total = public.encrypt(np.zeros(SLOTS, np.uint64), 0)
    for seed in range(products):
        signs = generator.choice(np.array([t // 2, t // 2 + 1], np.uint64), SLOTS)
        factors = values_of(ring, signs[None])[0]
        public.add_in_place(total, public.multiply_values(case.loaded(case.some(seed, 0), 0), factors))
    found = noise(case, public.add_values(total, case.some(99, 0)))
    derived = plain_product_bound(case.parameters, products)
    assert 0.9 < found.std() * CONFIDENCE / derived < 1.1
    assert np.abs(found).max() < derived


def test_flooding_takes_what_there_is_and_hides_by_the_margin(case: Case) -> None:
    before, _ = case.sum_of_products(4, 0)
    flooded = noise(case, case.pair.public.flood(before))
    parameters = case.parameters
    capacity = math.prod(case.half.moduli) / (2 * case.primes[0])
    bound = plain_product_bound(parameters, 4)
    assert 2.0**parameters.flooding_bits * 0.99 < np.abs(flooded).max() < 2.0**parameters.flooding_bits + bound
    assert 0.35 * capacity < 2.0**parameters.flooding_bits <= 0.7001 * capacity
    hidden = parameters.flooding_bits - math.log2(SLOTS * np.abs(noise(case, before)).max())
    assert hidden > flooding_margin(parameters, 4, case.kept) > 50


def test_switching_adds_no_more_noise_than_the_bound(case: Case) -> None:
    """The phase modulo q, less q/Q of the phase modulo Q: the roundings alone."""
    half, secret = case.half, case.pair.secret.secret_words
    small = kept_shape(half, case.kept)
    words = case.pair.public.flood(case.sum_of_products(3, 0)[0]).words
    phases = []
    for shape, first, second in (
        (half, *np.split(words, 2)),
        (small, *(switched(half, each, case.kept) for each in np.split(words, 2))),
    ):
        phase = shape.multiply(second, secret[: len(shape.moduli)])
        shape.add_in_place(phase, first)
        phases.append(signed(shape, coefficients_of(shape, phase)))
    modulus, q = math.prod(half.moduli), math.prod(small.moduli)
    off = [(after * modulus - before * q) % (modulus * q) for before, after in zip(*phases, strict=True)]
    added = np.array([(each - modulus * q if each > modulus * q // 2 else each) / modulus for each in off])
    assert np.abs(added).max() < MODULUS_SWITCHING_BOUND
    assert 0.8 < added.std() / math.sqrt((1 + SLOTS * 2 / 3) / 12) < 1.25  # roundings, times a ternary key


def test_the_bound_on_switching_fails_less_often_than_once_in_two_to_the_78() -> None:
    assert 2 * SLOTS * math.exp(-2 * MODULUS_SWITCHING_BOUND**2 / (SLOTS + 1)) < 2.0**-78


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_noise_that_a_plan_admits_decrypts(case: Case, sign: int) -> None:
    """Flooding at its end, the bound of the products and of switching on top, in every coefficient."""
    public, secret = case.pair
    half, values = case.half, case.some(1, 0)
    q = math.prod(half.moduli[: case.kept])
    rounding = int(MODULUS_SWITCHING_BOUND) * math.prod(half.moduli) // q
    added = sign * (2**case.parameters.flooding_bits + int(plain_product_bound(case.parameters, 8)) + rounding)
    constant = np.array([[added % modulus] * SLOTS for modulus in half.moduli], np.uint64)
    ciphertext = case.loaded(values, 0)
    half.add_in_place(ciphertext.words[: len(half.moduli)], values_of(half, constant))
    for kept in (None, case.kept):
        assert secret.decrypt(public.dump_result(ciphertext, kept), 0, kept).tolist() == values.tolist()


@pytest.mark.parametrize("backend_name", ["openfhe", "tenseal"])
def test_margins_are_those_of_the_specification(backend_name: str) -> None:
    """One prime of 54 bits is left of three: b = 119, and about 54 bits, half a bit less for twice the products."""
    small, large = CHAINS[backend_name]
    parameters = parameters_of(backend_name, small, PRIMES["41 bits"])
    assert parameters.flooding_bits == 119
    for products in (1, 2, 16):
        assert abs(flooding_margin(parameters, products, 1) - (54.3 - math.log2(products) / 2)) < 0.1
    with pytest.raises(CapacityError, match="1 of 4 primes leave results no room"):
        flooding_margin(parameters_of(backend_name, large, PRIMES["50 bits"]), 1, 1)
    margin = {"openfhe": 84.3, "tenseal": 72.3}[backend_name]
    assert abs(flooding_margin(parameters_of(backend_name, large, PRIMES["50 bits"][1:]), 1, 2) - margin) < 0.1


def test_a_modulus_that_cannot_hold_the_flooding_is_no_plan(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = parameters_of(backend, CHAINS[backend][0], PRIMES["41 bits"])
    monkeypatch.setattr(BfvParameters, "flooding_bits", 120)
    for kept in (1, 2, 3):
        with pytest.raises(CapacityError, match="no room for noise"):
            flooding_margin(parameters, 1, kept)

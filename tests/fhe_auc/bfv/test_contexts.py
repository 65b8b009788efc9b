"""What is peculiar to BFV contexts: exact integers modulo primes, plaintext factors, and results switched down.

Where a test has an oracle it is Python's integers. What contexts of all schemes have in common stands in
`rlwe/test_contexts.py`, and the size of noise in `test_ciphertexts.py`.
"""

import itertools
from functools import partial

import msgspec
import numpy as np
import pytest

from fhe_auc import bfv
from fhe_auc.base.errors import CapacityError, DeserialisationError
from fhe_auc.base.serialise import encode
from fhe_auc.bfv.parameters import flooding_margin
from fhe_auc.rlwe.ciphertexts import SEED_BYTES, wrap
from fhe_auc.rlwe.modular import primes_above
from fhe_auc.rlwe.ring_parameters import KEY_CHAIN
from tests.support.bfv_contexts import PRIMES, SLOTS, Case, parameters_of

SMALL, LARGE = PRIMES.values()
pytestmark = pytest.mark.backends("one")  # the library makes keys, and floods with zeros; the rest is ours


@pytest.mark.backends("all")
@pytest.mark.parametrize("products", [1, 3])
def test_sums_of_plaintext_products_come_out_exactly_at_every_size(case: Case, products: int) -> None:
    """The whole circuit, read from all primes of the modulus and from as few as the planner keeps."""
    public, secret = case.pair
    for prime, t in enumerate(case.primes):
        total, expected = case.sum_of_products(products, prime)
        more = case.some(99, prime)
        expected = [(x + y) % t for x, y in zip(expected, more.tolist(), strict=True)]
        flooded = public.flood(total, more)
        for kept in (len(case.half.moduli), case.kept, case.kept + 1):
            assert secret.decrypt(public.dump_result(flooded, kept), prime, kept).tolist() == expected


def test_results_are_short_and_operands_are_left_as_they_were(case: Case) -> None:
    public, secret = case.pair
    ciphertext = public.read_submission(secret.encrypt(case.some(1), 0), 0)
    before = ciphertext.words.copy()
    public.sum_of_products(0, [ciphertext], [case.some(2)])
    flooded = public.flood(ciphertext, case.some(2))
    coefficients = flooded.coefficients.copy()
    for kept in range(1, len(case.half.moduli) + 1):
        size = 2 * SLOTS * sum(case.parameters.modulus_bits[:kept]) // 8
        assert 0 <= len(public.dump_result(flooded, kept)) - size < 200
    assert np.array_equal(flooded.coefficients, coefficients)
    assert np.array_equal(ciphertext.words, before)


def test_other_messages_have_other_randomness_though_the_systems_repeats(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_bytes", bytes)
    other = case.some(1) ^ np.eye(1, SLOTS, dtype=np.uint64)[0]
    first, again, second = (case.pair.secret.encrypt(each, 0) for each in (case.some(1), case.some(1), other))
    assert first == again
    assert first[-SEED_BYTES:] != second[-SEED_BYTES:]


def test_a_public_context_is_half_a_public_key_and_a_seed_and_an_evaluation_key_is_refused(case: Case) -> None:
    public = case.pair.public
    assert 0 <= len(public.to_bytes()) - case.parameters.submission_bytes < 300
    more = encode((*msgspec.structs.astuple(public._stored), b"\0" * 64))
    with pytest.raises(DeserialisationError, match="malformed public BFV context"):
        bfv.load_public(wrap(public.kind, public.fingerprint, more))


def test_what_is_of_another_prime_key_or_number_of_primes_is_refused(case: Case) -> None:
    (public, secret), (t, other) = case.pair, case.primes[:2]
    with pytest.raises(DeserialisationError, match=f"a submission modulo {other}, got a 'submission modulo {t}'"):
        public.read_submission(secret.encrypt(case.some(1), 0), 1)
    for kept in (len(case.half.moduli), case.kept):
        data = public.dump_result(case.fresh(), kept)
        with pytest.raises(DeserialisationError, match="made under another key"):
            case.other.secret.decrypt(data, 0, kept)
        with pytest.raises(DeserialisationError, match=f"expected a result .*modulo {other}"):
            secret.decrypt(data, 1, kept)
        with pytest.raises(DeserialisationError, match="expected a result"):
            secret.decrypt(secret.encrypt(case.some(1), 0), 0, kept)
    flooded = case.fresh()
    everyone = range(1, len(case.half.moduli) + 1)
    for sent, agreed in itertools.permutations(everyone, 2):
        with pytest.raises(DeserialisationError, match="expected a result"):
            secret.decrypt(public.dump_result(flooded, sent), 0, agreed)


def test_primes_that_there_are_none_of_are_refused_and_sums_over_several(case: Case) -> None:
    (public, secret), zeros, count = case.pair, np.zeros(SLOTS, int), len(case.primes)
    encrypt = (
        (secret.encrypt, zeros),
        (lambda values, prime: public.flood(public.sum_of_products(prime, [], []), values), zeros),
        (public.read_submission, b""),
        (partial(secret.decrypt, kept=1), b""),
    )
    for (call, data), prime in itertools.product(encrypt, (-1, count)):
        with pytest.raises(ValueError, match=f"prime must be an index below {count}"):
            call(data, prime)
    keep = ((public.dump_result, case.fresh()), (secret.decrypt, b"", 0), (flooding_margin, case.parameters, 1))
    for (call, *arguments), kept in itertools.product(keep, (-1, 0, 5)):
        with pytest.raises(ValueError, match="can be kept"):
            call(*arguments, kept)
    with pytest.raises(ValueError, match="different primes, 1 and 0"):
        public.sum_of_products(1, [case.loaded(zeros)], [zeros])


def test_what_is_no_vector_of_residues_is_refused(case: Case) -> None:
    (public, secret), ciphertext = case.pair, case.loaded(case.some(1))
    no_vectors = np.zeros(SLOTS - 1, int), np.zeros((2, SLOTS), int), np.zeros(SLOTS), np.zeros(SLOTS, bool)
    beyond = [np.full(SLOTS, each, kind) for each, kind in ((-1, int), (case.primes[0], int), (2**64 - 1, np.uint64))]
    for values in (*no_vectors, *beyond):
        shown = "one integer for each of 8192" if any(values is each for each in no_vectors) else "not in"
        for call, *arguments in (
            (secret.encrypt, values, 0),
            (public.sum_of_products, 0, [ciphertext], [values]),
            (public.flood, ciphertext, values),
        ):
            with pytest.raises(ValueError, match=shown):
                call(*arguments)


def test_plaintext_moduli_that_libraries_must_not_see_are_refused(backend: str) -> None:
    for chain in [0, 1, -1]:
        for plain_moduli, shown in (
            ((), "1 to 8 plaintext moduli"),
            ((65537, 65537), "all different"),
            (primes_above(2**41, 9, SLOTS), "1 to 8 plaintext moduli"),
            ((SMALL[0] + 2 * SLOTS,), "must be a prime"),
            ((LARGE[0] + 2 * SLOTS,), "must be a prime"),
            ((2**41 + 27,), "must be a prime that is 1 modulo 16384"),
            ((2**49 + 27,), "must be a prime that is 1 modulo 16384"),
            ((40961,), "17 to 50 bits"),
            (primes_above(2**50, 1, SLOTS), "17 to 50 bits"),
        ):
            with pytest.raises(CapacityError, match=shown):
                parameters_of(backend, plain_moduli, chain=chain)


def test_a_plaintext_modulus_that_divides_the_ciphertext_modulus_is_refused(backend: str) -> None:
    _, *known = parameters_of(backend, LARGE).own_moduli
    for moduli in ((known[0],), (LARGE[0], known[-1])):
        with pytest.raises(CapacityError, match=f"must not be a prime of the modulus of ciphertexts: {moduli[-1]}"):
            parameters_of(backend, moduli)


@pytest.mark.openfhe
def test_openfhe_with_another_modulus_than_asked_for_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from fhe_auc.rlwe import openfhe_library

    class Shallow(openfhe_library.openfhe.CCParamsCKKSRNS):
        def SetMultiplicativeDepth(self, depth: int) -> None:
            super().SetMultiplicativeDepth(1)

    monkeypatch.setattr(openfhe_library.openfhe, "CCParamsCKKSRNS", Shallow)
    with pytest.raises(CapacityError, match="not those that the parameters say"):
        openfhe_library.Scheme(KEY_CHAIN).drawn()

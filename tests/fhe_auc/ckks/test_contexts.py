"""What is peculiar to CKKS contexts: parameters, rotation keys, and that slots come out as the algebra says.

What they have in common with other schemes' stands in `rlwe/test_contexts.py`.
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fhe_auc import ckks
from fhe_auc.base.errors import CapacityError, DeserialisationError
from fhe_auc.rlwe import container
from tests.support.schemes import Ckks

SLOTS = 4096
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
seeds = st.integers(0, 2**32 - 1)


def values(seed: int, size: float = 1000.0) -> ckks.Slots:
    """Complex values in all slots, up to `size` in either part."""
    generator = np.random.default_rng(seed)
    return size * (generator.uniform(-1, 1, SLOTS) + 1j * generator.uniform(-1, 1, SLOTS))


def decrypted(pair: ckks.KeyPair, ciphertext: ckks.Ciphertext) -> ckks.Slots:
    return pair.secret.decrypt(pair.public.dump_result(ciphertext))


def loaded(pair: ckks.KeyPair, plain: ckks.Slots) -> ckks.Ciphertext:
    return pair.public.load_submission(pair.secret.encrypt(plain))


def added(public: ckks.PublicContext, left: ckks.Ciphertext, right: ckks.Ciphertext) -> ckks.Ciphertext:
    public.add_in_place(left, right)
    return left


def square(pair: ckks.KeyPair, plain: ckks.Slots) -> ckks.Ciphertext:
    ciphertext = loaded(pair, plain)
    return pair.public.multiply(ciphertext, ciphertext)


# --- What does not belong to a context is refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"ring_dimension": 1000}, "ring dimension 1000 is not one of"),
        ({"ring_dimension": 4096}, "below 128-bit security"),
        ({"modulus_bits": (60, 60, 60, 60)}, "below 128-bit security"),
        ({"modulus_bits": ()}, "does not fit|not supported"),
        ({"modulus_bits": (61, 50)}, "not supported"),
        ({"special_bits": 61}, "not supported"),
        ({"special_bits": 0}, "not supported"),
        ({"special_bits": -60, "modulus_bits": (60, 60, 60, 60)}, "not supported|security"),
        *(({"log2_scale": scale}, "does not fit") for scale in (0.0, 90.0, float("nan"), float("inf"))),
        *(({"rotations": steps}, "rotations") for steps in [(0,), (4096,), (2, 1), (2, 2), (-1,)]),
    ],
)
def test_parameters_that_are_insecure_or_impossible_are_refused(
    parameters: ckks.CkksParameters, changes: dict[str, Any], shown: str
) -> None:
    with pytest.raises(CapacityError, match=shown):
        msgspec.structs.replace(parameters, **changes)


def test_a_vector_of_the_wrong_length_is_not_encrypted(pair: ckks.KeyPair) -> None:
    for encrypt in (pair.secret.encrypt, pair.public.encrypt):
        with pytest.raises(ValueError, match="slots"):
            encrypt(np.ones(SLOTS // 2, complex))


@pytest.mark.parametrize("bad", [np.nan, np.inf, complex(0, np.nan), 1e300])
def test_values_that_no_ciphertext_can_hold_are_refused_before_they_are_sent(pair: ckks.KeyPair, bad: complex) -> None:
    plain = np.zeros(SLOTS, complex)
    plain[7] = bad
    with pytest.raises(ValueError):  # noqa: PT011 - which one is the implementation's choice
        pair.secret.encrypt(plain)


@pytest.mark.openfhe
def test_a_ciphertext_of_the_other_backend_is_refused_with_our_fingerprint_forged_onto_it(pair: ckks.KeyPair) -> None:
    """By its size: the primes of BFV are as large on both."""
    (foreign,) = set(ckks.available_backends()) - {pair.public.parameters.backend}
    submission = ckks.generate(Ckks().parameters(foreign)).secret.encrypt(values(1))
    _, payload = container.open_any("submission", submission)
    with pytest.raises(DeserialisationError, match="bytes of coefficients and seed"):
        pair.public.load_submission(container.seal("submission", pair.public.fingerprint, payload))


# --- The evaluation keys are those named, no more ---------------------------------------------------------------------


@pytest.mark.parametrize("step", [3, 4, 1024, 2047, -1, 0, 4095])
def test_rotating_by_a_step_without_a_key_raises(pair: ckks.KeyPair, step: int) -> None:
    ciphertext = loaded(pair, values(1))
    with pytest.raises((KeyError, ValueError)):
        pair.public.rotate(ciphertext, step)


def test_the_rotation_keys_are_exactly_those_named(pair: ckks.KeyPair) -> None:
    public: Any = ckks.load_public(pair.public.to_bytes())
    if public.parameters.backend == "openfhe":
        # OpenFHE's automorphism of a rotation by s is X -> X^(5^s mod 2N); its key map can only be asked by using it.
        ciphertext, held = loaded(pair, values(1)), set()
        steps = {*range(1, 100), *(sign * 2**k for k in range(12) for sign in (1, -1))}
        conjugation = 4 * SLOTS - 1
        for element in sorted({conjugation, *(pow(5, step, 4 * SLOTS) for step in steps)}):
            with contextlib.suppress(RuntimeError):
                public._scheme.context.EvalAutomorphism(ciphertext, element, public._rotation_keys)
                held.add(element)
        expected = {pow(5, step, 4 * SLOTS) for step in public.parameters.rotations}
    else:
        held = {element for element in range(1, 4 * SLOTS, 2) if public._rotation_keys.has_key(element)}
        expected = {pow(3, step, 4 * SLOTS) for step in public.parameters.rotations}
    assert held == expected


def test_there_is_no_way_round_the_missing_key_inside_the_library(pair: ckks.KeyPair) -> None:
    public: Any = pair.public
    ciphertext = loaded(pair, values(1))
    scheme = public._scheme
    if public.parameters.backend == "openfhe":
        rotate, arguments = scheme.context.EvalRotate, (ciphertext, 4)
    else:
        rotate, arguments = scheme.evaluation.rotate_vector, (ciphertext, 4, public._rotation_keys, type(ciphertext)())
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        rotate(*arguments)


def test_parameters_without_rotations_make_a_context_that_multiplies(parameters: ckks.CkksParameters) -> None:
    bare = ckks.generate(msgspec.structs.replace(parameters, rotations=()))
    plain = values(3)
    assert np.allclose(decrypted(bare, square(bare, plain)), plain**2, atol=1e-2)


# --- Slots come out as the algebra says -------------------------------------------------------------------------------


@few
@given(seed=seeds)
def test_products_are_slot_by_slot(pair: ckks.KeyPair, seed: int) -> None:
    left, right = values(seed), values(seed ^ 1)
    product = pair.public.multiply(loaded(pair, left), loaded(pair, right))
    assert np.allclose(decrypted(pair, product), left * right, atol=1e-3)


@few
@given(seed=seeds)
def test_sums_are_slot_by_slot_at_both_degrees(pair: ckks.KeyPair, seed: int) -> None:
    left, right = values(seed), values(seed ^ 1)
    total = added(pair.public, loaded(pair, left), loaded(pair, right))
    squared = pair.public.multiply(total, total)
    assert np.allclose(decrypted(pair, squared), (left + right) ** 2, atol=1e-3)
    twice = added(pair.public, squared, square(pair, left))
    assert np.allclose(decrypted(pair, twice), (left + right) ** 2 + left**2, atol=1e-3)


@few
@given(seed=seeds, step=st.sampled_from([1, 2, 2048]), degree=st.sampled_from([1, 2]))
def test_rotation_is_to_the_left_and_cyclic_at_both_degrees(
    pair: ckks.KeyPair, seed: int, step: int, degree: int
) -> None:
    plain = values(seed)
    if degree == 1:
        rotated = pair.public.multiply(pair.public.rotate(loaded(pair, plain), step), loaded(pair, np.ones(SLOTS)))
        expected = np.roll(plain, -step)
    else:
        rotated = pair.public.rotate(square(pair, plain), step)
        expected = np.roll(plain**2, -step)
    assert np.allclose(decrypted(pair, rotated), expected, atol=1e-3)


def test_rotating_by_one_moves_slot_one_to_slot_zero_and_slot_zero_to_the_end(pair: ckks.KeyPair) -> None:
    plain = np.arange(SLOTS, dtype=complex)
    rotated = decrypted(pair, pair.public.rotate(pair.public.encrypt(plain, degree=2), 1))
    assert rotated[0] == pytest.approx(1, abs=1e-6)
    assert rotated[-1] == pytest.approx(0, abs=1e-6)


@few
@given(seed=seeds)
def test_the_public_key_encrypts_at_degree_one_and_two(pair: ckks.KeyPair, seed: int) -> None:
    plain = values(seed)
    assert np.allclose(decrypted(pair, pair.public.encrypt(plain, degree=2)), plain, atol=1e-9)
    one = pair.public.encrypt(plain)
    assert np.allclose(decrypted(pair, pair.public.multiply(one, one)), plain**2, atol=1e-2)
    mixed = added(pair.public, square(pair, plain), pair.public.encrypt(-(plain**2), degree=2))
    assert np.allclose(decrypted(pair, mixed), 0, atol=1e-3)


@few
@given(seed=seeds, weight=st.one_of(st.integers(-(2**50), 2**50), st.sampled_from([1, -1, 2**50, 2**50 - 1])))
def test_multiplying_by_one_integer_is_exact(pair: ckks.KeyPair, seed: int, weight: int) -> None:
    if weight == 0:
        weight = 1  # the case of zero has a test of its own
    # The product's own noise is multiplied along, so that it cancels: what is left is double precision.
    product = pair.public.encrypt(values(seed, size=2.0**20), degree=2)
    scaled = pair.public.multiply_integers(product, np.full(SLOTS, weight, complex))
    before, after = decrypted(pair, product), decrypted(pair, scaled)
    assert np.abs(after / weight - before).max() < 2.0**-45 * 2.0**20


def test_multiplying_by_zero_gives_zero(pair: ckks.KeyPair) -> None:
    # SEAL itself refuses to make a product that anyone could read.
    product = pair.public.multiply_integers(square(pair, values(5)), np.zeros(SLOTS, complex))
    total = added(pair.public, product, pair.public.encrypt(np.ones(SLOTS, complex), degree=2))
    assert np.allclose(decrypted(pair, total), 1, atol=1e-6)


@few
@given(seed=seeds, weight=st.integers(2**10, 2**44))
def test_different_integers_for_two_classes_err_by_less_than_two(pair: ckks.KeyPair, seed: int, weight: int) -> None:
    # Slots that repeat with period 2 have four coefficients that are not 0, each rounded by at most 1/2.
    weights = np.tile(np.array([weight, 0], complex), SLOTS // 2)
    ones = pair.public.encrypt(np.ones(SLOTS, complex), degree=2)
    found = decrypted(pair, pair.public.multiply_integers(ones, weights))
    assert np.abs(found - weights).max() < 2 + 2.0**-30 * weight


def test_multiplication_leaves_its_operands_alone(pair: ckks.KeyPair) -> None:
    plain = values(9)
    ciphertext = pair.public.encrypt(plain, degree=2)
    pair.public.rotate(ciphertext, 1)
    added(pair.public, pair.public.encrypt(plain, degree=2), ciphertext)
    pair.public.multiply_integers(ciphertext, np.full(SLOTS, 5, complex))
    assert np.allclose(decrypted(pair, ciphertext), plain, atol=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
def test_values_decrypt_up_to_half_the_modulus_and_not_beyond(pair: ckks.KeyPair, sign: int) -> None:
    # Equal slots are a single coefficient, Δ'²·x², so the bound |coefficient| < Q/2 is sharp.
    limit = 2.0 ** (pair.public.parameters.log2_modulus - 1 - 2 * pair.public.parameters.log2_scale)
    root = np.full(SLOTS, np.sqrt(limit), complex)
    below = pair.public.multiply(loaded(pair, sign * 0.99 * root), loaded(pair, 0.99 * root))
    assert np.allclose(decrypted(pair, below) / limit, sign * 0.99**2, rtol=1e-9)
    beyond = pair.public.multiply(loaded(pair, sign * 1.02 * root), loaded(pair, 1.02 * root))
    assert np.abs(decrypted(pair, beyond) / limit - sign * 1.02**2).min() > 0.5


# --- Contexts travel --------------------------------------------------------------------------------------------------


def test_contexts_come_back_from_bytes_as_they_were(pair: ckks.KeyPair) -> None:
    public, secret = ckks.load_public(pair.public.to_bytes()), ckks.load_secret(pair.secret.to_bytes())
    assert (public.to_bytes(), secret.to_bytes()) == (pair.public.to_bytes(), pair.secret.to_bytes())
    assert public.fingerprint == secret.fingerprint == pair.public.fingerprint
    assert public.parameters == secret.parameters == pair.public.parameters


def test_contexts_from_bytes_work_with_the_originals(pair: ckks.KeyPair) -> None:
    copied = ckks.KeyPair(ckks.load_public(pair.public.to_bytes()), ckks.load_secret(pair.secret.to_bytes()))
    plain = values(11)
    for encryptor in (pair, copied):
        for evaluator in (pair, copied):
            ciphertext = evaluator.public.load_submission(encryptor.secret.encrypt(plain))
            rotated = evaluator.public.rotate(ciphertext, 2)
            result = evaluator.public.dump_result(evaluator.public.multiply(ciphertext, rotated))
            for decryptor in (pair, copied):
                assert np.allclose(decryptor.secret.decrypt(result), plain * np.roll(plain, -2), atol=1e-3)


_AGGREGATE = """
import base64, json, sys
from fhe_auc import ckks
context, *submissions = [base64.b64decode(line) for line in sys.stdin.buffer.read().split()]
public = ckks.load_public(context)
first, second = map(public.load_submission, submissions)
public.add_in_place(first, second)
total = first
result = public.dump_result(public.multiply(total, public.rotate(total, 2048)))
print(json.dumps(base64.b64encode(result).decode()))
"""


def test_a_process_that_got_only_bytes_computes_what_the_key_owner_decrypts(pair: ckks.KeyPair, run_child: Any) -> None:
    left, right = values(12), values(13)
    parts = [pair.public.to_bytes(), pair.secret.encrypt(left), pair.secret.encrypt(right)]
    result = base64.b64decode(run_child(_AGGREGATE, data=b"\n".join(map(base64.b64encode, parts))))
    total = left + right
    assert np.allclose(pair.secret.decrypt(result), total * np.roll(total, -2048), atol=1e-2)


_PARTY = """
import base64, json, sys
import numpy as np
from fhe_auc import ckks
secret = ckks.load_secret(sys.stdin.buffer.read())
print(json.dumps(base64.b64encode(secret.encrypt(np.arange(4096, dtype=complex))).decode()))
"""


def test_a_party_in_another_process_encrypts_for_the_same_context(pair: ckks.KeyPair, run_child: Any) -> None:
    submission = base64.b64decode(run_child(_PARTY, data=pair.secret.to_bytes()))
    ciphertext = pair.public.load_submission(submission)
    product = pair.public.multiply(ciphertext, pair.public.encrypt(np.ones(SLOTS, complex)))
    assert np.allclose(decrypted(pair, product), np.arange(SLOTS), atol=1e-3)


def test_contexts_made_side_by_side_in_threads_do_not_mix(parameters: ckks.CkksParameters) -> None:
    made: list[ckks.KeyPair] = []
    fresh = msgspec.structs.replace(parameters, log2_scale=39.0)  # no scheme for these is at hand yet
    threads = [threading.Thread(target=lambda: made.append(ckks.generate(fresh))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({made_pair.public.fingerprint for made_pair in made}) == 4
    plain = values(14)
    for made_pair in made:
        ciphertext = loaded(made_pair, plain)
        product = made_pair.public.multiply(ciphertext, made_pair.public.rotate(ciphertext, 1))
        assert np.allclose(decrypted(made_pair, product), plain * np.roll(plain, -1), atol=1e-2)


# --- Nothing is left behind -------------------------------------------------------------------------------------------

_NEIGHBOUR = """
import hashlib
import json
import numpy as np
import openfhe
from fhe_auc import ckks

# Another user of OpenFHE in this process, with parameters and keys of its own.
settings = openfhe.CCParamsCKKSRNS()
settings.SetMultiplicativeDepth(2); settings.SetScalingModSize(45); settings.SetRingDim(8192)
settings.SetSecurityLevel(openfhe.HEStd_NotSet); settings.SetBatchSize(8)
context = openfhe.GenCryptoContext(settings)
for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE):
    context.Enable(feature)
keys = context.KeyGen()
context.EvalMultKeyGen(keys.secretKey)
context.EvalRotateKeyGen(keys.secretKey, [1, -2])

def maps():
    def digest(key):
        return hashlib.sha256(openfhe.Serialize(key, openfhe.BINARY)).hexdigest()
    return [{tag: [digest(part) for part in parts] for tag, parts in context.GetAllEvalMultKeys().items()},
            {tag: digest(key) for tag, key in context.GetAllEvalAutomorphismKeys().items()}]

before = maps()

ours = ckks.generate(ckks.CkksParameters("openfhe", 8192, (52, 51, 51), 60, 40.0, (1, 2)))
public, secret = ckks.load_public(ours.public.to_bytes()), ckks.load_secret(ours.secret.to_bytes())
one = public.load_submission(secret.encrypt(np.ones(4096, complex)))
secret.decrypt(public.dump_result(public.multiply(one, public.rotate(one, 1))))
after = maps()

plain = context.MakeCKKSPackedPlaintext([1.0, 2, 3, 4, 5, 6, 7, 8])
theirs = context.Encrypt(keys.publicKey, plain)
product = context.EvalRotate(context.EvalMult(theirs, theirs), 1)
found = context.Decrypt(product, keys.secretKey)
found.SetLength(8)
openfhe.ClearEvalMultKeys(); context.ClearEvalAutomorphismKeys()
again = secret.decrypt(public.dump_result(public.multiply(one, public.rotate(one, 1))))
print(json.dumps([before, after, found.GetRealPackedValue(), abs(again - 1).max()]))
"""


@pytest.mark.openfhe
def test_openfhe_key_maps_are_left_as_found(run_child: Any) -> None:
    before, after, theirs, error = run_child(_NEIGHBOUR)
    assert [len(part) for part in before] == [1, 1]
    assert after == before  # the neighbour's keys are there, ours are not
    assert np.allclose(theirs, [4, 9, 16, 25, 36, 49, 64, 1], atol=1e-3)
    assert error < 1e-3  # and ours work after the neighbour has cleared the maps


_SESSIONS = """
import ctypes, gc, json, sys
import numpy as np
from fhe_auc import ckks
from fhe_auc_protocols.blinded_auc.planner import plan
from fhe_auc_protocols.blinded_auc.workload import Workload

def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is freed but kept for later is no leak, and differs from run to run
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096

parameters = plan(Workload(thresholds=16, parties=3), sys.argv[1]).parameters

def session():
    pair = ckks.generate(parameters)
    public, secret = ckks.load_public(pair.public.to_bytes()), ckks.load_secret(pair.secret.to_bytes())
    one = public.load_submission(secret.encrypt(np.ones(4096, complex)))
    secret.decrypt(public.dump_result(public.multiply(one, public.rotate(one, 2))))
    return len(pair.public.to_bytes())

for _ in range(3):
    keys = session()
before = resident()
for _ in range(3):
    session()
print(json.dumps([keys, resident() - before]))
"""


def test_memory_does_not_grow_from_session_to_session(backend: str, run_child: Any) -> None:
    keys, growth = run_child(_SESSIONS, backend)
    assert growth < keys, f"{growth:,} bytes more after 3 sessions with {keys:,} bytes of keys each"

"""Contexts of either scheme, on either library: what they refuse and keep secret, and that they travel.

What is peculiar to a scheme stands in `ckks/test_contexts.py` and `bfv/test_contexts.py`.
"""

import contextlib
import copy
import gc
import hashlib
import itertools
import json
import math
import pickle
import weakref
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import encode
from fhe_auc.rlwe.ciphertexts import SEED_BYTES, VARIANCE, Seeded, unwrap, wrap
from fhe_auc.rlwe.context import _IN_USE, new_public_key
from fhe_auc.rlwe.polynomials import coefficients_of
from tests.support.polynomials import signed
from tests.support.schemes import SCHEMES, Bfv
from tests.support.wire import DAMAGE, flipped


@lru_cache
def made(name: str, backend: str, which: int = 0) -> Any:
    """Keys of a scheme, made once for each `which`."""
    scheme = SCHEMES[name]
    return scheme.library.generate(scheme.parameters(backend))


@pytest.fixture(scope="module", params=SCHEMES.values(), ids=str)
def scheme(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def pair(scheme: Any, backend: str) -> Any:
    return made(scheme.name, backend)


@pytest.fixture
def other_pair(scheme: Any, backend: str) -> Any:
    """Other keys for the same parameters."""
    return made(scheme.name, backend, 1)


def result_of(scheme: Any, public: Any, submission: bytes) -> bytes:
    """What an aggregator makes of one submission."""
    return scheme.computed(public, scheme.read(public, submission))


def of_pair(scheme: Any, pair: Any) -> dict[str, bytes]:
    """An object of every kind that there is."""
    submission = scheme.encrypt(pair.secret, scheme.some(1))
    return {
        scheme.submission: submission,
        scheme.result: result_of(scheme, pair.public, submission),
        pair.public.kind: pair.public.to_bytes(),
        pair.secret.kind: pair.secret.to_bytes(),
    }


def readers(scheme: Any, pair: Any) -> dict[str, Callable[[bytes], Any]]:
    """What reads an object of every kind."""
    return {
        scheme.submission: lambda data: scheme.read(pair.public, data),
        scheme.result: lambda data: scheme.decrypt(pair.secret, data),
        pair.public.kind: scheme.library.load_public,
        pair.secret.kind: scheme.library.load_secret,
    }


def test_ciphertexts_under_another_key_are_refused_by_fingerprint(scheme: Any, pair: Any, other_pair: Any) -> None:
    for kind in (scheme.submission, scheme.result):
        with pytest.raises(DeserialisationError, match=f"{kind} was made under another key") as caught:
            readers(scheme, pair)[kind](of_pair(scheme, other_pair)[kind])
        assert caught.value.field == "fingerprint"
    key, parameters = pair.public._stored.public_keys_digest, pair.public.parameters
    assert pair.public.fingerprint == pair.secret.fingerprint != other_pair.public.fingerprint
    assert len(pair.public.fingerprint) == 32
    assert scheme.other_parameters(parameters.backend).fingerprint(key) != pair.public.fingerprint
    assert parameters.fingerprint(key[:-1] + bytes([key[-1] ^ 1])) != pair.public.fingerprint


def test_one_kind_of_object_does_not_pass_for_another_of_either_scheme(scheme: Any, pair: Any, backend: str) -> None:
    objects = {kind: data for name in SCHEMES for kind, data in of_pair(SCHEMES[name], made(name, backend)).items()}
    assert len(objects) == 8
    for expected, read in readers(scheme, pair).items():
        for kind, data in objects.items():
            if kind != expected:
                with pytest.raises(DeserialisationError, match=f"expected a {expected}, got a '{kind}'") as caught:
                    read(data)
                assert caught.value.field == "kind"
        with pytest.raises(DeserialisationError, match=f"not a {expected}"):
            read(b"")


def test_contexts_with_another_fingerprint_or_other_keys_are_refused(scheme: Any, pair: Any, other_pair: Any) -> None:
    for context in pair:
        _, payload = unwrap(context.kind, context.to_bytes())
        with pytest.raises(DeserialisationError, match="does not match its fingerprint"):
            readers(scheme, pair)[context.kind](wrap(context.kind, bytes(32), payload))
        for length in (*range(32), 33, 64, 1000):
            with pytest.raises(DeserialisationError, match="fingerprint of another length"):
                readers(scheme, pair)[context.kind](wrap(context.kind, bytes(length), payload))
    swapped = msgspec.structs.replace(pair.public._stored, public_key=other_pair.public._stored.public_key)
    assert swapped.public_keys_digest != pair.public._stored.public_keys_digest
    with pytest.raises(DeserialisationError, match="does not match its fingerprint"):
        scheme.library.load_public(wrap(pair.public.kind, pair.public.fingerprint, encode(swapped)))


def test_coefficients_above_the_modulus_and_transparent_ciphertexts_are_refused(scheme: Any, pair: Any) -> None:
    for context, key in ((pair.public, "public_key"), (pair.secret, "secret_key")):
        spoilt = msgspec.structs.replace(context._stored, **{key: b"\xff" * 8 + getattr(context._stored, key)[8:]})
        fingerprint = spoilt.parameters.fingerprint(spoilt.public_keys_digest)
        if key == "secret_key":
            with pytest.raises(DeserialisationError, match="is damaged"):
                scheme.library.load_secret(wrap(context.kind, fingerprint, encode(spoilt)))
            spoilt = msgspec.structs.replace(spoilt, checksum=hashlib.sha256(spoilt.secret_key).digest())
        with pytest.raises(DeserialisationError, match="is not below its modulus"):
            readers(scheme, pair)[context.kind](wrap(context.kind, fingerprint, encode(spoilt)))
    _, payload = unwrap(scheme.result, of_pair(scheme, pair)[scheme.result])
    for first in [0, 56]:  # bytes, of the first polynomial
        forged = wrap(scheme.result, pair.public.fingerprint, bytes(payload)[:first].ljust(len(payload), b"\0"))
        with pytest.raises(DeserialisationError, match="not a ciphertext: "):
            scheme.decrypt(pair.secret, forged)


def test_a_changed_head_and_coefficients_that_cannot_be_are_refused(scheme: Any, pair: Any) -> None:
    """Other damage shows in the message around: containers have no checksum of their own."""
    objects, read = of_pair(scheme, pair), readers(scheme, pair)
    for kind in (scheme.submission, scheme.result):
        head = objects[kind].index(pair.public.fingerprint) + 32
        for place in range(head):
            with pytest.raises(DeserialisationError):
                read[kind](flipped(objects[kind], place))
        fingerprint, payload = unwrap(kind, objects[kind])
        for damaged in DAMAGE.values():
            with pytest.raises(
                DeserialisationError,
                match=r"bytes of coefficients|not below its modulus|are not zero|of other parameters",
            ):
                read[kind](wrap(kind, fingerprint, damaged(bytes(payload))))


ODD = (None, True, -1, 2**63, 1.5, math.nan, "", "x" * 70_000, b"", b"\xff" * 99, [], {}, [[]], [0] * 100)
PLACES = st.one_of(st.integers(0, 160), st.integers(0, 2**20))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    at=PLACES, cut=st.sampled_from([0, 1, 60, 4000]), other=st.integers(0, 3), there=PLACES, own=st.binary(max_size=9)
)
def test_whatever_bytes_arrive_load_or_are_refused(
    scheme: Any, pair: Any, at: int, cut: int, other: int, there: int, own: bytes
) -> None:
    """Bytes cut out, and others put in, also of another object; behind the magic; and fields of the wrong types."""
    objects, read = objects_of(scheme.name, pair.public.parameters.backend), readers(scheme, pair)
    source = list(objects.values())[other]
    for kind, whole in objects.items():
        for piece, start in itertools.product((own, source[there % len(source) :][:cut]), (0, 8)):
            place = start + at % (len(whole) - start)
            with contextlib.suppress(DeserialisationError):
                read[kind](whole[:place] + piece + whole[place + cut :])
        fields = msgspec.msgpack.decode(whole[8:])
        fields[at % len(fields)] = ODD[there % len(ODD)]
        with pytest.raises(DeserialisationError):
            read[kind](whole[:8] + msgspec.msgpack.encode(fields))


@lru_cache
def objects_of(name: str, backend: str) -> dict[str, bytes]:
    return of_pair(SCHEMES[name], made(name, backend))


def test_no_secret_key_is_in_public_contexts_or_submissions(scheme: Any, pair: Any) -> None:
    # Looked for are 200 pieces of seven bytes, of packed coefficients each: too many to occur by chance.
    key = pair.secret._stored.secret_key
    step = len(key) // 7 // 4 // 200
    pieces = [key[7 * k : 7 * k + 7] for k in range(0, 200 * step, step)]
    assert all(piece in pair.secret.to_bytes() for piece in pieces)
    for data in (pair.public.to_bytes(), scheme.encrypt(pair.secret, 0 * scheme.some(1))):
        assert not any(piece in data for piece in pieces)


def test_text_forms_attributes_and_the_public_type_show_no_key(scheme: Any, pair: Any) -> None:
    name = pair.public.fingerprint.hex()[:16]
    for show in (repr, str, "{}".format, "{!r}".format):
        assert show(pair.secret) == f"<SecretContext {name} (secret)>"
        assert (show(pair.public), show(pair.secret._stored)) == (f"<PublicContext {name}>", "SecretKey(...)")
    # What error reporters and rich tracebacks do with the locals of a frame.
    key, text = pair.secret._stored.secret_key, repr(vars(pair.secret))
    for start in range(0, 2000, 8):
        assert repr(key[start : start + 8])[2:-1] not in text
        assert key[start : start + 8].hex() not in text
    assert not hasattr(pair.public, "decrypt")
    assert "secret" not in " ".join([*vars(pair.public), *type(pair.public).__dict__]).lower()


def test_contexts_are_neither_pickled_nor_copied_nor_serialised(pair: Any) -> None:
    for holder in (pair.public, pair.secret, {"keys": [pair.secret]}):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match="not pickled"):
                pickle.dumps(holder, protocol)
    for duplicate in (copy.copy, copy.deepcopy):
        for context in pair:
            with pytest.raises(TypeError, match="not pickled"):
                duplicate(context)
    for encoder in (json.dumps, msgspec.msgpack.encode, msgspec.json.encode):
        with pytest.raises(TypeError):
            encoder(pair.secret)


def test_equal_values_never_encrypt_to_equal_bytes_of_half_a_ciphertext_and_a_seed(scheme: Any, pair: Any) -> None:
    """A seed or a polynomial used twice would give away the difference of the plaintexts."""
    zeros = 0 * scheme.some(1)
    payloads = [unwrap(scheme.submission, scheme.encrypt(pair.secret, zeros))[1] for _ in range(10)]
    assert len({payload[-SEED_BYTES:] for payload in payloads}) == 10
    assert len({payload[:64] for payload in payloads}) == 10
    one, other = (Seeded(pair.public.ciphertext_shape).expand(payload) for payload in payloads[:2])
    assert (one != other).mean() > 0.999
    submission = scheme.encrypt(pair.secret, zeros)
    assert len({result_of(scheme, pair.public, submission) for _ in range(5)}) == 5
    size = len(submission)
    half, planned = pair.public.ciphertext_shape.packed_size // 2, pair.public.parameters.submission_bytes
    assert 0 <= size - half - SEED_BYTES < 200
    # OpenFHE's primes for CKKS are on either side of a power of two, and some take a bit more.
    openfhe_bits = len(pair.public.parameters.modulus_bits) if not pair.public.parameters.own_moduli else 0
    assert planned <= half <= planned + openfhe_bits * pair.public.parameters.ring_dimension // 8


def test_a_public_key_encrypts_zero_with_an_error_of_its_own(pair: Any) -> None:
    parameters, half, secret = pair.public.parameters, pair.secret.mask_shape, pair.secret.secret_words
    keys = pair.public._stored.public_key, new_public_key(parameters, pair.secret._stored.secret_key)
    assert len(keys[0]) == half.packed_size + SEED_BYTES
    parts = [np.split(Seeded(pair.public.ciphertext_shape).expand(packed), 2) for packed in keys]
    errors = []
    for b, a in parts:
        half.add_in_place(b, half.multiply(a, secret))
        errors.append(np.array(signed(half, coefficients_of(half, b)), float))
        assert np.abs(errors[-1]).max() <= 21
        assert (errors[-1] ** 2).mean() == pytest.approx(VARIANCE, rel=0.15)
    assert (parts[0][1] != parts[1][1]).mean() > 0.999
    assert abs(np.corrcoef(*errors)[0, 1]) < 0.1


@pytest.mark.parametrize("scheme", [SCHEMES["ckks"], *map(Bfv, range(3))], ids=str, scope="module")
def test_contexts_from_bytes_are_as_they_were_and_work_with_the_originals(scheme: Any, pair: Any) -> None:
    sent = [context.to_bytes() for context in pair]
    public, secret = scheme.library.load_public(sent[0]), scheme.library.load_secret(sent[1])
    assert [public.to_bytes(), secret.to_bytes()] == sent
    assert public.fingerprint == secret.fingerprint == pair.public.fingerprint
    assert public.parameters == secret.parameters == pair.public.parameters
    values = scheme.some(11)
    for encryptor in (pair.secret, secret):
        submission = scheme.encrypt(encryptor, values)
        for evaluator in (pair.public, public):
            result = result_of(scheme, evaluator, submission)
            for decryptor in (pair.secret, secret):
                assert scheme.agree(scheme.decrypt(decryptor, result), scheme.expected(values))


def test_a_context_is_the_same_while_somebody_uses_it_and_then_forgotten(scheme: Any, pair: Any, backend: str) -> None:
    gc.collect()
    before, made = len(_IN_USE), scheme.library.generate(pair.public.parameters)
    sent, seen = made.public.to_bytes(), weakref.ref(made.public)
    assert scheme.library.load_public(sent) is made.public
    assert len(_IN_USE) == before + 1
    del made
    gc.collect()
    assert (seen(), len(_IN_USE)) == (None, before)
    assert scheme.library.load_public(sent).to_bytes() == sent

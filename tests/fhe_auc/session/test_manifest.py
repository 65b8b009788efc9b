"""A manifest that makes no sense is refused, every change of one shows, and its plan must fit it."""

from __future__ import annotations

import hashlib
import math
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.base.errors import DeserialisationError, InputError, MessageError
from fhe_auc.base.names import AGGREGATOR
from fhe_auc.base.serialise import FORMAT_VERSION, encode
from fhe_auc.question.study import Study
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Message
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Session
from fhe_auc_protocols.blinded_auc.blinded_plan import AucPlan
from tests.support.blinded_auc import encoded

WORDS = {"model": "sepsis-net 2.1", "outcome": "sepsis", "cohort": "adults", "period": "2029"}
CERTIFIED: dict[str, Any] = {"fingerprints": (b"n" * 32, b"s" * 32, b"e" * 32), "aggregator": b"a" * 32}


FINGERPRINTS = CERTIFIED["fingerprints"]
NONSENSE: dict[str, dict[str, Any]] = {
    "nothing said of what machines evaluate": CERTIFIED,
    "a study in one process": {"study": WORDS},
    "a row cap of a stranger": {**CERTIFIED, "study": {**WORDS, "row-caps": {"north": 5, "west": 5}}},
    "a row cap of nothing": {**CERTIFIED, "study": {**WORDS, "row-caps": {"north": 0}}},
    "a study without an outcome": {**CERTIFIED, "study": {**WORDS, "outcome": ""}},
    "parties twice": {"parties": ("a", "a")},
    "party called aggregator": {"parties": ("a", AGGREGATOR)},
    "nameless party": {"parties": ("a", "")},
    "no parties": {"parties": ()},
    "no min_parties": {"min_parties": 0},
    "one of three is a pool": {"min_parties": 1},
    "min_parties above all": {"min_parties": 4},
    "no session id": {"session": b""},
    "short session id": {"session": b"short"},
    "cut grid": {"grid": b"123"},
    "descending grid": {"grid": np.array([0.5, 0.1]).tobytes()},
    "NaN in the grid": {"grid": np.array([np.nan] * 16).tobytes()},
    "short fingerprint": {"context": b"short"},
    "aggregator's keys alone": {"study": WORDS, "aggregator": b"a" * 32},
    "parties' keys alone": {"fingerprints": FINGERPRINTS},
    "a fingerprint too few": {**CERTIFIED, "study": WORDS, "fingerprints": FINGERPRINTS[:2]},
    "short fingerprint of keys": {**CERTIFIED, "study": WORDS, "fingerprints": (*FINGERPRINTS[:2], b"short")},
    "two parties with one pair of keys": {**CERTIFIED, "study": WORDS, "fingerprints": (*FINGERPRINTS[:2], b"s" * 32)},
    "an aggregator that is a party": {**CERTIFIED, "study": WORDS, "fingerprints": (*FINGERPRINTS[:2], b"a" * 32)},
    "infinite option": {"options": {"epsilon": math.inf}},
    "NaN as an option": {"options": {"epsilon": math.nan}},
    "nothing as an option": {"options": {"epsilon": None}},
}


@pytest.mark.parametrize("changes", NONSENSE.values(), ids=NONSENSE)
def test_a_manifest_that_makes_no_sense_is_refused(prepared: Session, changes: dict[str, Any]) -> None:
    encoded = msgspec.msgpack.encode({**msgspec.to_builtins(prepared.manifest, builtin_types=(bytes,)), **changes})
    with pytest.raises(DeserialisationError, match="malformed manifest"):
        Manifest.from_bytes(encoded)
    study = {**WORDS, "row-caps": {"north": 5}}  # what that would accept, had it not been spoilt
    plain = {**msgspec.to_builtins(prepared.manifest, builtin_types=(bytes,)), **CERTIFIED, "study": study}
    assert Manifest.from_bytes(msgspec.msgpack.encode(plain)).study == Study(**WORDS, row_caps={"north": 5})


def test_any_change_of_the_manifest_changes_what_messages_carry(prepared: Session, other_prepared: Session) -> None:
    manifest, study = prepared.manifest, Study(**WORDS)
    plan = manifest.decoded_plan(AucPlan)
    changes: list[dict[str, Any]] = [
        {"min_parties": 3},
        {"parties": ("north", "east", "south")},
        {"session": bytes(16)},
        {"grid": (manifest.thresholds / 2).tobytes()},
        {"context": other_prepared.manifest.context},
        {"protocol": "malicious"},
        {**CERTIFIED, "study": study},
        {**CERTIFIED, "study": study, "aggregator": b"b" * 32},
        {**CERTIFIED, "study": study, "fingerprints": (b"x" * 32, *FINGERPRINTS[1:])},
        *({**CERTIFIED, "study": msgspec.structs.replace(study, **{name: "another"})} for name in WORDS),
        *({**CERTIFIED, "study": msgspec.structs.replace(study, row_caps={name: 5})} for name in ("north", "south")),
        *({"options": {"epsilon": epsilon}} for epsilon in (1.0, 2.0)),
        {"plan": encoded(msgspec.structs.replace(plan, workload=msgspec.structs.replace(plan.workload, parties=4)))},
    ]
    digests = {manifest.digest, *(msgspec.structs.replace(manifest, **change).digest for change in changes)}
    assert len(digests) == len(changes) + 1


class SmallPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a manifest looks at in a plan."""

    kind: ClassVar[str] = "small"
    keys: str = "sealed"
    thresholds: int = 16
    parties: int = 3


def with_plan(plan: EncodedPlan | None, **changes: Any) -> Manifest:
    values = {"protocol": "small", "session": bytes(16), "parties": ("north", "south", "east"), "plan": plan}
    values |= {"grid": np.linspace(0, 1, 16).tobytes(), "min_parties": 2, "keys": "sealed", "context": bytes(32)}
    return Manifest(**{**values, **changes})


def small(**changes: Any) -> EncodedPlan:
    return EncodedPlan("small", encode(SmallPlan(**changes)))


TWO_HELPERS = {"keys": "helper", "context": bytes(64), "aggregator": bytes(32)}
NO_KEYS = {"keys": "none", "context": b""}
WRONG_PLANS = {
    "plan is for helper keys, the session's are sealed": (small(keys="helper"),),
    "plan is for another number of thresholds": (small(thresholds=15),),
    "plan is for fewer parties": (small(parties=2),),
    "for a computation of kind 'blinded AUC'": (EncodedPlan("blinded AUC", small().content),),
    "has no valid plan": (
        EncodedPlan("small", b""),
        EncodedPlan("small", encode({"keys": 1})),
        EncodedPlan("small", encode({"keys": "sealed", "sums": 2})),
    ),
}


def test_a_plan_that_fits_comes_out_as_it_went_in_and_no_other() -> None:
    for parties in (3, 4):
        manifest = Manifest.from_bytes(with_plan(small(parties=parties)).to_bytes())
        assert manifest.decoded_plan(SmallPlan) == SmallPlan(parties=parties)
    for problem, plans in WRONG_PLANS.items():
        for plan in plans:
            with pytest.raises(InputError, match=problem):
                with_plan(plan).decoded_plan(SmallPlan)
    with pytest.raises(InputError, match="has no plan for an encrypted computation"):
        with_plan(None, **NO_KEYS).decoded_plan(SmallPlan)


@pytest.mark.parametrize(
    ("plan", "changes", "problem"),
    [
        (None, {}, "a plan if, and only if, it has keys"),
        (small(), NO_KEYS, "a plan if, and only if, it has keys"),
        (small(), {"context": b""}, "with sealed keys, what names them has 32 bytes, got 0"),
        (small(keys="helper"), {"keys": "helper"}, "with helper keys, what names them has 0 bytes, got 32"),
        (small(keys="helper"), TWO_HELPERS, "with helper keys, what names them has 32 bytes, got 64"),
        *(
            (None, {**NO_KEYS, "parties": ("east", *pair)}, f"^parties {pair[0]!r} and {pair[1]!r} would be two, bu")
            for pair in (("North", "north"), ("STRASSE", "straße"), ("\uff21", "a"))
        ),
    ],
)
def test_keys_names_and_plan_go_together_and_no_two_names_are_alike(
    plan: EncodedPlan | None, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        with_plan(plan, **changes)


# --- Messages ---------------------------------------------------------------------------------------------------------


LIMIT = 10_000
GOOD = Message("semi-honest", b"s" * 16, 1, "north", b"m" * 32, b"payload", (), 0, b"")

TEXT, BYTES = st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.binary(max_size=2000)
NUMBER = st.integers(-(2**63), 2**63 - 1)
LISTED = st.tuples(st.tuples(TEXT, BYTES))
messages = st.builds(Message, TEXT, BYTES, NUMBER, TEXT, BYTES, BYTES, LISTED, NUMBER, st.binary(max_size=64))


def framed(body: bytes, magic: bytes = b"fheamsg", version: int = FORMAT_VERSION) -> bytes:
    """What a sender who knows the format makes of `body`, without a signature."""
    return magic + bytes([version]) + hashlib.sha256(body).digest() + b"\0" + body


FIELDS = ["semi-honest", b"s" * 16, 1, "north", b"m" * 32, b"payload", [], 0]


def refused(data: Any, limit: int = LIMIT) -> MessageError:
    with pytest.raises(MessageError) as caught:
        Message.from_bytes(data, limit=limit)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, DeserialisationError)
    return caught.value


def test_what_is_too_long_no_message_at_all_or_of_another_version_is_refused_before_it_is_parsed() -> None:
    error = refused(b"\0" * (LIMIT + 1))
    assert (error.field, str(error)) == ("length", "message of 10,001 bytes, at most 10,000 expected")
    data = GOOD.to_bytes()
    assert Message.from_bytes(data, limit=len(data)) == GOOD
    assert refused(data, len(data) - 1).field == "length"
    others = b"", b"f", b"fheams", b"fherlwe" + GOOD.to_bytes()[7:], b"\x80\x04pickle", b"{}"
    for data in (*others, None, 5, "text", bytearray(b"fheamsg"), []):
        error = refused(data)
        assert (error.field, str(error)) == ("format", "not a fhe-auc message")
    for version in (0, 1, FORMAT_VERSION + 1, 255):
        error = refused(framed(msgspec.msgpack.encode(FIELDS), version=version))
        assert error.field == "version"
        age = "an older" if version < FORMAT_VERSION else "a newer"
        assert f"version {version}, from {age} fhe-auc than this, which reads {FORMAT_VERSION} alone" in str(error)


def test_every_truncation_and_flipped_bit_is_refused_but_of_the_signature_which_is_checked_later() -> None:
    signed = msgspec.structs.replace(GOOD, signature=b"s" * 64)
    data = signed.to_bytes()
    assert (len(data), signed.digest) == (len(GOOD.to_bytes()) + 64, GOOD.digest)
    for position in range(len(data)):
        assert refused(data[:position]).field == ("format" if position < 7 else "checksum")
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            if 41 <= position < 105:
                found = Message.from_bytes(bytes(damaged), limit=LIMIT)
                assert found == msgspec.structs.replace(GOOD, signature=bytes(damaged[41:105]))
            else:
                expected = "format" if position < 7 else "version" if position == 7 else "checksum"
                assert refused(bytes(damaged)).field == expected


def test_the_digest_is_of_the_bytes_that_came_and_of_no_others() -> None:
    """Another encoding of the same fields is another message, and an altered one has not the digest of the first."""
    assert Message.from_bytes(GOOD.to_bytes(), limit=LIMIT).digest == GOOD.digest == GOOD.to_bytes()[8:40]
    body = GOOD.to_bytes()[41:]
    longer = b"\xdc\x00\x08" + body[1:]  # an array of eight, with a length of two bytes
    found = Message.from_bytes(framed(longer), limit=LIMIT)
    assert (found, found.digest) == (GOOD, hashlib.sha256(longer).digest())
    assert found.to_bytes() == framed(longer)
    assert found.digest != GOOD.digest
    for field, value in (("payload", b"other"), ("round", 2), ("submissions", (("north", b""),))):
        assert msgspec.structs.replace(found, **{field: value}).digest not in (found.digest, GOOD.digest)


def test_fields_of_the_wrong_type_too_few_too_many_or_with_names_are_refused() -> None:
    for index, right in enumerate(FIELDS):
        for value in (None, True, 1.5, [], {}, [b""], -(2**63), 2**64 - 1, "text", b"bytes"):
            if not isinstance(value, type(right)) or isinstance(value, bool):
                fields = [*FIELDS[:index], value, *FIELDS[index + 1 :]]
                assert refused(framed(msgspec.msgpack.encode(fields))).field == "body"
    named = dict(zip(Message.__struct_fields__[:-1], FIELDS, strict=True))
    for value in (FIELDS[:-1], [*FIELDS, b"extra"], [], named, {**named, "admin": True}, 5, None, "message"):
        assert refused(framed(msgspec.msgpack.encode(value))).field == "body"


@given(st.binary(max_size=300))
def test_any_body_at_all_parses_or_is_refused(body: bytes) -> None:
    try:
        Message.from_bytes(framed(body), limit=LIMIT)
    except MessageError as error:
        assert error.field == "body"  # noqa: PT017


def test_the_text_of_a_message_shows_no_payload_and_odd_text_is_quoted() -> None:
    hostile = msgspec.structs.replace(GOOD, sender="\x1b[31m\n" * 1000)
    with pytest.raises(MessageError) as caught:
        hostile.require(sender="north")
    assert len(str(caught.value)) < 200
    assert str(caught.value).isprintable()
    for change, shown in (({"round": 2}, "round 1, expected 2"), ({"session": "s" * 16}, "session ")):  # types, too
        with pytest.raises(MessageError, match=f"^message with {shown}"):
            GOOD.require(**change)
    shown = "<Message semi-honest round 1 from 'north', 7 bytes>"
    assert (repr(GOOD), str(GOOD), f"{GOOD}", repr([GOOD])) == (shown, shown, shown, f"[{shown}]")
    with pytest.raises(AttributeError):
        GOOD.sender = "south"  # type: ignore[misc]


@given(messages, messages)
def test_messages_come_back_as_they_were_and_different_ones_have_different_bytes(one: Message, two: Message) -> None:
    data = one.to_bytes()
    assert Message.from_bytes(data, limit=LIMIT) == one
    assert Message.from_bytes(data, limit=LIMIT).to_bytes() == data
    assert (one == two) == (data == two.to_bytes())

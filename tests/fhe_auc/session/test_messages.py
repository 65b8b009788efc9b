"""The message envelope: every way in which it can be wrong is refused, and the error says which."""

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.base.errors import DeserialisationError, MessageError
from fhe_auc.base.serialise import FORMAT_VERSION
from fhe_auc.session.messages import Message

LIMIT = 10_000
GOOD = Message("semi-honest", b"s" * 16, 1, "north", b"m" * 32, b"payload", (), 0, b"")

messages = st.builds(
    Message,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.binary(max_size=32),
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.binary(max_size=64),
    st.binary(max_size=2000),
    st.tuples(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), st.binary(max_size=32))),
    st.binary(max_size=64),
)


def framed(body: bytes, magic: bytes = b"fheamsg", version: int = FORMAT_VERSION) -> bytes:
    """What a sender who knows the format makes of `body`, without a signature."""
    return magic + bytes([version]) + hashlib.sha256(body).digest() + b"\0" + body


FIELDS = ["semi-honest", b"s" * 16, 1, "north", b"m" * 32, b"payload", []]


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


def test_every_truncation_and_every_flipped_bit_is_refused() -> None:
    data = GOOD.to_bytes()
    for position in range(len(data)):
        error = refused(data[:position])
        assert error.field == ("format" if position < 7 else "checksum")
        assert position < 7 or "truncated or damaged" in str(error)
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            expected = "format" if position < 7 else "version" if position == 7 else "checksum"
            assert refused(bytes(damaged)).field == expected


def test_of_a_signed_message_only_the_signature_can_be_damaged_unnoticed_until_it_is_checked() -> None:
    signed = msgspec.structs.replace(GOOD, signature=b"s" * 64)
    data = signed.to_bytes()
    assert (len(data), signed.digest) == (len(GOOD.to_bytes()) + 64, GOOD.digest)
    for position in range(7, len(data)):
        assert refused(data[:position]).field == "checksum"
        damaged = bytearray(data)
        damaged[position] ^= 1
        if 41 <= position < 105:
            found = Message.from_bytes(bytes(damaged), limit=LIMIT)
            assert found == msgspec.structs.replace(GOOD, signature=bytes(damaged[41:105]))
        else:
            assert refused(bytes(damaged)).field == ("version" if position == 7 else "checksum")


def test_the_digest_is_of_the_bytes_that_came_and_of_no_others() -> None:
    """Another encoding of the same fields is another message, and an altered one has not the digest of the first."""
    assert Message.from_bytes(GOOD.to_bytes(), limit=LIMIT).digest == GOOD.digest == GOOD.to_bytes()[8:40]
    body = GOOD.to_bytes()[41:]
    longer = b"\xdc\x00\x07" + body[1:]  # an array of seven, with a length of two bytes
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
    field = "body"
    try:
        assert isinstance(Message.from_bytes(framed(body), limit=LIMIT), Message)
    except MessageError as error:
        field = error.field
    assert field == "body"


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("protocol", "malicious", "protocol 'semi-honest', expected 'malicious'"),
        ("session", b"t" * 16, f"session {b's'.hex() * 8}, expected {b't'.hex() * 8}"),
        ("round", 2, "round 1, expected 2"),
        ("sender", "south", "sender 'north', expected 'south'"),
        ("manifest", b"n" * 32, f"manifest {b'm'.hex() * 8}, expected {b'n'.hex() * 8}"),
    ],
)
def test_a_field_that_differs_is_named(field: str, value: object, shown: str) -> None:
    with pytest.raises(MessageError) as caught:
        GOOD.require(**{field: value})
    assert caught.value.field == field
    assert str(caught.value) == f"message with {shown}"


def test_the_text_of_a_message_shows_no_payload_and_odd_text_is_quoted() -> None:
    hostile = msgspec.structs.replace(GOOD, sender="\x1b[31m\n" * 1000)
    with pytest.raises(MessageError) as caught:
        hostile.require(sender="north")
    assert len(str(caught.value)) < 200
    assert str(caught.value).isprintable()
    with pytest.raises(MessageError):  # types are compared as well
        GOOD.require(session="s" * 16)
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

"""Messages and framed things as somebody alters them who can put checksums right."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.session.messages import Message
from fhe_auc_keys.roles.helped import Told

LIMIT = 2**25
HEAD = 40
"""Bytes of a frame before its body: magic, version, checksum."""

KEPT = frozenset((b"fhepoli", b"fheledg", b"fhestor", b"fhetrus", b"fheauth", b"fhecred", b"fhebind", b"fheiden"))
"""What a `KeptFormat` frames: the checksum covers the version, too."""

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda payload: b"",
    "truncated": lambda payload: payload[:-1],
    "half": lambda payload: payload[: len(payload) // 2],
    "longer": lambda payload: payload + b"\0",
    "coefficient above its modulus": lambda payload: b"\xff" * 7 + payload[7:],
}
"""What may happen to packed coefficients of up to 56 bits."""


def changed(message: bytes, **fields: Any) -> bytes:
    """The same message with other field values."""
    return msgspec.structs.replace(Message.from_bytes(message, limit=LIMIT), **fields).to_bytes()


def with_fields(message: bytes, shape: Any, **fields: Any) -> bytes:
    """The same message with other field values in its payload."""
    found = decode(payload_of(message), shape, "payload")
    return changed(message, payload=encode(msgspec.structs.replace(found, **fields)))


def told(message: bytes, shape: Any) -> Any:
    """What the last message tells parties: with a helper beside its word."""
    try:
        return decode(decode(payload_of(message), Told, "payload").content, shape, "content")
    except DeserialisationError:
        return decode(payload_of(message), shape, "payload")


def with_told(message: bytes, shape: Any, **fields: Any) -> bytes:
    """The same message with other field values in what it tells."""
    content = encode(msgspec.structs.replace(told(message, shape), **fields))
    try:
        return with_fields(message, Told, content=content)
    except DeserialisationError:
        return changed(message, payload=content)


def payload_of(message: bytes) -> bytes:
    return bytes(Message.from_bytes(message, limit=LIMIT).payload)


def flipped(data: bytes, position: int) -> bytes:
    """The same bytes but for one bit of the byte at `position`."""
    bad = bytearray(data)
    bad[position] ^= 1 << position % 8
    return bytes(bad)


def reframed(data: bytes, body: bytes) -> bytes:
    """The frame of `data` around another body, with a checksum that fits; a message keeps its signature."""
    covered = data[7:8] + body if data[:7] in KEPT else body
    return data[:8] + hashlib.sha256(covered).digest() + _signature(data) + body


def mended(data: bytes) -> bytes:
    """Altered bytes with the frame's checksum put right."""
    return reframed(data, data[HEAD + len(_signature(data)) :])


def _signature(data: bytes) -> bytes:
    """Of a message: its signature, and the byte before, its length."""
    return data[HEAD : HEAD + 1 + data[HEAD]] if data.startswith(b"fheamsg") else b""

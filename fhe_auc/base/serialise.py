"""Values to bytes and back: msgpack, strictly typed, in a frame that shows damage.

    7 bytes magic | 1 byte format version | 32 bytes SHA-256 of the rest | msgpack

The digest finds damage, not forgery: who sent the bytes is settled by signatures (`keys`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from fhe_auc.base.errors import DeserialisationError

FORMAT_VERSION = 2
_MAGIC_BYTES = 7
_HEAD = _MAGIC_BYTES + 1
_DIGEST = 32
T = TypeVar("T")


def json_text(value: Any, indent: int | None = None) -> str:
    """Return plain types as JSON for readers outside, null for what is not finite: JSON has no NaN."""
    return json.dumps(_finite(value), allow_nan=False, indent=indent)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def encode(value: object) -> bytes:
    """Return `value` as msgpack; equal values give equal bytes."""
    return msgspec.msgpack.encode(value, order="deterministic")


def decode(data: bytes | memoryview, shape: type[T], what: str) -> T:
    """Return msgpack `data` as a `shape`; raise `DeserialisationError` naming `what` where it does not fit."""
    try:
        return msgspec.msgpack.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DeserialisationError(f"malformed {what}: {error}", field="body") from None


def frame(magic: bytes, value: object) -> bytes:
    """Return `value` encoded and framed; `magic` (7 bytes) says what kind of thing it is."""
    body = encode(value)
    return magic + bytes([FORMAT_VERSION]) + hashlib.sha256(body).digest() + body


def unframe(magic: bytes, data: bytes, shape: type[T], what: str) -> T:
    """Return the value in a frame.

    Raises `DeserialisationError` for another kind of thing or format version, and for what is truncated, damaged or
    malformed.
    """
    if not isinstance(data, bytes) or data[:_MAGIC_BYTES] != magic:  # type: ignore[redundant-expr] # from a transport
        raise DeserialisationError(f"not a {what}", field="format")
    if data[_MAGIC_BYTES:_HEAD] not in (b"", bytes([FORMAT_VERSION])):
        raise DeserialisationError(
            f"{what} of format version {data[_MAGIC_BYTES]}, but this is {FORMAT_VERSION}: "
            "install the same version of fhe-auc everywhere",
            field="version",
        )
    digest, body = data[_HEAD : _HEAD + _DIGEST], memoryview(data)[_HEAD + _DIGEST :]
    if hashlib.sha256(body).digest() != digest:
        raise DeserialisationError(f"{what} truncated or damaged (checksum mismatch)", field="checksum")
    return decode(body, shape, what)

"""Values to bytes and back: msgpack, strictly typed, in a frame that shows damage.

    7 bytes magic | 1 byte format version | 32 bytes SHA-256 of the rest | msgpack

What is kept beyond a session has the version in its digest, too (`KeptFormat`). The digest finds damage, not forgery:
who sent the bytes is settled by signatures (`keys`).
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import msgspec

from fhe_auc.base.errors import DeserialisationError

FORMAT_VERSION = 4
"""Of messages, and of all else that a session needs and that ends with it: not read by other versions."""

FIRST_KEPT_VERSION = 3
"""Of each `KeptFormat`."""

_MAGIC_BYTES = 7
_HEAD = _MAGIC_BYTES + 1
DIGEST = 32
FRAME_BYTES = _HEAD + DIGEST
"""By so much `frame` makes a value longer."""

_DECODING = threading.RLock()  # two threads that decode a type for the first time end the process (msgspec 0.22)
T = TypeVar("T")


class SecretStruct(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A struct that holds secrets: never printed. On the wire it is as its fields are in any other struct."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


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
        with _DECODING:
            return msgspec.msgpack.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DeserialisationError(f"malformed {what}: {error}", field="body") from None


def marked(magic: bytes, *parts: bytes | memoryview) -> bytes:
    """Return `parts` behind a magic (7 bytes), which says what kind of thing they are, and the format version."""
    return b"".join((magic, bytes([FORMAT_VERSION]), *parts))


def unmarked(magic: bytes, data: bytes | memoryview, what: str) -> memoryview:
    """Return what `marked` has marked; raise `DeserialisationError` for another kind or format version."""
    version, rest = _parts(magic, data, what)
    if version not in (b"", bytes([FORMAT_VERSION])):
        age, advice = "a newer", "upgrade fhe-auc on this machine, and close the sessions from before"
        if version[0] < FORMAT_VERSION:
            age = "an older"
            advice = "whoever made it upgrades, and a session from before the upgrade is made again by its key holder"
        raise DeserialisationError(
            f"{what} of format version {version[0]}, from {age} fhe-auc than this, which reads {FORMAT_VERSION} alone: "
            f"{advice}",
            field="version",
        )
    return rest


def frame(magic: bytes, value: object) -> bytes:
    """Return `value` encoded and framed."""
    body = encode(value)
    return marked(magic, hashlib.sha256(body).digest(), body)


def unframe(magic: bytes, data: bytes, shape: type[T], what: str) -> T:
    """Return the value in a frame; raise `DeserialisationError` for another kind or format version, or damage."""
    rest = unmarked(magic, data, what)
    body = rest[DIGEST:]
    if hashlib.sha256(body).digest() != rest[:DIGEST]:
        raise damaged(what)
    return decode(body, shape, what)


@dataclass(frozen=True)
class KeptFormat(Generic[T]):
    """A format that outlives the version of fhe-auc that wrote it, with a format version of its own.

    The digest covers the version too, so that another version tells from damage; later versions keep this frame.
    """

    magic: bytes  # as of `frame`
    shape: type[T]  # of the value in this version
    what: str  # in words, for errors
    version: int = FIRST_KEPT_VERSION  # of what is written

    older: Mapping[int, tuple[type[Any], Callable[[Any], Any]]] = field(default_factory=dict)
    """By version: the shape of its values, and a function that makes the next version's value of one."""

    def frame(self, value: T) -> bytes:
        """Return the value encoded and framed, in this version."""
        version, body = bytes([self.version]), encode(value)
        return self.magic + version + hashlib.sha256(version + body).digest() + body

    def unframe(self, data: bytes) -> T:
        """Return the value, migrated from an older version; errors as of `unframe`, with field "version" for others."""
        version, rest = _parts(self.magic, data, self.what)
        digest, body = rest[:DIGEST], rest[DIGEST:]
        if hashlib.sha256(version + bytes(body)).digest() != digest:
            raise damaged(self.what)
        found = version[0]
        if found < self.version and found not in self.older:
            raise DeserialisationError(f"{self.what} of format version {found}, which nothing reads", field="version")
        if found > self.version:
            raise DeserialisationError(
                f"{self.what} of format version {found}, from a newer fhe-auc than this, which reads up to "
                f"{self.version}: install the newer one here",
                field="version",
            )
        value = decode(body, self.shape if found == self.version else self.older[found][0], self.what)
        for each in range(found, self.version):
            value = self.older[each][1](value)
        return cast("T", value)


def damaged(what: str) -> DeserialisationError:
    """Return the error of something whose checksum does not fit."""
    return DeserialisationError(f"{what} truncated or damaged (checksum mismatch)", field="checksum")


def _parts(magic: bytes, data: bytes | memoryview, what: str) -> tuple[bytes, memoryview]:
    """Return the version, which is empty where it is cut off, and what follows."""
    if not isinstance(data, (bytes, memoryview)) or data[:_MAGIC_BYTES] != magic:  # type: ignore[redundant-expr] # from a transport
        raise DeserialisationError(f"not a {what}", field="format")
    return bytes(data[_MAGIC_BYTES:_HEAD]), memoryview(data)[_HEAD:]

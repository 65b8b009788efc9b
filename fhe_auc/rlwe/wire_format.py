"""The container that a serialised context or ciphertext travels in: what it is, and which context it belongs to.

It has no checksum: ciphertexts travel in messages, keys in what is signed or sealed, and each of these has one.
"""

from __future__ import annotations

import msgspec

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import decode, encode, marked, unmarked
from fhe_auc.rlwe.parameters import FINGERPRINT_BYTES

MAGIC = b"fherlwe"


class _Container(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    kind: str
    fingerprint: bytes
    payload: bytes


def seal(kind: str, fingerprint: bytes, payload: bytes) -> bytes:
    """Wrap `payload`, marked with what it is and the fingerprint of the context it belongs to."""
    return marked(MAGIC, encode(_Container(kind, fingerprint, payload)))


def kind_of(data: bytes) -> str:
    """Return the kind of a container; errors as `open_any`."""
    return _opened(data, "container").kind


def open_any(kind: str, data: bytes) -> tuple[bytes, bytes]:
    """Return (fingerprint, payload) of a container of `kind`.

    Raises `DeserialisationError` for what is none, of another format version or kind, truncated or malformed.
    """
    container = _opened(data, kind)
    if len(container.fingerprint) != FINGERPRINT_BYTES:
        raise DeserialisationError(f"malformed {kind}: fingerprint of another length", field="fingerprint")
    if container.kind != kind:
        raise DeserialisationError(f"expected a {kind}, got a {container.kind[:40]!r}", field="kind")
    return container.fingerprint, container.payload


def open_for(kind: str, fingerprint: bytes, data: bytes) -> bytes:
    """Return the payload of a container of `kind` made for the context `fingerprint`; errors as `open_any`."""
    found, payload = open_any(kind, data)
    if found != fingerprint:
        raise DeserialisationError(f"the {kind} was made under another key (fingerprint mismatch)", field="fingerprint")
    return payload


def _opened(data: bytes, what: str) -> _Container:
    return decode(unmarked(MAGIC, data, what), _Container, what)

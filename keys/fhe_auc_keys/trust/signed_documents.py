"""Signed documents: the frame of everything that one party writes and others have to believe.

    signed document = signer's name | version of the members' file | body | signature over purpose and all of these

The signer is looked up first, then the signature is checked, and only then is the body parsed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import msgspec

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import FRAME_BYTES, decode, encode, frame, unframe
from fhe_auc.exchange.exchange import told
from fhe_auc_keys.errors import KeysError, TamperedError, VersionError
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Member, Members
from fhe_auc_keys.trust.signatures import has_signed

T = TypeVar("T")


@dataclass(frozen=True)
class Kind:
    """A kind of document; no two kinds share a magic or a purpose, so that none is taken for another."""

    magic: bytes  # 7 bytes, the first ones of the document
    name: str  # for messages: "bundle"

    @property
    def purpose(self) -> bytes:
        """What the signature is for."""
        return f"{self.name} 1".encode()


class _Signed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    signer: str
    version: int
    body: bytes
    signature: bytes

    @property
    def text(self) -> bytes:
        """What is signed."""
        return encode((self.signer, self.version, self.body))


def sign_document(kind: Kind, signer: Identity, body: msgspec.Struct) -> bytes:
    """Return a document, which names its signer."""
    unsigned = _Signed(signer.name, signer.version, encode(body), b"")
    return frame(kind.magic, msgspec.structs.replace(unsigned, signature=signer.sign(kind.purpose, unsigned.text)))


def claimed_signer(kind: Kind, data: bytes) -> str:
    """Return the signer's name in a document, unverified; errors as `claimed_body`."""
    return _unframed(kind, data).signer


def claimed_body(kind: Kind, data: bytes, shape: type[T]) -> T:
    """Return the body of a document, unverified; raise as `open_signed` where it cannot be read."""
    return parsed(_unframed(kind, data).body, shape, kind.name)


def open_signed(
    kind: Kind, data: bytes, shape: type[T], members: Members, *, signer: str, at: datetime
) -> tuple[Member, T]:
    """Return signer and body, a `shape`, of a document that the member `signer` must have signed at present, `at`.

    To be a member alone does not give the right to sign it. Raises `VersionError` where it is of another version of
    fhe-auc; `TamperedError` of another kind, damaged or forged; `KeysError` where it is signed by somebody else, or
    under a newer members' file than the one here; and as `Members.named`.
    """
    signed = _unframed(kind, data)
    found = members.named(signed.signer, at)
    if not has_signed(found.signing_key, kind.purpose, signed.text, signed.signature):
        newer = f", unless with keys of version {signed.version} of the members' file" * (
            signed.version > members.version
        )
        raise TamperedError(f"the {kind.name} bears no genuine signature of {found.name!r}{newer}")
    members.as_of(signed.version)  # who withholds the newest file must not hide that somebody was left out
    if found.name != signer:
        raise KeysError(f"the {kind.name} was signed by {found.name!r}, not by {signer!r}")
    return found, parsed(signed.body, shape, kind.name)


def _unframed(kind: Kind, data: bytes) -> _Signed:
    try:
        found = unframe(kind.magic, data, _Signed, kind.name)
    except DeserialisationError as error:
        raise (VersionError if error.field == "version" else TamperedError)(told(error)) from None
    if encode(found) != data[FRAME_BYTES:]:  # msgpack has several ways to write the same
        raise TamperedError(f"the {kind.name} has been written anew, by somebody else than its signer")
    return found


def parsed(data: bytes, shape: type[T], what: str) -> T:
    """Return a part of a document as a `shape`; raise `TamperedError` naming `what` where it does not fit."""
    try:
        return decode(data, shape, what)
    except DeserialisationError as error:
        raise TamperedError(str(error)) from None

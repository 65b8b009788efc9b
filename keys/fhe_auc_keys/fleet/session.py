"""A fleet's session as its roles have it, and what is sealed and signed in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import derived_key
from fhe_auc.base.serialise import decode, encode
from fhe_auc.input_proofs.sessions import NOT_PROVED
from fhe_auc.question.fleet import Fleet, Range
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.computation import PaddedComputation, PaddedTask
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.announcement import Announcement, open_announcement
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.roles.blobs import RESPONSE_KEY_BYTES, bytes_of, totals_of
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Member, Members
from fhe_auc_keys.trust.signatures import has_signed
from fhe_auc_keys.trust.signed_documents import Kind, open_signed

LIST, OPENING = Kind(b"fheflis", "list of blobs"), Kind(b"fhefope", "fleet's opening")
RESULT = Kind(b"fhefres", "fleet's result")
QUERY, PADS, SUMS = "query", "pad key", "ciphertext"  # what is sealed from role to role
UNOPENED = b"fleet's word that nothing was opened 1"
"""What the helper signs the manifest's digest for: its signature is the word."""

_ANSWERS, _RESPONSE, _SECRET = b"fleet's answers 1", b"fleet's response 1", b"fleet's secret 1"
_SKETCH, _SUMS = b"fleet's sketch 1", b"fleet's sums 1"
_NAMED = "the session names its parties, and is not a fleet's"
BLOB_BYTES = sealing.OVERHEAD + SEED_BYTES + RESPONSE_KEY_BYTES
COUNTS, UNSIGNED, UNOPENABLE, UNPROVED, AGAIN = range(5)
VERDICTS = (
    "counts",
    "its blob is not signed with the member's key",
    "its blob is not sealed to the helper for this session, sketch and member",
    NOT_PROVED,
    "the member counts already, by an earlier record",
)
"""What the helper makes of a blob, by its number."""


class TableFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A range's file of blobs, of so many rows; or one of answers, and how many of them count."""

    name: str
    rows: int
    digest: bytes  # `tables.Digest`


class Document(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What aggregator and helper hand each other, signed: the list of blobs, the opening, and the result."""

    session: bytes  # the manifest's digest
    about: bytes  # `known_by` of the one that it answers
    sealed: bytes  # to the other role: the query's key, the pad key, the ciphertext of the sums
    files: tuple[TableFile, ...] = ()  # of blobs, in the ranges' order; of answers, in the same
    numbers: tuple[int, ...] = ()  # how many blobs there are of each of `VERDICTS`
    context: bytes = b""  # public

    @property
    def known_by(self) -> bytes:
        """SHA-256 of all but what is sealed, which never is the same again."""
        return hashlib.sha256(encode(msgspec.structs.replace(self, sealed=b""))).digest()


class Loaded(NamedTuple):
    """What roles work with, made once for many tasks and devices."""

    manifest: Manifest
    digest: bytes  # the manifest's
    fleet: Fleet
    task: Callable[[Manifest, PartyData], PaddedTask[Any]]  # of a device, on its own rows
    computation: PaddedComputation[Any, Any]

    @property
    def inside(self) -> int:
        """Bytes in a sealed sketch: its parts, and its proof where the session has any."""
        proofs = self.computation.proofs
        return sum(self.computation.part_bytes) + (0 if proofs is None else proofs.proof_bytes)


@dataclass(frozen=True)
class FleetSession:
    """A fleet's session, as the role sees it that `identity` is of: the aggregator or the helper."""

    announced: Announcement
    loaded: Loaded = field(repr=False)
    helper: Member
    identity: Identity
    members: Members = field(repr=False)

    @classmethod
    def open(cls, data: bytes, identity: Identity, members: Members, *, holder: str, at: datetime) -> FleetSession:
        """Return an announced session; `InputError` where it is not a fleet's, otherwise as `open_announcement`."""
        announced = open_announcement(data, members, holder=holder, at=at)
        return cls(announced, loaded(announced.manifest.to_bytes()), helper_of(announced), identity, members)

    @property
    def manifest(self) -> Manifest:
        """Of the session."""
        return self.announced.manifest

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The fleet's, as the members' file has them."""
        listed = self.loaded.fleet.found_in(self.members.fleets)
        return () if listed is None else listed.ranges

    def require(self, role: Member, *, at: datetime) -> None:
        """Raise `KeysError` where this role is another's, or is for other keys."""
        if (me := self.identity.member(self.members, at=at)) != role:
            raise KeysError(f"{me.name!r} is not, with the keys that it has now, {role.name!r} of the session")

    def read(self, kind: Kind, data: bytes, signer: Member, *, at: datetime) -> Document:
        """Return what `signer` has signed for the session, with its keys of the session; errors as `open_signed`."""
        found, body = open_signed(kind, data, Document, self.members, signer=signer.name, at=at)
        if found != signer or body.session != self.loaded.digest:
            raise KeysError(f"the {kind.name} is of another session, or signed with other keys than the session's")
        return body


def helper_of(announced: Announcement) -> Member:
    """Return the helper; raise `InputError` where there is none."""
    if announced.helper is None:
        raise InputError(_NAMED)
    return announced.helper


@lru_cache(maxsize=2)
def loaded(data: bytes) -> Loaded:
    """Return what there is to a session, of the manifest's bytes; raise `InputError` where it is not a fleet's."""
    from fhe_auc_keys.roles.helped import HelperKeys  # of which a device needs the kind alone

    manifest = Manifest.from_bytes(data)
    if manifest.fleet is None:
        raise InputError(_NAMED)
    plugin = registry.load(manifest.protocol)
    plugin.plan_of(manifest)
    if (made := plugin.key_kinds().get(manifest.keys)) is not None and isinstance(kind := made(), HelperKeys):
        return Loaded(manifest, manifest.digest, manifest.fleet, kind.task, kind.computation(manifest))
    raise InputError(f"protocol {manifest.protocol!r} is not for fleets; give --protocol exact")


def told(numbers: Sequence[int]) -> dict[str, int]:
    """Return how many blobs there are of each of `VERDICTS`, but for none."""
    return {why: number for why, number in zip(VERDICTS, numbers, strict=False) if number}


def sketch_info(digest: bytes, member: int) -> bytes:
    """Return what a sketch is sealed for: the session, by its manifest's digest, and the member's index."""
    return encode((_SKETCH, digest, member))


def blob_about(digest: bytes, member: int, sketch: bytes) -> bytes:
    """Return what a member's blob is about; `sketch` is the SHA-256 of the sealed sketch."""
    return encode((digest, member, sketch))


def part_for(response_key: bytes, content_key: bytes, digest: bytes, member: int) -> bytes:
    """Return what a member that counts is given beforehand: it opens the sums, once there are any.

    A helper whose key store was put back makes another content key, under the same response keys. Who has both parts
    knows by what the keys differ, and can change a part. Still the sums are signed, and opened by members alone.
    """
    return sealing.wrapped(response_key, content_key, associated=encode((_RESPONSE, digest, member)))


def opened_part(response_key: bytes, part: bytes, digest: bytes, member: int) -> bytes:
    """Return the content key in a member's part; raise `TamperedError` where it is none for this member and session."""
    return sealing.unwrapped(response_key, part, associated=encode((_RESPONSE, digest, member)))


class _Sums(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    sealed: bytes
    signature: bytes  # the helper's: else each member that counts could make others


def sealed_sums(me: Identity, content_key: bytes, number: int, totals: Sequence[Residues], digest: bytes) -> bytes:
    """Return the sums over so many members, for each prime, which the helper signs; equal ones give equal bytes."""
    text, about = encode((number, bytes_of(totals))), encode((_RESPONSE, digest))
    sealed = sealing.sealed_once(content_key, text, associated=about)
    return encode(_Sums(sealed, me.sign(_SUMS, digest + hashlib.sha256(sealed).digest())))


def opened_sums(document: bytes, helper: bytes, content_key: bytes, digest: bytes) -> tuple[int, list[Residues]]:
    """Return over how many members the sums are, and for each prime the sums; `helper` is its signing key.

    Raises `TamperedError` where the helper has not signed them for this session, or they are under another key;
    `DeserialisationError` where they are none.
    """
    sums = decode(document, _Sums, "sums")
    if not has_signed(helper, _SUMS, digest + hashlib.sha256(sums.sealed).digest(), sums.signature):
        raise TamperedError("the sums are not signed by the session's helper")
    text = sealing.unsealed_once(content_key, sums.sealed, associated=encode((_RESPONSE, digest)))
    number, totals = decode(text, tuple[int, tuple[bytes, ...]], "sums")
    return number, totals_of(totals)


def sealed(key: bytes, secret: bytes, digest: bytes, what: str) -> bytes:
    """Return a secret for one role of a session, by its encryption key: for its tasks, too, which engines log."""
    return sealing.seal(key, secret, info=encode((_SECRET, digest, what)))


def unsealed(me: Identity, secret: bytes, digest: bytes, what: str) -> bytes:
    """Return what `sealed` was given; raise `TamperedError` for anything else."""
    return me.unseal(secret, info=encode((_SECRET, digest, what)))


def answers_cipher(query: bytes, session: bytes, file: str) -> CipherContext:
    """Return what hides, row after row, the aggregator's answers about proofs in one file, and shows them again.

    So who sees the folder of blobs reads no query's point. `query` is its key, 32 bytes, which hangs on all records, so
    that also after a crash each place in a file has one plaintext. That none was changed the file's digest shows.
    """
    key = derived_key(query, session, _ANSWERS, file)
    return Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()


def next_answers(cipher: CipherContext, rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the next rows of a file's answers hidden, or shown."""
    return np.frombuffer(cipher.update(rows.tobytes()), np.uint8).reshape(rows.shape)

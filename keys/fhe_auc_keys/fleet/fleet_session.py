"""A fleet's session as its roles have it: announced, verified, and computed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.keystream import derived_key
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.sessions import NOT_PROVED
from fhe_auc.question.fleet import Fleet
from fhe_auc.rlwe.ring_parameters import RingParameters
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.computation import PaddedComputation, PaddedTask, Submission
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.announcement import Announcement, open_announcement
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.roles.helped import HelperKeys
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Member, Members
from fhe_auc_keys.trust.signed_documents import Kind, open_signed, sign_document

LIST = Kind(b"fheflis", "list of blobs")
OPENING = Kind(b"fhefope", "fleet's opening")
RESULT = Kind(b"fhefres", "fleet's result")

_ANSWERS, _NONCE_BYTES = b"fleet's answers 1", 12
BLOB, RESPONSE, SKETCH = b"fleet's blob 1", b"fleet's response 1", b"fleet's sketch 1"
UNOPENED = b"fleet's word that nothing was opened 1"
"""What the helper signs the manifest's digest for: its signature is the word."""
KEY_BYTES, DIGEST_BYTES = 32, 32
SIGNATURE_BYTES = 64
BLOB_BYTES = sealing.OVERHEAD + SEED_BYTES + KEY_BYTES  # seed, and response key

T = TypeVar("T", bound=msgspec.Struct)


class Verdict(IntEnum):
    """What the helper makes of a blob, and the `sentence` that says so."""

    sentence: str

    def __new__(cls, number: int, sentence: str) -> Verdict:
        """Return a number with its sentence."""
        made = int.__new__(cls, number)
        made._value_, made.sentence = number, sentence
        return made

    COUNTS = 0, "counts"
    UNSIGNED = 1, "its blob is not signed with the member's key"
    UNOPENED = 2, "its blob is not sealed to the helper for this session, sketch and member"
    AGAIN = 3, "the member counts already, by an earlier record"
    UNPROVED = 4, NOT_PROVED


class Loaded(NamedTuple):
    """What roles work with, made once for many tasks and devices."""

    manifest: Manifest
    digest: bytes  # the manifest's
    fleet: Fleet
    task: Callable[[Manifest, PartyData], PaddedTask[Any]]  # of a device, on its own rows
    computation: PaddedComputation[Any, Any]
    parameters: RingParameters


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

    def require(self, role: Member, *, at: datetime) -> None:
        """Raise `KeysError` where this role is another's, or is for other keys."""
        me = self.identity.member(self.members, at=at)
        if me != role:
            raise KeysError(f"{me.name!r} is not, with the keys that it has now, {role.name!r} of the session")

    def sign(self, kind: Kind, body: msgspec.Struct) -> bytes:
        """Return a document of this role's."""
        return sign_document(kind, self.identity, body)

    def seal(self, kind: Kind, recipient: Member, plaintext: bytes) -> bytes:
        """Return what goes into a document of this role's for `recipient` alone."""
        key, info = recipient.encryption_key, encode((kind.purpose, self.manifest.digest))
        return sealing.seal(key, plaintext, info=info)

    def unseal(self, kind: Kind, sealed: bytes) -> bytes:
        """Return what `seal` sealed to this role; raise `TamperedError` for anything else."""
        return self.identity.unseal(sealed, info=encode((kind.purpose, self.manifest.digest)))

    def read(self, kind: Kind, data: bytes, shape: type[T], signer: Member, *, at: datetime) -> T:
        """Return what `signer` has signed, with the keys of the session; errors as `open_signed`."""
        found, body = open_signed(kind, data, shape, self.members, signer=signer.name, at=at)
        if found != signer:
            raise KeysError(f"the {kind.name} was signed with other keys than the session's")
        return body


def helper_of(announced: Announcement) -> Member:
    """Return the helper; raise `InputError` where there is none."""
    if announced.helper is None:
        raise InputError("a fleet's session has one helper")
    return announced.helper


@lru_cache(maxsize=2)
def loaded(data: bytes) -> Loaded:
    """Return what there is to a session, of the manifest's bytes; raise `InputError` where it is not a fleet's."""
    manifest = Manifest.from_bytes(data)
    if manifest.fleet is None:
        raise InputError("the session names its parties, and is not a fleet's")
    plugin = registry.load(manifest.protocol)
    plugin.plan_of(manifest)
    if (made := plugin.key_kinds().get(manifest.keys)) is not None and isinstance(kind := made(), HelperKeys):
        computation = kind.computation(manifest)
        if computation.parameters is not None:
            made_once = kind.task, computation, computation.parameters
            return Loaded(manifest, manifest.digest, manifest.fleet, *made_once)
    raise InputError(f"protocol {manifest.protocol!r} is not for fleets; give --protocol exact")


def sketch_info(digest: bytes, member: int) -> bytes:
    """Return what a sketch is sealed for: the session, by its manifest's digest, and the member's index."""
    return encode((SKETCH, digest, member))


def sealed_in(padded: Submission) -> bytes:
    """Return what a device seals to the aggregator: its padded sketch, and behind it the proof where it has one."""
    return b"".join(padded.parts) + padded.proof


def blob_info(digest: bytes, member: int, sketch: bytes) -> bytes:
    """Return what a blob is sealed for, and signed with: session, member, and the SHA-256 of the sealed sketch."""
    return encode((BLOB, digest, member, sketch))


def signed_of(blob: bytes, info: bytes, randomness: bytes) -> bytes:
    """Return what a member signs under the purpose `BLOB`; `info` is from `blob_info`.

    `randomness` are both parts of the proof's joint randomness, which the helper is given; empty without a proof.
    """
    return info + hashlib.sha256(blob).digest() + randomness


class AnswersSeal:
    """Seals the aggregator's answers about proofs in one file of a session, by the manifest's digest.

    Who sees them in the folder of blobs reads no query's point. `query` is the query's key, 32 bytes (else
    `InputError`), and hangs on all submissions; each file has a key of its own drawn from it, and each row its place as
    nonce: a place has one plaintext, also where a list is gone on with after a crash.
    """

    def __init__(self, query: bytes, session: bytes, file: str) -> None:
        self._session, self._file = session, file
        self._cipher = ChaCha20Poly1305(derived_key(query, session, _ANSWERS, file))

    def seal(self, row: int, member: int, answers: bytes) -> bytes:
        """Return the answers about a member, in this row of the file."""
        return self._cipher.encrypt(row.to_bytes(_NONCE_BYTES, "big"), answers, encode((self._session, member)))

    def unseal(self, row: int, member: int, sealed: bytes) -> bytes:
        """Return what `seal` was given; raise `DeserialisationError` for anything else."""
        try:
            return self._cipher.decrypt(row.to_bytes(_NONCE_BYTES, "big"), sealed, encode((self._session, member)))
        except InvalidTag:
            raise DeserialisationError(
                f"{self._file!r}, row {row}: the answers about member {member} are not sealed under the list's key"
            ) from None

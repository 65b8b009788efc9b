"""A fleet's session as its roles have it: announced, verified, and computed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import derived_key
from fhe_auc.base.serialise import decode, encode
from fhe_auc.input_proofs.sessions import NOT_PROVED
from fhe_auc.question.fleet import Fleet, Range
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.ring_parameters import RingParameters
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
from fhe_auc_keys.trust.signed_documents import Kind, open_signed, sign_document

LIST = Kind(b"fheflis", "list of blobs")
OPENING = Kind(b"fhefope", "fleet's opening")
RESULT = Kind(b"fhefres", "fleet's result")

_ANSWERS, _OWN, _RESPONSE = b"fleet's answers 1", b"fleet's role's own 1", b"fleet's response 1"
_SKETCH, _SUMS = b"fleet's sketch 1", b"fleet's sums 1"
UNOPENED = b"fleet's word that nothing was opened 1"
"""What the helper signs the manifest's digest for: its signature is the word."""
BLOB_BYTES = sealing.OVERHEAD + SEED_BYTES + RESPONSE_KEY_BYTES

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

    @property
    def sketch_bytes(self) -> int:
        """Bytes of a sealed sketch, with its proof where the session has any."""
        proofs = self.computation.proofs
        return sealing.OVERHEAD + sum(self.computation.part_bytes) + (0 if proofs is None else proofs.proof_bytes)

    def info_of(self, kind: Kind) -> bytes:
        """Return what a part of a document is sealed for."""
        return encode((kind.purpose, self.digest))


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
        """The fleet's, as the members' file has them; raise `KeysError` where it does not."""
        if (listed := self.loaded.fleet.found_in(self.members.fleets)) is None:
            raise KeysError("the members' file does not name the fleet's files of keys")
        return listed.ranges

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
        return sealing.seal(recipient.encryption_key, plaintext, info=self.loaded.info_of(kind))

    def unseal(self, kind: Kind, sealed: bytes) -> bytes:
        """Return what `seal` sealed to this role; raise `TamperedError` for anything else."""
        return self.identity.unseal(sealed, info=self.loaded.info_of(kind))

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
    from fhe_auc_keys.roles.helped import HelperKeys  # of which a device needs the kind alone

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
    return encode((_SKETCH, digest, member))


def blob_about(digest: bytes, member: int, sketch: bytes) -> bytes:
    """Return what a member's blob is about; `sketch` is the SHA-256 of the sealed sketch."""
    return encode((digest, member, sketch))


def part_for(response_key: bytes, content_key: bytes, digest: bytes, member: int) -> bytes:
    """Return what a member that counts is given beforehand: it opens the sums, once there are any."""
    return sealing.wrapped(response_key, content_key, associated=encode((_RESPONSE, digest, member)))


def opened_part(response_key: bytes, part: bytes, digest: bytes, member: int) -> bytes:
    """Return the content key in a member's part; raise `TamperedError` where it is none for this member and session."""
    return sealing.unwrapped(response_key, part, associated=encode((_RESPONSE, digest, member)))


class _Sums(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    sealed: bytes
    signature: bytes  # the helper's: else each member that counts could make others


def sealed_sums(
    identity: Identity, content_key: bytes, number: int, totals: Sequence[Residues], digest: bytes
) -> bytes:
    """Return the sums over so many members, for each prime, which the helper signs; equal ones give equal bytes."""
    text, about = encode((number, bytes_of(totals))), encode((_RESPONSE, digest))
    sealed = sealing.sealed_once(content_key, text, associated=about)
    return encode(_Sums(sealed, identity.sign(_SUMS, digest + hashlib.sha256(sealed).digest())))


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


def to_own(me: Identity, secret: bytes, digest: bytes, *what: str) -> bytes:
    """Return a secret sealed for the role's own tasks, of which engines keep arguments and results."""
    return sealing.seal(me.encryption_key, secret, info=encode((_OWN, digest, what)))


def of_own(me: Identity, sealed: bytes, digest: bytes, *what: str) -> bytes:
    """Return what `to_own` was given; raise `TamperedError` for anything else."""
    return me.unseal(sealed, info=encode((_OWN, digest, what)))


def sum_of_rows(rows: Sequence[Residues], primes: Sequence[int]) -> list[Words]:
    """Return the sum of sketches or pads, part by part: residues of each prime, shape (rows, size)."""
    return [modular.total(each, prime, axis=0)[None] for each, prime in zip(rows, primes, strict=True)]


def bytes_of_sum(words: Sequence[Words]) -> bytes:
    """Return a sum of sketches, or of pads, for `sum_of_bytes`."""
    return encode(bytes_of(words))


def sum_of_bytes(data: bytes) -> list[Words]:
    """Return what `bytes_of_sum` was given; raise `DeserialisationError` for what it has not made."""
    return [each[None] for each in totals_of(decode(data, tuple[bytes, ...], "sum"))]


class AnswersCipher:
    """Hides the aggregator's answers about proofs in one file of a session, by the manifest's digest.

    Who sees them in the folder of blobs reads no query's point. `query` is the query's key, 32 bytes (else
    `InputError`), and hangs on all records; each file has a key of its own, and each place in it one plaintext, also
    where a list is gone on with after a crash. What shows that answers were changed is the file's digest, in the list.
    """

    def __init__(self, query: bytes, session: bytes, file: str) -> None:
        key = derived_key(query, session, _ANSWERS, file)
        self._stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()

    def next(self, rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the file's next rows of answers, hidden; or as they were, if they are."""
        return np.frombuffer(self._stream.update(rows.tobytes()), np.uint8).reshape(rows.shape)

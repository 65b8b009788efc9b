"""Sealed distribution: from the key holder, one bundle for the aggregator and one for each party.

    signed document = credential of the holder | body | signature over purpose, credential and body
    announcement    = manifest, certificate fingerprints of all parties, validity
    aggregator's    = announcement, public and evaluation keys
    a party's       = announcement, header, and sealed to that party (HPKE): secret context and common secret

The signature is checked before the body is parsed. A party's header is bound into the HPKE key, the announcement into
the ciphertext, so that neither can be exchanged even by somebody who can sign.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Protocol, TypeVar

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fhe_auc import ckks
from fhe_auc.ckks import container
from fhe_auc.errors import DeserialisationError, InputError
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Session
from fhe_auc.serialise import decode, encode, frame, unframe
from keys import sealing
from keys.certificates import Peer, Trust, verify
from keys.errors import (
    ExpiredError,
    ReplayedError,
    SecretInBundleError,
    TamperedError,
    UnfitCertificateError,
    UnfitNameError,
    UnknownIssuerError,
    WrongContextError,
    WrongRecipientError,
    WrongSessionError,
)
from keys.identity import Identity, signed_bytes
from keys.public_keys import check_time

COMMON_SECRET_BYTES = 32
BUNDLE_ID_BYTES = 16
MAX_LIFETIME = timedelta(days=31)
"""Longest validity of a bundle."""

_SKEW = timedelta(minutes=5)  # by so much may a party's clock be slow
_ANNOUNCEMENT, _AGGREGATOR, _PARTY = b"session announcement 1", b"aggregator bundle 1", b"party bundle 1"
_MAGIC = {_ANNOUNCEMENT: b"fheanno", _AGGREGATOR: b"fhebagg", _PARTY: b"fhebpar"}
_PROBE_BYTES = 24
_PROBES = 16
T = TypeVar("T")


class ReplayGuard(Protocol):
    """Remembers which bundles have been opened; `keys.store.KeyStore` keeps them on disk."""

    def register(self, bundle_id: bytes) -> None:
        """Remember `bundle_id` (16 bytes) for good; raise `ReplayedError` where it is known already."""


class SeenInMemory:
    """A `ReplayGuard` that forgets when the process ends."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def register(self, bundle_id: bytes) -> None:
        """Remember `bundle_id`; raise `ReplayedError` where it is known already."""
        if bundle_id in self._seen:
            raise ReplayedError(f"bundle {bundle_id.hex()} has been opened before")
        self._seen.add(bundle_id)


@dataclass(frozen=True)
class Announcement:
    """A session as its key holder signed it, verified.

    Attributes
    ----------
    manifest : Manifest
        Parties, thresholds, parameters, session id.
    fingerprints : mapping of str to bytes
        Party to the fingerprint of the certificate that its bundle is sealed to.
    holder : Peer
        Who signed.
    not_after : datetime
    """

    manifest: Manifest
    fingerprints: Mapping[str, bytes]
    holder: Peer
    not_after: datetime


@dataclass(frozen=True)
class PartyKeys:
    """What a party's bundle held. The secrets are not in the repr, and the object is not pickled.

    Attributes
    ----------
    announcement : Announcement
    material : bytes
        For `fhe_auc.protocol.Protocol.party`: it can decrypt.
    common_secret : bytes
        32 bytes that all parties of the session have, and the aggregator has not.
    """

    announcement: Announcement
    material: bytes = field(repr=False)
    common_secret: bytes = field(repr=False)

    def __reduce__(self) -> str:
        raise TypeError("a party's keys are not pickled; keep them in a key store")


@dataclass(frozen=True)
class SealedSession:
    """All that leaves the key holder; nothing in it can be read by others than the one it is for.

    Attributes
    ----------
    announcement : bytes
        Public, for `open_announcement`.
    aggregator : bytes
        For `open_aggregator_bundle`; holds no secret.
    parties : mapping of str to bytes
        For `open_party_bundle`.
    """

    announcement: bytes = field(repr=False)
    aggregator: bytes = field(repr=False)
    parties: Mapping[str, bytes] = field(repr=False)


class _Signed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    credential: bytes
    body: bytes
    signature: bytes


class _AnnouncementBody(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    manifest: bytes
    fingerprints: tuple[bytes, ...]  # in the manifest's order of parties
    not_before: int  # Unix seconds
    not_after: int


class _AggregatorBody(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    announcement: bytes
    material: bytes


class _Header(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    bundle_id: bytes
    session: bytes
    recipient: bytes  # fingerprint
    context: bytes  # fingerprint
    holder: bytes  # fingerprint
    not_after: int


class _PartyBody(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    announcement: bytes
    header: bytes
    sealed: bytes


class _Secrets(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    material: bytes
    common_secret: bytes

    def __repr__(self) -> str:
        return "_Secrets(...)"


def seal_session(
    holder: Identity, session: Session, peers: Iterable[Peer], trust: Trust, *, lifetime: timedelta, at: datetime
) -> SealedSession:
    """Return a session's bundles, with a fresh common secret.

    Parameters
    ----------
    holder : Identity
        The key holder, certified.
    session : Session
        From `fhe_auc.protocol.Protocol.prepare`.
    peers : iterable of Peer
        Exactly the manifest's parties, from `keys.certificates.verify`.
    trust : Trust
        The holder's own certificate is checked before anything is signed.
    lifetime : timedelta
        How long the bundles can be opened, at most `MAX_LIFETIME`.
    at : datetime
        The present.

    Raises
    ------
    UnfitNameError
        `peers` are not the manifest's parties, each once.
    UnfitCertificateError
        Two parties share a certificate or a key.
    ExpiredError
        A certificate ends before the bundles do, or `lifetime` is out of range.
    WrongContextError
        Keys that are not those of the manifest.
    SecretInBundleError
        The aggregator's material is no public context, or holds secret key material.
    """
    at = check_time(at)
    manifest = session.manifest
    ends = at + lifetime
    if not timedelta(0) < lifetime <= MAX_LIFETIME:
        raise ExpiredError(f"a bundle's lifetime is at most {MAX_LIFETIME.days} days and not zero, got {lifetime}")
    by_name = _exactly(manifest.parties, list(peers))
    signer = verify(holder.credential, trust, at=at)
    for peer in (signer, *by_name.values()):
        if not peer.not_before <= at <= ends <= peer.not_after:
            raise ExpiredError(f"the certificate of {peer.name!r} is not valid until the bundle's end, {ends:%Y-%m-%d}")

    common_secret = secrets.token_bytes(COMMON_SECRET_BYTES)
    _check_context("secret context", manifest.context, session.party_material)
    check_no_secret(session.aggregator_material, manifest.context, session.party_material, common_secret)
    fingerprints = tuple(by_name[name].fingerprint for name in manifest.parties)
    not_before, not_after = int((at - _SKEW).timestamp()), int(ends.timestamp())
    body = _AnnouncementBody(manifest.to_bytes(), fingerprints, not_before, not_after)
    announcement = _sign(_ANNOUNCEMENT, holder, body)
    plaintext = encode(_Secrets(session.party_material, common_secret))
    bundles = {}
    for name, peer in by_name.items():
        header = encode(
            _Header(
                bundle_id=secrets.token_bytes(BUNDLE_ID_BYTES),
                session=manifest.session,
                recipient=peer.fingerprint,
                context=manifest.context,
                holder=signer.fingerprint,
                not_after=not_after,
            )
        )
        sealed = sealing.seal(
            peer.encryption_key, plaintext, info=signed_bytes(_PARTY, header), associated=_digest(announcement)
        )
        bundles[name] = _sign(_PARTY, holder, _PartyBody(announcement, header, sealed))
    aggregator = _sign(_AGGREGATOR, holder, _AggregatorBody(announcement, session.aggregator_material))
    return SealedSession(announcement, aggregator, bundles)


def open_announcement(data: bytes, trust: Trust, *, holder: str, at: datetime) -> Announcement:
    """Return a session that the key holder announces.

    Parameters
    ----------
    data : bytes
        From `SealedSession.announcement`.
    trust : Trust
    holder : str
        Name of the key holder agreed on: a certificate alone does not make anyone key holder.
    at : datetime
        The present.

    Raises
    ------
    TamperedError
        Not an announcement, damaged or forged.
    UnknownIssuerError, RevokedError, ExpiredError, UnfitCertificateError
        The holder's certificate, or another holder; see `keys.certificates.verify`. ExpiredError also for the
        announcement itself.
    """
    at = check_time(at)
    signer, body = _open(_ANNOUNCEMENT, data, _AnnouncementBody, trust, holder, at)
    if not body.not_before <= at.timestamp() <= body.not_after:
        raise ExpiredError(f"the session announced by {holder!r} is outdated, or has not begun")
    try:
        manifest = Manifest.from_bytes(body.manifest)
        ends = datetime.fromtimestamp(body.not_after, timezone.utc)
    except (DeserialisationError, InputError, OverflowError, ValueError):
        raise TamperedError(f"the manifest that {holder!r} announces is malformed") from None
    if len(body.fingerprints) != len(manifest.parties):
        raise TamperedError(f"the manifest that {holder!r} announces has not one certificate for each party")
    return Announcement(manifest, dict(zip(manifest.parties, body.fingerprints, strict=True)), signer, ends)


def open_aggregator_bundle(
    data: bytes, trust: Trust, *, holder: str, session: bytes | None, at: datetime
) -> tuple[Announcement, bytes]:
    """Return the session and the aggregator's material, for `fhe_auc.protocol.Protocol.aggregator`.

    `session` is the id of the session expected, or None to take any; other parameters and errors as
    `open_announcement`.

    Raises
    ------
    WrongSessionError, WrongContextError
        For another session than expected; keys of another context than the session's.
    SecretInBundleError
        The material is no public context, so that it may hold what the aggregator must not have.
    """
    _, body = _open(_AGGREGATOR, data, _AggregatorBody, trust, holder, check_time(at))
    announcement = open_announcement(body.announcement, trust, holder=holder, at=at)
    _check_session(announcement.manifest.session, session)
    _check_public(body.material, announcement.manifest.context)
    return announcement, body.material


def open_party_bundle(
    data: bytes,
    identity: Identity,
    trust: Trust,
    *,
    holder: str,
    session: bytes | None,
    context: bytes | None,
    guard: ReplayGuard,
    at: datetime,
) -> PartyKeys:
    """Return what the key holder sealed to this party; a bundle can be opened once.

    Parameters
    ----------
    data : bytes
        One of `SealedSession.parties`.
    identity : Identity
        The recipient, certified.
    trust : Trust
    holder : str
        Name of the key holder agreed on.
    session, context : bytes or None
        Session id and context fingerprint expected; None takes what the key holder signed.
    guard : ReplayGuard
        Learns the bundle's id as the very last step, so that a refused bundle does not use it up.
    at : datetime
        The present.

    Raises
    ------
    TamperedError
        Not a party's bundle, or damaged or forged anywhere.
    UnknownIssuerError, RevokedError, ExpiredError, UnfitCertificateError
        The signer, as `open_announcement`; the bundle is outdated, or the recipient's own certificate is revoked.
    WrongRecipientError
        Sealed to another party or certificate.
    WrongSessionError, WrongContextError
        For another session or context.
    ReplayedError
        Opened before.
    """
    at = check_time(at)
    signer, body = _open(_PARTY, data, _PartyBody, trust, holder, at)
    header = _parsed(body.header, _Header)
    me = verify(identity.credential, trust, at=at)
    if header.recipient != me.fingerprint:
        raise WrongRecipientError(f"the bundle is sealed to certificate {header.recipient.hex()[:16]}, not {me.name!r}")
    announcement = open_announcement(body.announcement, trust, holder=holder, at=at)
    manifest = announcement.manifest
    if at.timestamp() > header.not_after:
        raise ExpiredError(f"the bundle that {holder!r} made for {me.name!r} is outdated")
    _check_session(header.session, session)
    if header.session != manifest.session:
        raise WrongSessionError("the bundle and the announcement in it are of different sessions")
    if header.context != manifest.context or context not in (None, header.context):
        raise WrongContextError(f"the bundle is for another context, {header.context.hex()[:16]}")
    if announcement.fingerprints.get(me.name) != me.fingerprint:
        raise WrongRecipientError(f"{me.name!r} is not, with this certificate, a party of the announced session")
    if header.holder != signer.fingerprint or len(header.bundle_id) != BUNDLE_ID_BYTES:
        raise TamperedError("the bundle's header names another key holder, or has a malformed id")
    plaintext = identity.unseal(
        body.sealed, info=signed_bytes(_PARTY, body.header), associated=_digest(body.announcement)
    )
    inside = _parsed(plaintext, _Secrets)
    if len(inside.common_secret) != COMMON_SECRET_BYTES:
        raise TamperedError("the bundle's common secret has a wrong length")
    _check_context("secret context", manifest.context, inside.material)
    guard.register(header.bundle_id)
    return PartyKeys(announcement, inside.material, inside.common_secret)


def check_no_secret(material: bytes, context: bytes, secret_material: bytes, common_secret: bytes) -> None:
    """Raise unless `material` may go to the aggregator.

    It must load as a public context, a type without a secret key, and write itself back byte for byte, so that nothing
    rides along. Besides, it must contain neither the common secret nor any of 16 samples of the secret key's bytes.

    Raises
    ------
    SecretInBundleError
        It does.
    WrongContextError
        It belongs to another context than the fingerprint says.
    """
    _check_public(material, context)
    if common_secret in material or any(probe in material for probe in _probes(secret_material)):
        raise SecretInBundleError("the aggregator's material holds secret key material; nothing was written")


def _probes(secret: bytes) -> list[bytes]:
    """Return samples of `secret`, from behind its head (which public material shares) to its end."""
    first, last = len(secret) // 4, len(secret) - _PROBE_BYTES
    return [
        secret[start : start + _PROBE_BYTES]
        for start in {first + (last - first) * i // (_PROBES - 1) for i in range(_PROBES)}
    ]


def _check_public(material: bytes, context: bytes) -> None:
    try:
        public = ckks.load_public(material)
    except DeserialisationError as error:
        raise SecretInBundleError(f"the aggregator's material is no public context: {error}") from None
    if public.to_bytes() != material:
        raise SecretInBundleError("the aggregator's material holds more than a public context")
    if public.fingerprint != context:
        raise WrongContextError("the aggregator's keys are of another context than the manifest's")


def _check_context(kind: str, context: bytes, material: bytes) -> None:
    try:
        container.open_for(kind, context, material)
    except DeserialisationError as error:
        raise WrongContextError(f"the {kind} is not that of the manifest ({error.field})") from None


def _check_session(found: bytes, expected: bytes | None) -> None:
    if expected is not None and found != expected:
        raise WrongSessionError(f"the bundle is for session {found.hex()}, not {expected.hex()}")


def _exactly(names: tuple[str, ...], peers: list[Peer]) -> dict[str, Peer]:
    by_name = {peer.name: peer for peer in peers}
    odd = set(names) ^ set(by_name)
    if odd or len(peers) != len(by_name):
        who = ascii(min(odd)) if odd else "a name"
        raise UnfitNameError(f"certificates and the manifest's parties differ: {who} is missing, too many or double")
    for what in ("fingerprint", "encryption_key", "signing_key"):
        if len({getattr(peer, what) for peer in peers}) != len(peers):
            raise UnfitCertificateError(f"two parties have the same {what.replace('_', ' ')}")
    return by_name


def _digest(announcement: bytes) -> bytes:
    return hashlib.sha256(announcement).digest()


def _sign(purpose: bytes, holder: Identity, body: msgspec.Struct) -> bytes:
    encoded = encode(body)
    signature = holder.sign(purpose, encode((holder.credential, encoded)))
    return frame(_MAGIC[purpose], _Signed(holder.credential, encoded, signature))


def _open(purpose: bytes, data: bytes, shape: type[T], trust: Trust, holder: str, at: datetime) -> tuple[Peer, T]:
    """Return signer and body of a signed document: certificate first, then signature, and only then the inside."""
    what = purpose[:-2].decode()
    try:
        signed = unframe(_MAGIC[purpose], data, _Signed, what)
    except DeserialisationError as error:
        raise TamperedError(str(error)) from None
    signer = verify(signed.credential, trust, at=at)
    try:
        key = Ed25519PublicKey.from_public_bytes(signer.signing_key)
        key.verify(signed.signature, signed_bytes(purpose, encode((signed.credential, signed.body))))
    except InvalidSignature:
        raise TamperedError(f"the {what} bears no genuine signature of {signer.name!r}") from None
    if signer.name != holder:
        raise UnknownIssuerError(f"the {what} was signed by {signer.name!r}, and the key holder is {holder!r}")
    return signer, _parsed(signed.body, shape)


def _parsed(data: bytes, shape: type[T]) -> T:
    try:
        return decode(data, shape, "bundle")
    except DeserialisationError as error:
        raise TamperedError(str(error)) from None

"""Sealed distribution: from the key holder, one bundle for the aggregator and one for each party.

    aggregator's = announcement, and sealed to it (HPKE): the public key, and with pads their key
    a party's    = announcement, header, and sealed to it: secret context, common secret, and with pads its seed

A party could decrypt the sum of all pads with their key, which is why that is sealed to the aggregator. With a helper
there is no key holder: whoever convenes the session seals the common secret alone to each party. The announcement is
then one file for all, beside which each bundle lies, and which it names by its SHA-256: in ten thousand bundles it
would take 170 GB. All bundles are signed documents (`fhe_auc_keys.trust.signed_documents`). A party's header and the
announcement are bound into the HPKE key, so that neither can be exchanged even by somebody who can sign.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import KeptFormat, SecretStruct, decode, encode
from fhe_auc.question.study import Study
from fhe_auc.rlwe.context import BasePublicContext
from fhe_auc.session.protocol import Session
from fhe_auc_keys.bundles.announcement import Announcement, announce, open_announcement
from fhe_auc_keys.bundles.session_keys import (
    DealtSession,
    PartySecrets,
    aggregator_material,
    load_public_context,
    party_secrets,
    public_context,
)
from fhe_auc_keys.errors import ExpiredError, KeysError, TamperedError
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Member, Members
from fhe_auc_keys.trust.sealing import signed_bytes
from fhe_auc_keys.trust.signed_documents import Kind, claimed_body, open_signed, parsed, sign

BUNDLE_ID_BYTES = 16

AGGREGATOR_KIND = Kind(b"fhebagg", "aggregator bundle")
PARTY_KIND = Kind(b"fhebpar", "party bundle")
_DIGEST_BYTES = 32
_PROBE_BYTES = 24
_PROBES = 16


class OpenedBundle(NamedTuple):
    """What a party's bundle held, for `fhe_auc_keys.site.session_files.keep_for_party`."""

    bundle_id: bytes
    announcement: Announcement
    kept: Kept


class AggregatorKeys(NamedTuple):
    """What the aggregator's bundle held."""

    announcement: Announcement
    material: bytes  # for `fhe_auc.session.protocol.Protocol.aggregator`
    loaded: object = None  # the public context in it, if any, as of `DealtSession`


@dataclass(frozen=True)
class SealedBundles:
    """All that leaves the key holder; nothing in it can be read by others than the one it is for."""

    announcement: bytes = field(repr=False)  # public, for `open_announcement`
    aggregator: bytes = field(repr=False)  # for `open_aggregator_bundle`; without a key holder, the announcement
    parties: Mapping[str, bytes] = field(repr=False)  # by name, for `open_party_bundle`; empty where nothing is dealt


class _AggregatorBody(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    announcement: bytes
    sealed: bytes


class _BundleHeader(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    bundle_id: bytes
    session: bytes
    recipient: bytes  # fingerprint
    context: bytes  # fingerprint
    holder: bytes  # fingerprint
    not_after: int


class _PartyBody(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    announcement: bytes  # with a helper its SHA-256
    header: bytes
    sealed: bytes


class Kept(SecretStruct, frozen=True):
    """What a key store has of a session that it has opened, unverified; later versions read it to close the session."""

    announcement: bytes
    not_after: int  # Unix seconds, the announcement's
    material: bytes  # `PartySecrets`; empty where nothing was sealed to the role, and once the session is closed
    closed: bool = False
    has_result: bool = False  # whether it was closed because the site had the result

    @classmethod
    def stored(cls, store: KeyStore, session: bytes) -> Kept:
        """Return what a store has of a session; errors as `fhe_auc_keys.store.key_store.KeyStore.get`."""
        return store.load("bundle", session.hex(), _KEPT)

    def to_bytes(self) -> bytes:
        """Serialise, for a key store."""
        return _KEPT.frame(self)


_KEPT = KeptFormat(b"fhekept", Kept, "opened session")


def seal_session(
    holder: Identity,
    session: Session,
    members: Members,
    *,
    aggregator: str,
    helper: str = "",
    study: Study,
    lifetime: timedelta,
    at: datetime,
) -> SealedBundles:
    """Return the bundles of a session, from `fhe_auc.session.protocol.Protocol.prepare`; parameters as `announce`.

    With a helper, or where nobody deals secrets, `holder` convenes the session. Errors as `announce`; besides
    `KeysError` for keys that are not the manifest's, or an aggregator's material that is no public context or holds
    secret key material.
    """
    given: dict[str, Any] = {"helper": helper, "study": study, "lifetime": lifetime, "at": at}
    if session.manifest.keys in ("sealed", "helper") and not isinstance(session, DealtSession):
        raise TypeError(f"a session with keys {session.manifest.keys!r} deals secrets, and this one does not")
    announcement = announce(holder, session.manifest, members, aggregator=aggregator, **given)
    announced = open_announcement(announcement, members, holder=holder.name, at=at)
    digest, bundles, aggregator_bundle = announcement_digest(announcement), {}, announcement
    if isinstance(session, DealtSession):
        party_secrets(encode(session.common), session.manifest)  # which raises for others than the manifest names
    if isinstance(session, DealtSession) and session.manifest.keys == "sealed":
        aggregator_bundle = seal_to_aggregator(holder, session, announcement, announced)
    own = {name: session.secrets_of(name) for name in announced.fingerprints if isinstance(session, DealtSession)}
    for name, secret in own.items():
        header, sealed = seal_to_party(secret, announced, digest, name)
        bundles[name] = sign(PARTY_KIND, holder, _PartyBody(digest if helper else announcement, header, sealed))
    return SealedBundles(announcement, aggregator_bundle, bundles)


def seal_to_aggregator(holder: Identity, session: DealtSession, announcement: bytes, announced: Announcement) -> bytes:
    """Return the aggregator's bundle; `announced` is what the bytes `announcement` hold. Errors as `seal_session`."""
    seeds = [own.seed for name in session.manifest.parties if (own := session.secrets_of(name)).seed]
    common = party_secrets(encode(session.common), session.manifest)  # raises where they are not the manifest's
    check_no_secret(session.aggregator_material, announced.manifest.context, common, seeds)
    sealed = sealing.seal(
        announced.aggregator.encryption_key,
        session.aggregator_material,
        info=AGGREGATOR_KIND.purpose + announcement_digest(announcement),
    )
    return sign(AGGREGATOR_KIND, holder, _AggregatorBody(announcement, sealed))


def seal_to_party(own: PartySecrets, announced: Announcement, digest: bytes, name: str) -> tuple[bytes, bytes]:
    """Return header and sealed secrets of a party's bundle, for `unseal_for_party`; `digest` is the announcement's."""
    manifest = announced.manifest
    header = encode(
        _BundleHeader(
            bundle_id=secrets.token_bytes(BUNDLE_ID_BYTES),
            session=manifest.session,
            recipient=announced.fingerprints[name],
            context=manifest.context,
            holder=announced.holder.fingerprint,
            not_after=int(announced.not_after.timestamp()),
        )
    )
    key, info = announced.parties[name].encryption_key, signed_bytes(PARTY_KIND.purpose, digest + header)
    return header, sealing.seal(key, encode(own), info=info)


def open_aggregator_bundle(
    data: bytes, identity: Identity, members: Members, *, holder: str, session: bytes | None, at: datetime
) -> AggregatorKeys:
    """Return the session and the material of the aggregator, whose `identity` is a member.

    `session` is the id expected, None takes any. Errors as `open_announcement`; besides `KeysError` for another
    aggregator or session, and for keys of another context than the session's, or that are no public context, so that
    they may hold what the aggregator must not have. Where vectors are added up there is a pad key alone.
    """
    _, body = open_signed(AGGREGATOR_KIND, data, _AggregatorBody, members, signer=holder, at=at)
    announcement = open_announcement(body.announcement, members, holder=holder, at=at)
    announcement.require_session(session, "bundle")
    announcement.require_aggregator(identity.member(members, at=at))
    material = identity.unseal(body.sealed, info=AGGREGATOR_KIND.purpose + announcement_digest(body.announcement))
    return AggregatorKeys(announcement, material, _checked_public(material, announcement.manifest.context))


def announced_in_bundle(
    kind: Kind, data: bytes, members: Members, *, holder: str, at: datetime, beside: bytes = b""
) -> tuple[Announcement, bytes]:
    """Return a bundle's session, unopened, and the fingerprint of the line whose keys a party's is sealed to."""
    if kind == PARTY_KIND:
        _, sealed = open_signed(kind, data, _PartyBody, members, signer=holder, at=at)
        inside, recipient = _announced(sealed, beside), parsed(sealed.header, _BundleHeader, kind.name).recipient
    else:
        _, public = open_signed(kind, data, _AggregatorBody, members, signer=holder, at=at)
        inside, recipient = public.announcement, b""
    return open_announcement(inside, members, holder=holder, at=at), recipient


class ClaimedBundle(NamedTuple):
    """What a party's bundle says, unverified."""

    bundle_id: bytes
    recipient: bytes  # fingerprint of the line whose key it is sealed to
    announcement: bytes  # empty where it lies beside the bundle


def claimed_in_bundle(data: bytes) -> ClaimedBundle:
    """Return what a party's bundle says; raise `TamperedError` where it is no such bundle."""
    body = claimed_body(PARTY_KIND, data, _PartyBody)
    header = parsed(body.header, _BundleHeader, PARTY_KIND.name)
    beside = len(body.announcement) == _DIGEST_BYTES
    return ClaimedBundle(header.bundle_id, header.recipient, b"" if beside else body.announcement)


def open_party_bundle(
    data: bytes,
    identity: Identity,
    members: Members,
    *,
    holder: str,
    session: bytes | None,
    at: datetime,
    beside: bytes = b"",
) -> OpenedBundle:
    """Return what the key holder, the `holder` agreed on, sealed to the party `identity`, which is a member.

    `session` is the id expected, None takes any; `beside` is the announcement of a session with a helper, which is no
    part of the bundle. It is for the caller to open a bundle once: it may hold the seed of one pad. Errors as
    `open_announcement`; besides `ExpiredError` where it is outdated, and `KeysError` where it is sealed to another
    member's keys, or for another session, or `beside` is missing, or another.
    """
    signer, body = open_signed(PARTY_KIND, data, _PartyBody, members, signer=holder, at=at)
    header = parsed(body.header, _BundleHeader, PARTY_KIND.name)
    me = identity.member(members, at=at)
    _check_recipient(header, me)
    document = _announced(body, beside)
    announcement = open_announcement(document, members, holder=holder, at=at)
    if at.timestamp() > header.not_after:
        raise ExpiredError(f"the bundle that {holder!r} made for {me.name!r} is outdated")
    announcement.require_session(session, "bundle")
    if header.holder != signer.fingerprint or len(header.bundle_id) != BUNDLE_ID_BYTES:
        raise TamperedError("the bundle's header names another key holder, or has a malformed id")
    digest = announcement_digest(document)
    material = unseal_for_party(body.header, body.sealed, announcement, digest, identity, me)
    kept = Kept(document, int(announcement.not_after.timestamp()), material)
    return OpenedBundle(header.bundle_id, announcement, kept)


def _announced(body: _PartyBody, beside: bytes) -> bytes:
    """Return the announcement of a party's bundle; `KeysError` where it is a file of its own, and is not `beside`."""
    if len(body.announcement) != _DIGEST_BYTES:
        return body.announcement
    if announcement_digest(beside) != body.announcement:
        raise KeysError(
            "the bundle is of a session with a helper, whose announcement is a file of its own: put what announces "
            f"that session beside the bundle{', in place of the one that is there' if beside else ''}"
        )
    return beside


def spend_seed(store: KeyStore, session: bytes) -> None:
    """Take the party's seed, if there is one, out of its bundle as `store` has it: the party has submitted."""
    kept = Kept.stored(store, session)
    if not kept.material:
        return
    secret = decode(kept.material, PartySecrets, "secret key material")
    if secret.seed:
        left = msgspec.structs.replace(kept, material=encode(msgspec.structs.replace(secret, seed=b"")))
        store.put("bundle", session.hex(), left.to_bytes(), replace=True)


def unseal_for_party(
    header: bytes, sealed: bytes, announcement: Announcement, digest: bytes, identity: Identity, me: Member
) -> bytes:
    """Return what `seal_to_party` sealed, `PartySecrets` in bytes; `me` is the member `identity`."""
    names, manifest = parsed(header, _BundleHeader, PARTY_KIND.name), announcement.manifest
    _check_recipient(names, me)
    if names.session != manifest.session:
        raise KeysError("the bundle and the announcement in it are of different sessions")
    if names.context != manifest.context:
        raise KeysError(f"the bundle is for another context, {names.context.hex()[:16]}")
    announcement.require_party(me)
    material = identity.unseal(sealed, info=signed_bytes(PARTY_KIND.purpose, digest + header))
    party_secrets(material, manifest)
    return material


def _check_recipient(header: _BundleHeader, me: Member) -> None:
    if header.recipient != me.fingerprint:
        raise KeysError(f"the bundle is sealed to the keys {header.recipient.hex()[:16]}, not {me.name!r}'s")


def check_no_secret(material: bytes, context: bytes, kept_back: PartySecrets, seeds: Iterable[bytes] = ()) -> None:
    """Raise unless `material` may go to the aggregator.

    It must load as a public context, a type without a secret key, and write itself back byte for byte, so that nothing
    rides along; with pads, their key may follow, or stand alone, which its maker has checked. Besides, it must
    contain neither the common secret nor a seed nor any of 16 samples of the secret key's bytes. Otherwise
    `KeysError`, as where the fingerprint `context` is another one.
    """
    if _checked_public(material, context) is None and kept_back.context:
        raise KeysError("the aggregator's material is no public context, and the parties have a secret one")
    samples = _probes(kept_back.context) if kept_back.context else []
    if any(each in material for each in (*samples, *seeds, kept_back.common_secret)):
        raise KeysError("the aggregator's material holds secret key material; nothing was written")


def _probes(secret: bytes) -> list[bytes]:
    """Return samples of `secret`, from behind its head (which public material shares) to its end."""
    first, last = len(secret) // 4, len(secret) - _PROBE_BYTES
    return [
        secret[start : start + _PROBE_BYTES]
        for start in {first + (last - first) * i // (_PROBES - 1) for i in range(_PROBES)}
    ]


def _checked_public(material: bytes, context: bytes) -> BasePublicContext[Any] | None:
    """Return the public context in the aggregator's material, if there is one; raise `KeysError` as of those."""
    try:
        found, pad_key = public_context(material)
        public = load_public_context(found) if found else None
    except DeserialisationError as error:
        raise KeysError(f"the aggregator's material is no public context: {error}") from None
    if aggregator_material(b"" if public is None else public.to_bytes(), pad_key) != material:
        raise KeysError("the aggregator's material holds more than a public context")
    if public is not None and public.fingerprint != context:
        raise KeysError("the aggregator's keys are of another context than the manifest's")
    return public


def announcement_digest(announcement: bytes) -> bytes:
    """Return what both kinds of sealed material are bound to."""
    return hashlib.sha256(announcement).digest()

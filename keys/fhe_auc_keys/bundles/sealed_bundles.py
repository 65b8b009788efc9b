"""Sealed distribution: from the key holder, a bundle for the aggregator and one for each party.

    a bundle = the announcement's SHA-256, the recipient, and sealed to it (HPKE)
               for a party `PartySecrets`; for the aggregator the public key, and with pads their key

A party could decrypt the sum of all pads with their key, which is why that is sealed to the aggregator. With a helper
there is no key holder: whoever convenes the session seals the common secret alone to each party. A bundle lies beside
the announcement, which is one file for all. It is a signed document (`fhe_auc_keys.trust.signed_documents`), by who has
signed the announcement. Announcement and recipient are bound into the HPKE key, so that neither can be exchanged even
by somebody who can sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

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
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Member, Members
from fhe_auc_keys.trust.signatures import signed_bytes
from fhe_auc_keys.trust.signed_documents import Kind, open_signed, sign_document

BUNDLE = Kind(b"fhebund", "bundle")
_PROBE_BYTES = 24
_PROBES = 16


@dataclass(frozen=True)
class SealedBundles:
    """All that leaves the key holder; nothing in it can be read by others than the one it is for."""

    announcement: bytes = field(repr=False)  # public, for `open_announcement`
    aggregator: bytes = field(repr=False)  # as the next; empty without a key holder
    parties: Mapping[str, bytes] = field(repr=False)  # by name, for `open_bundle`; empty where nothing is dealt


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    announcement: bytes  # SHA-256
    recipient: bytes  # fingerprint
    sealed: bytes


class Kept(SecretStruct, frozen=True):
    """What a key store has of a session that it has opened, unverified; later versions read it to close the session."""

    announcement: bytes
    not_after: int  # Unix seconds, the announcement's
    material: bytes  # `PartySecrets`; empty where nothing was sealed to the role, and once the session is closed
    closed: bool = False
    has_result: bool = False  # whether it was closed because the site had the result
    end_seen: int = 0  # when a clock first said that it had ended, Unix seconds; 0 if none has

    @property
    def ends(self) -> datetime:
        """Until when the session can go on."""
        return datetime.fromtimestamp(self.not_after, timezone.utc)

    @classmethod
    def stored(cls, store: KeyStore, session: bytes) -> Kept:
        """Return what a store has of a session; errors as `fhe_auc_keys.store.key_store.KeyStore.get`."""
        return store.load("bundle", session.hex(), _KEPT)

    def keep(self, store: KeyStore, session: bytes) -> None:
        """Put it into a store, in place of what is there."""
        store.put("bundle", session.hex(), _KEPT.frame(self), replace=True)


_KEPT = KeptFormat(b"fhekept", Kept, "opened session")


def seal_session(holder: Identity, session: Session, members: Members, study: Study, *, at: datetime) -> SealedBundles:
    """Return the bundles of a session, from `fhe_auc.session.protocol.Protocol.prepare`; parameters as `announce`.

    With a helper, or where nobody deals secrets, `holder` convenes the session. Errors as `announce` and
    `party_secrets`; besides `KeysError` for an aggregator's material that is no public context or holds secret key
    material.
    """
    document, keys = announce(holder, session.manifest, members, study, at=at), session.manifest.keys
    if keys == "none":
        return SealedBundles(document, b"", {})
    if not isinstance(session, DealtSession):
        raise TypeError(f"a session with keys {keys!r} deals secrets, and this one does not")
    announced = open_announcement(document, members, at=at)
    party_secrets(encode(session.common), session.manifest)
    for_aggregator = b"" if keys == "helper" else seal_to_aggregator(holder, session, announced)
    secret = {name: encode(session.secrets_of(name)) for name in announced.parties}
    bundles = {name: seal_bundle(holder, member, secret[name], announced) for name, member in announced.parties.items()}
    return SealedBundles(document, for_aggregator, bundles)


def seal_to_aggregator(holder: Identity, session: DealtSession, announced: Announcement) -> bytes:
    """Return the aggregator's bundle of an announced session; errors as `seal_session`."""
    seeds = [own.seed for name in session.manifest.parties if (own := session.secrets_of(name)).seed]
    check_no_secret(session.aggregator_material, announced.manifest.context, session.common, seeds)
    return seal_bundle(holder, announced.aggregator, session.aggregator_material, announced)


def seal_bundle(holder: Identity, recipient: Member, material: bytes, announced: Announcement) -> bytes:
    """Return a bundle of an announced session, signed by its `holder`."""
    sealed = sealing.seal(recipient.encryption_key, material, info=_info(announced, recipient))
    return sign_document(BUNDLE, holder, _Body(announced.digest, recipient.fingerprint, sealed))


def _info(announced: Announcement, recipient: Member) -> bytes:
    return signed_bytes(BUNDLE.purpose, announced.digest + recipient.fingerprint)


def check_bundle(data: bytes, announced: Announcement, me: Member, members: Members, *, at: datetime) -> bytes:
    """Return what a bundle holds, still sealed; `announced` is the announcement beside it.

    Errors as of `open_signed`; besides `KeysError` where it is sealed to other keys than those of `me`, or is not of
    that announcement.
    """
    _, body = open_signed(BUNDLE, data, _Body, members, signer=announced.holder.name, at=at)
    if body.recipient != me.fingerprint:
        raise KeysError(
            f"the bundle is sealed to the keys {body.recipient.hex()[:16]}, not to those that {me.name!r} has now: ask "
            "for a new session"
        )
    if body.announcement != announced.digest:
        raise KeysError("the bundle is of another session than the announcement beside it")
    return body.sealed


def open_for_party(
    data: bytes, announced: Announcement, identity: Identity, members: Members, *, at: datetime
) -> bytes:
    """Return a party's `PartySecrets`, as bytes; errors as `check_bundle` and `party_secrets`.

    It is for the caller to open a session once: there may be the seed of one pad in them.
    """
    material = _unsealed(data, announced, identity, members, at)
    party_secrets(material, announced.manifest)
    return material


def open_for_aggregator(
    data: bytes, announced: Announcement, identity: Identity, members: Members, *, at: datetime
) -> tuple[bytes, object]:
    """Return the aggregator's material, and the public context in it, if any, as of `DealtSession`.

    Errors as `check_bundle`; besides `KeysError` for keys of another context than the session's, or that are no public
    context, so that they may hold what the aggregator must not have.
    """
    material = _unsealed(data, announced, identity, members, at)
    return material, _checked_public(material, announced.manifest.context)


def _unsealed(data: bytes, announced: Announcement, identity: Identity, members: Members, at: datetime) -> bytes:
    me = identity.member(members, at=at)
    return identity.unseal(check_bundle(data, announced, me, members, at=at), info=_info(announced, me))


def spend_seed(store: KeyStore, session: bytes) -> None:
    """Take the party's seed, if there is one, out of its bundle as `store` has it: the party has submitted."""
    kept = Kept.stored(store, session)
    if not kept.material:
        return
    secret = decode(kept.material, PartySecrets, "secret key material")
    if secret.seed:
        left = encode(msgspec.structs.replace(secret, seed=b""))
        msgspec.structs.replace(kept, material=left).keep(store, session)


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

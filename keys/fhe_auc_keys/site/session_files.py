"""Files that open a session, of either kind: bundles of a key holder, or the announcement alone where there is none."""

from __future__ import annotations

from datetime import datetime

from fhe_auc.base.errors import UnknownProtocolError
from fhe_auc.base.serialise import encode
from fhe_auc.question.study import Study
from fhe_auc.rlwe.backends import choose_backend
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles import announcement
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.bundles.joint_session import keep_joint_session, kept_joint_session, open_joint_session
from fhe_auc_keys.bundles.roster import PartyMaterial, Roster
from fhe_auc_keys.bundles.sealed_bundles import (
    PARTY_KIND,
    AggregatorKeys,
    Kept,
    announced_in_bundle,
    claimed_bundle_id,
    claimed_recipient,
    keep_party_bundle,
    kept_party_keys,
    open_aggregator_bundle,
)
from fhe_auc_keys.bundles.session_keys import party_secrets
from fhe_auc_keys.roles.helper_roles import HelpedParty, HelperMaterial
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.certificates import Peer, Trust, verify
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.signed_documents import claimed_signer, parsed


def is_joint(data: bytes) -> bool:
    """Return whether a file is, by its first bytes, the document of a session without a key holder."""
    return data.startswith(announcement.KIND.magic)


def open_for_aggregator(
    data: bytes, identity: Identity, trust: Trust, *, holder: str, session: bytes | None, at: datetime
) -> AggregatorKeys:
    """Return the session of such a file, and the aggregator's material: public keys, or a roster.

    `holder` must have signed, and named the certificate of `identity` as the aggregator's, else `KeysError`;
    other parameters and errors as `open_aggregator_bundle` and `open_joint_session`.
    """
    if is_joint(data):
        announced = open_joint_session(data, trust, signer=holder, session=session, at=at)
        opened = AggregatorKeys(announced, b"" if announced.helpers else announced.roster.to_bytes())
    else:
        opened = open_aggregator_bundle(data, identity, trust, holder=holder, session=session, at=at)
    opened.announcement.require_aggregator(verify(identity.credential, trust, at=at))
    _check_plan(opened.announcement.manifest)
    return opened


def claimed_id(data: bytes) -> bytes:
    """Return what a party's file says that it is known by once it is opened; empty for files of other kinds.

    Raises `TamperedError` where it is malformed.
    """
    if data.startswith(PARTY_KIND.magic):
        return claimed_bundle_id(data)
    if not is_joint(data):
        return b""
    manifest = announcement.claimed(data).manifest
    return b"" if manifest.keys == "sealed" else manifest.session


def is_for(data: bytes, announced: Announcement, me: Peer) -> bool:
    """Whether a file, which `announced_to_party` has verified, is for this party, with this certificate."""
    if is_joint(data):
        helpers = (helper.fingerprint for helper in announced.helpers)
        return me.fingerprint in (announced.fingerprints.get(me.name), *helpers)
    return claimed_recipient(data) == me.fingerprint


def announced_to_party(data: bytes, trust: Trust, *, holder: str, at: datetime) -> Announcement:
    """Return the session of a party's file, verified; nothing is opened, so that it can be shown first.

    `holder` must have signed; errors as `fhe_auc_keys.bundles.announcement.open_announcement`, and `KeysError` as
    `open_joint_session`.
    """
    if is_joint(data):
        return open_joint_session(data, trust, signer=holder, session=None, at=at)
    return announced_in_bundle(PARTY_KIND, data, trust, holder=holder, at=at)[0]


def keep_for_party(
    data: bytes,
    identity: Identity,
    trust: Trust,
    store: KeyStore,
    *,
    holder: str,
    session: bytes | None,
    at: datetime,
    study: Study,
    grid: bytes | None = None,
) -> Announcement:
    """Open such a file as the party `identity`, once, and put what the rounds need into `store`.

    `holder` must have signed, `study` is what the party has agreed to; other parameters and errors as
    `keep_party_bundle` and `keep_joint_session`. Raise `InputError` where the protocol here cannot read the plan, and
    `BackendUnavailableError` where its encryption library cannot be imported; then nothing is kept, and the file can be
    opened again.
    """
    _check_plan(announced_to_party(data, trust, holder=holder, at=at).manifest)
    if is_joint(data):
        return keep_joint_session(
            data, identity, trust, store, signer=holder, session=session, at=at, study=study, grid=grid
        )
    kept = keep_party_bundle(
        data, identity, trust, store, holder=holder, session=session, at=at, study=study, grid=grid
    )
    return kept.announcement


def kept_for_party(
    store: KeyStore, session: bytes, identity: Identity, trust: Trust, *, holder: str, at: datetime
) -> tuple[Announcement, bytes]:
    """Return what `keep_for_party` put into `store`, verified again, and the party's material.

    Errors as `fhe_auc_keys.bundles.sealed_bundles.kept_party_keys`, of a closed session always, and
    `fhe_auc_keys.bundles.joint_session.kept_joint_session`.
    """
    if not is_joint(store.get("bundle", session.hex())):
        opened = kept_party_keys(store, session, trust, holder=holder, at=at)
        return opened.announcement, opened.material
    joined = kept_joint_session(store, session, trust, signer=holder, at=at)
    if not joined.helpers:
        return joined, encode(PartyMaterial(joined.roster, identity.to_bytes()))
    if joined.is_helper(identity.name):
        return joined, encode(HelperMaterial(identity.to_bytes(), joined.roster, Roster.of(joined.helpers)))
    secret, keys = joined.common_secret(identity), tuple(helper.encryption_key for helper in joined.helpers)
    return joined, encode(HelpedParty(identity.to_bytes(), keys, secret))


def kept(store: KeyStore, session: bytes) -> Kept:
    """Return what `store` has of a session that was opened, unverified; without a key holder, twice the document.

    It is for the announcement, and to see whether the session is closed: then there is no material. Raises
    `TamperedError` where it is malformed; else as `fhe_auc_keys.store.key_store.KeyStore.get`.
    """
    name = session.hex()
    data = store.get("bundle", name)
    return Kept(data, data) if is_joint(data) else parsed(data, Kept, f"bundle {name}")


def verify_kept(store: KeyStore, session: bytes, identity: Identity, trust: Trust, *, at: datetime) -> None:
    """Raise where `identity`, a party or a helper, could not go on with a session that was opened, by whatever holder.

    Errors as `kept_for_party` and `keep_for_party`.
    """
    holder = verify(claimed_signer(announcement.KIND, kept(store, session).announcement), trust, at=at).name
    announced, material = kept_for_party(store, session, identity, trust, holder=holder, at=at)
    announced.require_party_or_helper(verify(identity.credential, trust, at=at))
    _check_plan(announced.manifest)
    if announced.manifest.keys == "sealed":
        party_secrets(material, announced.manifest.context)


def _check_plan(manifest: Manifest) -> None:
    """Raise `InputError` where the session's protocol is installed, and refuses its plan.

    `BackendUnavailableError` where an encryption library that it takes cannot be imported: nothing here could answer a
    round.
    """
    try:
        protocol = registry.load(manifest.protocol)
    except UnknownProtocolError:  # a site may take in what another of its machines evaluates
        return
    plan = protocol.plan_of(manifest)
    if plan is not None and not manifest.joint_keys:  # these take no library
        choose_backend(plan.parameters.backend)

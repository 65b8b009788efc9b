"""Files that open a session, of either kind: bundles, or the announcement alone for whom nothing is sealed.

Where nothing is encrypted everybody gets the same announcement.
With a helper it is all that the aggregator and the helper get; a party also has a bundle with the common secret in it,
which it keeps beside the announcement (`beside`).
"""

from datetime import datetime

from fhe_auc.base.errors import MessageError, UnknownProtocolError
from fhe_auc.base.serialise import encode
from fhe_auc.question.study import Study
from fhe_auc.rlwe.parameters import choose_backend
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles import announcement
from fhe_auc_keys.bundles.announcement import Announcement, open_announcement
from fhe_auc_keys.bundles.sealed_bundles import (
    AGGREGATOR_KIND,
    PARTY_KIND,
    AggregatorKeys,
    Kept,
    announced_in_bundle,
    claimed_in_bundle,
    open_aggregator_bundle,
    open_party_bundle,
)
from fhe_auc_keys.bundles.session_keys import party_secrets
from fhe_auc_keys.errors import KeysError, StoreError
from fhe_auc_keys.roles.helped import HelpedSecrets
from fhe_auc_keys.roles.helper import HelperMaterial
from fhe_auc_keys.site.restored import made_before
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Member, Members
from fhe_auc_keys.trust.signed_documents import claimed_signer


def is_announcement(data: bytes) -> bool:
    """Return whether a file is, by its first bytes, the document of a session without a key holder."""
    return data.startswith(announcement.KIND.magic)


def open_for_aggregator(
    data: bytes, identity: Identity, members: Members, *, holder: str, session: bytes | None, at: datetime
) -> AggregatorKeys:
    """Return the session of such a file, and the aggregator's material; errors as `open_aggregator_bundle`."""
    if is_announcement(data):
        announced = _open_announced(data, members, holder=holder, session=session, at=at)
        announced.require_aggregator(identity.member(members, at=at))
        opened = AggregatorKeys(announced, b"")
    else:
        opened = open_aggregator_bundle(data, identity, members, holder=holder, session=session, at=at)
    _check_plan(opened.announcement.manifest)
    return opened


def announced_to_aggregator(data: bytes, members: Members, *, holder: str, at: datetime) -> Announcement:
    """Return the session of such a file, verified; nothing is unsealed. Errors as `open_aggregator_bundle`."""
    if is_announcement(data):
        return _open_announced(data, members, holder=holder, session=None, at=at)
    return announced_in_bundle(AGGREGATOR_KIND, data, members, holder=holder, at=at)[0]


def claimed_id(data: bytes) -> bytes:
    """Return what a party's file says that it is known by once it is opened; empty for files of other kinds."""
    if data.startswith(PARTY_KIND.magic):
        return claimed_in_bundle(data).bundle_id
    if not is_announcement(data):
        return b""
    manifest = announcement.claimed(data).manifest
    return b"" if manifest.keys == "sealed" else manifest.session


def announcement_in(data: bytes, beside: bytes) -> bytes:
    """Return what announces the session of a party's file, which lies `beside` it, or is in it, or is the file."""
    return data if is_announcement(data) else claimed_in_bundle(data).announcement or beside


def claimed_maker(document: bytes) -> str:
    """Return who says to have made a session, by what announces it or a bundle; `TamperedError` for neither."""
    kinds = {kind.magic: kind for kind in (announcement.KIND, AGGREGATOR_KIND)}
    return claimed_signer(kinds.get(document[: len(PARTY_KIND.magic)], PARTY_KIND), document)


def is_for(data: bytes, announced: Announcement, me: Member) -> bool:
    """Whether a file, which `announced_to_party` has verified, is for this party, with these keys."""
    if is_announcement(data):
        mine = announced.fingerprints.get(me.name) if announced.helper is None else announced.helper.fingerprint
        return me.fingerprint == mine
    return claimed_in_bundle(data).recipient == me.fingerprint


def needs_announcement(data: bytes) -> bool:
    """Whether what announces a session must lie beside a file: a party's bundle that does not hold it."""
    return data.startswith(PARTY_KIND.magic) and not claimed_in_bundle(data).announcement


def announced_to_party(
    data: bytes, members: Members, *, holder: str, at: datetime, beside: bytes = b""
) -> Announcement:
    """Return the session of a party's file, verified; nothing is opened, so that it can be shown first."""
    if is_announcement(data):
        return _open_announced(data, members, holder=holder, session=None, at=at)
    return announced_in_bundle(PARTY_KIND, data, members, holder=holder, at=at, beside=beside)[0]


def keep_for_party(
    data: bytes,
    identity: Identity,
    members: Members,
    store: KeyStore,
    *,
    holder: str,
    session: bytes | None,
    at: datetime,
    study: Study,
    grid: bytes | None = None,
    beside: bytes = b"",
) -> Announcement:
    """Open such a file as the party `identity`, once; put what the rounds need into `store`, so that no crash loses it.

    `session` is the id expected, and `grid` the manifest's (None takes any); `study` is what the party has agreed to.
    What is refused is not used up. Errors as `open_party_bundle` and `announced_to_party`, and where the plan cannot be
    read here; besides `KeysError` for another study, other thresholds, an identity that takes no part, or a file that
    was opened before, and `StoreError` where `store` has other keys of this session.
    """
    if is_announcement(data):
        announced = _open_announced(data, members, holder=holder, session=session, at=at)
        me = identity.member(members, at=at)
        announced.require_party_or_helper(me)
        if announced.helper is not None and not announced.is_helper(me.name):
            raise KeysError(
                f"{me.name!r}, a party of a session with a helper, opens the bundle that {holder!r} has made for it, "
                "with this file beside it"
            )
        bundle_id, opened = announced.manifest.session, Kept(data, int(announced.not_after.timestamp()), b"")
    else:
        bundle_id, announced, opened = open_party_bundle(
            data, identity, members, holder=holder, session=session, at=at, beside=beside
        )
    _check_plan(announced.manifest)
    if why := made_before(store, announced):
        raise KeysError(why)
    if fields := announced.study.differing(study):
        raise KeysError(f"the session's study is not the one agreed to: it differs in {', '.join(fields)}")
    if grid is not None and announced.manifest.grid != grid:
        raise KeysError(
            "the session is for other thresholds than those agreed on: the manifest is for other ones, or the session "
            "that found them has not told all parties the same"
        )
    store.keep("bundle", announced.manifest.session.hex(), opened.to_bytes(), bundle_id=bundle_id)
    return announced


def kept_for_party(
    store: KeyStore, session: bytes, identity: Identity, members: Members, *, at: datetime
) -> tuple[Announcement, bytes]:
    """Return what `keep_for_party` put into `store`, and the party's material; errors as `open_announcement`.

    It is verified again, so that nobody goes on with a session that has ended, or whose maker was revoked.
    """
    if not store.has("bundle", session.hex()):
        raise StoreError(
            f"session {session.hex()} has not been opened here: what its maker has sent has to lie beside its "
            "messages; where that is lost, its maker makes another session"
        )
    found = Kept.stored(store, session)
    if found.closed:
        raise MessageError(
            f"session {session.hex()} has been closed here: its keys are destroyed, and it answers nothing new",
            field="missed",
        )
    announced = open_announcement(found.announcement, members, holder=claimed_maker(found.announcement), at=at)
    if announced.manifest.session != session:
        raise KeysError(f"bundle/{session.hex()} is of session {announced.manifest.session.hex()}")
    if announced.manifest.keys == "sealed":
        return announced, found.material
    if announced.helper is None:
        return announced, b""
    if announced.is_helper(identity.name):
        parties = {name: member.signing_key for name, member in announced.parties.items()}
        return announced, encode(HelperMaterial(identity.keys.components, announced.helper.signing_key, parties))
    common_secret, helper = party_secrets(found.material, announced.manifest).common_secret, announced.helper
    keys = identity.keys.components, helper.signing_key, helper.encryption_key
    return announced, encode(HelpedSecrets(*keys, common_secret))


def verify_kept(store: KeyStore, session: bytes, identity: Identity, members: Members, *, at: datetime) -> None:
    """Raise where `identity`, a party or helper, could not go on with a session that was opened, by whatever holder."""
    announced, material = kept_for_party(store, session, identity, members, at=at)
    announced.require_party_or_helper(identity.member(members, at=at))
    _check_plan(announced.manifest)
    if announced.manifest.keys == "sealed":
        party_secrets(material, announced.manifest)


def _open_announced(data: bytes, members: Members, *, holder: str, session: bytes | None, at: datetime) -> Announcement:
    """Return a session without a key holder; `holder` convenes it."""
    announced = open_announcement(data, members, holder=holder, at=at)
    announced.require_session(session, "document")
    if announced.manifest.keys == "sealed":
        raise KeysError("the session's keys are made by a key holder: open its bundle instead")
    return announced


def _check_plan(manifest: Manifest) -> None:
    """Raise where the session's protocol is installed and refuses its plan, or its library cannot be imported."""
    try:
        protocol = registry.load(manifest.protocol)
    except UnknownProtocolError:  # a site may take in what another of its machines evaluates
        return
    plan = protocol.plan_of(manifest)
    if plan is not None and plan.parameters is not None:
        choose_backend(plan.parameters.backend)

"""A session's files at a party or a helper: how they are taken in, opened once, kept, and read from then on.

The announcement, and beside it a bundle, if the role has any: where nothing is encrypted the announcement is all that
there is, as for a helper. A party of a session with a helper has a bundle with the common secret in it, one with sealed
keys the secret key and a seed besides. While no person is there, sessions of studies are opened that the site has
agreed to (`policy`).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path

from fhe_auc.base.errors import FheAucError, MessageError, UnknownProtocolError
from fhe_auc.base.names import HELPER
from fhe_auc.base.serialise import encode
from fhe_auc.exchange.exchange import file_of, told
from fhe_auc.machines.answers import said as answered
from fhe_auc.machines.file_transport import ANNOUNCEMENT
from fhe_auc.machines.site_state import Arrived, Meeting, Newest
from fhe_auc.rlwe.ring_parameters import choose_backend
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.announcement import Announcement, claimed, open_announcement
from fhe_auc_keys.bundles.sealed_bundles import Kept, check_bundle, open_for_party
from fhe_auc_keys.bundles.session_keys import party_secrets
from fhe_auc_keys.errors import KeysError, StoreError
from fhe_auc_keys.roles.helped import HelpedSecrets
from fhe_auc_keys.roles.helper import HelperMaterial
from fhe_auc_keys.site.policy import RefusedByPersonError, Site, TooSoonError, admit
from fhe_auc_keys.site.restored import close_all, made_before
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import own_identity


def take_in(
    store: KeyStore,
    session: bytes,
    files: Mapping[str, bytes],
    begun: Newest,
    own: Iterable[bytes],
    *,
    results: Path | None,
    at: datetime,
) -> Arrived:
    """Open a session that is for this party, new, and what an agreed study makes, from its maker's `files`.

    Say what was done; `own` is as of `SiteStorage.take_in`, `results` the party's folder of them. What is wrong is
    told, not raised, and nothing is used up; `OSError` is of the store.
    """
    if store.has("bundle", session.hex()):
        return _opened(store, session)
    identity, members = own_identity(store), known_members.stored(store)
    me = identity.member(members, at=at)
    document, bundle, met = files.get(ANNOUNCEMENT, b""), files.get(f"{file_of(me.name)}.bundle", b""), None
    try:
        if store.has_opened(session):
            raise KeysError("it was opened before, and is not here any more: ask for a new session")
        if not document:
            return Arrived("waits", f"waits for {ANNOUNCEMENT}")
        said = claimed(document)
        if me.name not in (*said.manifest.parties, said.helper):
            return Arrived("passed over", "for others")
        announced = open_announcement(document, members, at=at)
        if announced.manifest.session != session:
            raise KeysError(f"it is of session {announced.manifest.session.hex()}, and lies in the place of another")
        if announced.deals_to(me.name):
            if not bundle:
                return Arrived("waits", "waits for this party's bundle")
            check_bundle(bundle, announced, me, members, at=at)
        protection, author = announced.protection(identity), HELPER if announced.is_helper(me.name) else me.name
        if not made_before(store, announced) and any(answered(answer, session, author, protection) for answer in own):
            close_all(store, f"it has answered in session {session.hex()} before", at=at)
        met = meeting(document)
        if why := made_before(store, announced):  # before anything counts as answered
            return Arrived("late", why, met)
        number = begun(met, protection)
        if number > 1 and not announced.is_helper(me.name):  # to open it would spend the study's turn
            return Arrived(
                "late",
                f"round {number} has begun, and {me.name!r} was not there for the first: the session goes on without "
                f"it. There is nothing to do here; to count {me.name!r}, its maker makes another session",
                met,
            )
        admit(store, announced, Site(results, members.by_name, announced.is_helper(me.name)), document, at=at)
        keep_for_party(document, bundle, store, at=at)
        return _opened(store, session)
    except RefusedByPersonError as error:
        return Arrived("late", str(error), met)
    except TooSoonError as error:
        return Arrived("waits", str(error), met)
    except FheAucError as error:
        return Arrived("REFUSED", told(error), met)


def _opened(store: KeyStore, session: bytes) -> Arrived:
    manifest = claimed(Kept.stored(store, session).announcement).manifest
    caps = {} if manifest.study is None else manifest.study.row_caps
    missed = [name for name in manifest.parties if caps and name not in caps]
    return Arrived("opened", meeting=meeting_of(store, session), caps=", ".join(missed))


def meeting(document: bytes) -> Meeting:
    """Return who meets in a session, by its announcement, which was verified."""
    said = claimed(document)
    begins = datetime.fromtimestamp(said.not_before, timezone.utc)
    series = () if said.manifest.study is None else said.manifest.study.series
    return Meeting(said.manifest.session, said.aggregator, begins, said.not_after, said.helper, series, said.maker)


def meeting_of(store: KeyStore, session: bytes) -> Meeting:
    """Return the same of a session that was opened; errors as `KeyStore.load`."""
    return meeting(Kept.stored(store, session).announcement)


def keep_for_party(document: bytes, bundle: bytes, store: KeyStore, *, at: datetime) -> Announcement:
    """Open a session as the party or helper whose `store` it is, once; put what the rounds need there, for any crash.

    `bundle` lies beside the announcement `document`, and is empty for who has none. What is refused is not used up.
    Errors as `open_announcement` and `open_for_party`, and where the plan cannot be read here; besides `KeysError` for
    an identity that takes no part, or a session that was opened before.
    """
    identity, members, material = own_identity(store), known_members.stored(store), b""
    announced = open_announcement(document, members, at=at)
    announced.require_party(identity.member(members, at=at))
    if announced.deals_to(identity.name):
        material = open_for_party(bundle, announced, identity, members, at=at)
    _check_plan(announced.manifest)
    if why := made_before(store, announced):
        raise KeysError(why)
    session = announced.manifest.session
    with store.together():
        store.register(session)
        Kept(document, int(announced.not_after.timestamp()), material).keep(store, session)
    return announced


def kept_for_party(store: KeyStore, session: bytes, *, at: datetime) -> tuple[Announcement, bytes]:
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
    identity, announced = own_identity(store), open_announcement(found.announcement, known_members.stored(store), at=at)
    if announced.manifest.session != session:
        raise KeysError(f"bundle/{session.hex()} is of session {announced.manifest.session.hex()}")
    helper = announced.helper
    if helper is None:
        return announced, found.material
    if announced.is_helper(identity.name):
        parties = {name: member.signing_key for name, member in announced.parties.items()}
        return announced, encode(HelperMaterial(identity.keys.components, helper.signing_key, parties))
    common_secret = party_secrets(found.material, announced.manifest).common_secret
    keys = identity.keys.components, helper.signing_key, helper.encryption_key
    return announced, encode(HelpedSecrets(*keys, common_secret))


def verify_kept(store: KeyStore, session: bytes, *, at: datetime) -> None:
    """Raise where the party or helper whose store it is could not go on with a session that was opened."""
    announced, material = kept_for_party(store, session, at=at)
    announced.require_party(own_identity(store).member(known_members.stored(store), at=at))
    _check_plan(announced.manifest)
    if announced.manifest.keys == "sealed":
        party_secrets(material, announced.manifest)


def _check_plan(manifest: Manifest) -> None:
    """Raise where the session's protocol is installed and refuses its plan, or its library cannot be imported."""
    try:
        protocol = registry.load(manifest.protocol)
    except UnknownProtocolError:  # a site may take in what another of its machines evaluates
        return
    plan = protocol.plan_of(manifest)
    if plan is not None and plan.parameters is not None:
        choose_backend(plan.parameters.backend)

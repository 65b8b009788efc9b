"""What becomes of sessions that arrive while no person is there, by the studies that the site has agreed to."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from fhe_auc.base.errors import FheAucError
from fhe_auc.base.exchange import file_of, told
from fhe_auc.base.names import HELPER
from fhe_auc.machines.answers import said
from fhe_auc.machines.file_transport import ANNOUNCEMENT
from fhe_auc.machines.site_state import Arrived, Meeting, Newest
from fhe_auc_keys.bundles import announcement
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.bundles.sealed_bundles import PARTY_KIND, Kept, claimed_in_bundle
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site.agreed_studies import RefusedByPersonError, Site, TooSoonError, admit
from fhe_auc_keys.site.restored import close_all, made_before
from fhe_auc_keys.site.session_files import (
    announced_to_party,
    announcement_in,
    claimed_id,
    claimed_maker,
    is_announcement,
    is_for,
    keep_for_party,
    needs_announcement,
)
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Member, Members

_OTHERS = Arrived("passed over", "for another party, or for other keys")


class Role(NamedTuple):
    """Who takes sessions in, in its open store."""

    store: KeyStore
    identity: Identity
    members: Members
    me: Member
    site: Site


def take_in(
    session: bytes, files: Mapping[str, bytes], role: Role, begun: Newest, own: Iterable[bytes], *, at: datetime
) -> Arrived:
    """Open a session that is for this party, new, and what an agreed study makes, from its maker's `files`.

    Say what was done; `own` is as of `SiteStorage.take_in`. What is wrong is told, not raised, and nothing is used up;
    `OSError` is of the store.
    """
    store, identity, members, me, site = role
    if store.has("bundle", session.hex()):
        return _opened(store, session)
    beside, met = files.get(ANNOUNCEMENT, b""), None
    data = files.get(f"{file_of(me.name)}.bundle", beside)
    try:
        known_by = claimed_id(data)
        if known_by and store.has_opened(known_by):
            raise KeysError("it was opened before, and is not here any more: ask for a new session")
        if data.startswith(PARTY_KIND.magic) and claimed_in_bundle(data).recipient != me.fingerprint:
            raise KeysError(f"it is not for the keys that {me.name!r} has now: ask for a new session")
        if needs_announcement(data) and not beside:
            return Arrived("waits", f"waits for {ANNOUNCEMENT}")
        if not known_by and not is_announcement(data):
            raise KeysError("not for a party: remove it")
        holder = claimed_maker(beside or data)
        given: dict[str, Any] = {"holder": holder, "at": at, "beside": beside}
        if data is beside and announcement.claimed(beside).manifest.keys == "sealed":
            return Arrived("waits", "waits for this party's bundle") if _names(beside, me) else _OTHERS
        announced = announced_to_party(data, members, **given)
        if announced.manifest.session != session:
            raise KeysError(f"it is of session {announced.manifest.session.hex()}, and lies in the place of another")
        if data is beside and announced.helper is not None and not announced.is_helper(me.name) and _names(beside, me):
            return Arrived("waits", "waits for this party's bundle")
        if not is_for(data, announced, me):
            return _OTHERS
        protection, author = announced.protection(identity), HELPER if announced.is_helper(me.name) else me.name
        if any(said(answer, session, author, protection) for answer in own):
            close_all(store, f"it has answered in session {session.hex()} before", at=at)
        met = meeting(announced)
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
        admit(store, announced, site, announcement_in(data, beside), at=at)
        keep_for_party(data, identity, members, store, session=session, study=announced.study, **given)
        return _opened(store, session)
    except RefusedByPersonError as error:
        return Arrived("late", str(error), met)
    except TooSoonError as error:
        return Arrived("waits", str(error), met)
    except FheAucError as error:
        return Arrived("REFUSED", told(error), met)


def _names(document: bytes, me: Member) -> bool:
    """Whether an announcement says that a member of this name is a party."""
    return me.name in announcement.claimed(document).manifest.parties


def meeting(announced: Announcement) -> Meeting:
    """Return who meets in a session that was verified."""
    helper = "" if announced.helper is None else announced.helper.name
    times, study = (announced.not_before, announced.not_after), announced.study.series
    return Meeting(announced.manifest.session, announced.aggregator.name, *times, helper, study, announced.holder.name)


def meeting_of(store: KeyStore, session: bytes) -> Meeting:
    """Return who meets in a session that was opened; errors as `KeyStore.load`."""
    document = Kept.stored(store, session).announcement
    said = announcement.claimed(document)
    begins = datetime.fromtimestamp(said.not_before, said.not_after.tzinfo)
    series = () if said.manifest.study is None else said.manifest.study.series
    return Meeting(session, said.aggregator, begins, said.not_after, said.helper, series, claimed_maker(document))


def _opened(store: KeyStore, session: bytes) -> Arrived:
    manifest = announcement.claimed(Kept.stored(store, session).announcement).manifest
    caps = {} if manifest.study is None else manifest.study.row_caps
    missed = [name for name in manifest.parties if caps and name not in caps]
    return Arrived("opened", meeting=meeting_of(store, session), caps=", ".join(missed))

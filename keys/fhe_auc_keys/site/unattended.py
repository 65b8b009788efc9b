"""What becomes of sessions that arrive while no person is there, by the studies that the site has agreed to."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path

from fhe_auc.base.errors import FheAucError
from fhe_auc.base.names import HELPER
from fhe_auc.exchange.exchange import file_of, told
from fhe_auc.machines.answers import said as answered
from fhe_auc.machines.file_transport import ANNOUNCEMENT
from fhe_auc.machines.site_state import Arrived, Meeting, Newest
from fhe_auc_keys.bundles.announcement import claimed, open_announcement
from fhe_auc_keys.bundles.sealed_bundles import Kept, check_bundle
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site.policy import RefusedByPersonError, Site, TooSoonError, admit
from fhe_auc_keys.site.restored import close_all, made_before
from fhe_auc_keys.site.session_files import keep_for_party
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
        keep_for_party(document, bundle, identity, members, store, at=at)
        return _opened(store, session)
    except RefusedByPersonError as error:
        return Arrived("late", str(error), met)
    except TooSoonError as error:
        return Arrived("waits", str(error), met)
    except FheAucError as error:
        return Arrived("REFUSED", told(error), met)


def meeting(document: bytes) -> Meeting:
    """Return who meets in a session, by its announcement, which was verified."""
    said = claimed(document)
    begins = datetime.fromtimestamp(said.not_before, timezone.utc)
    series = () if said.manifest.study is None else said.manifest.study.series
    names = said.helper, series, said.maker
    return Meeting(said.manifest.session, said.aggregator, begins, said.not_after, *names)


def meeting_of(store: KeyStore, session: bytes) -> Meeting:
    """Return the same of a session that was opened; errors as `KeyStore.load`."""
    return meeting(Kept.stored(store, session).announcement)


def _opened(store: KeyStore, session: bytes) -> Arrived:
    manifest = claimed(Kept.stored(store, session).announcement).manifest
    caps = {} if manifest.study is None else manifest.study.row_caps
    missed = [name for name in manifest.parties if caps and name not in caps]
    return Arrived("opened", meeting=meeting_of(store, session), caps=", ".join(missed))

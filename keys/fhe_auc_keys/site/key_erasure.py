"""Erases what sessions were opened with, once their result is there or their time is over.

bundle    once the result is there, the secret key, the common secret and the seed go; with the end all of it goes
state     once the time is over, the bytes that answered last go; whose rows counted, and how many, stays
opened    stays: a session opens once, whatever has become of it

A clock may be wrong for days. So nothing is erased on one look at it: the first that finds a session past its end is
written down in the key store, and the end counts once a look finds that `APART` ago. By then a session
that lasts no longer than that has ended, however far the clock is ahead, if it was not set further ahead meanwhile; and
one that is set right again shows, as it is behind the first look, which is forgotten. A look from before the session
can have begun tells nothing: so looks a clock that starts in the past at each boot.
"""

from contextlib import suppress
from datetime import datetime, timedelta, timezone

import msgspec

from fhe_auc.base.serialise import KeptFormat
from fhe_auc.machines.answers import without_secrets
from fhe_auc_keys.bundles.announcement import MAX_LIFETIME, claimed
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.errors import DamagedFileError, KeysError, StoreError, VersionError
from fhe_auc_keys.store.key_store import KeyStore, session_ids
from fhe_auc_keys.store.vault import OWN
from fhe_auc_keys.trust.identity import Identity

APART = timedelta(days=8)
"""From the first look at the clock that finds a session past its end, to the one that erases its keys."""

ENDS = "ends"  # name of the entry, of the kind "trust"
_FORMAT = KeptFormat[dict[str, int]](b"fheends", dict[str, int], "list of ended sessions")  # Unix seconds, by id


def end(store: KeyStore, session: bytes) -> datetime:
    """Return until when a session can go on; errors as `is_closed`."""
    return datetime.fromtimestamp(_kept(store, session).not_after, timezone.utc)


def _kept(store: KeyStore, session: bytes) -> Kept:
    if not store.has("bundle", session.hex()):
        raise StoreError(f"the key store has no session {session.hex()}: `fhe-auc keys show` lists them")
    return Kept.stored(store, session)


def noted_ends(store: KeyStore) -> dict[str, datetime]:
    """Return, by id, when the clock first said that a session had ended; nothing where the entry is damaged.

    Then the end is seen anew, and nobody who goes on with other sessions is kept from that. Raise `StoreError` where
    the entry is of another version of fhe-auc.
    """
    with suppress(DamagedFileError):
        return check(store)
    return {}


def check(store: KeyStore) -> dict[str, datetime]:
    """Return the same; errors as `KeyStore.load`, also where it is damaged."""
    noted = store.load("trust", ENDS, _FORMAT) if store.has("trust", ENDS) else {}
    return {name: datetime.fromtimestamp(first, timezone.utc) for name, first in noted.items()}


def note_ends(store: KeyStore, *, at: datetime) -> frozenset[bytes]:
    """Look at the clock, and write down which sessions it is the first to find past their end; return those that count.

    What a look later than `at`, the present, has found does not count any more, unless `at` is from before the session.
    Entries that cannot be read are left for ``keys check`` to tell.
    """
    before = noted_ends(store)
    there = session_ids(store, "bundle")
    still = {name: first for name, first in before.items() if bytes.fromhex(name) in there}
    noted = {name: first for name, first in still.items() if first <= at or _is_before(store, name, at)}
    for session in there:
        with suppress(StoreError):
            if session.hex() not in noted and at > end(store, session):
                noted[session.hex()] = at
    if noted != before:
        seconds = {name: int(first.timestamp()) for name, first in noted.items()}
        store.put("trust", ENDS, _FORMAT.frame(seconds), replace=True)
    return frozenset(bytes.fromhex(name) for name, first in noted.items() if at - first >= APART)


def _is_before(store: KeyStore, name: str, at: datetime) -> bool:
    """Return whether a session of that id cannot have begun, by its end and the longest lifetime."""
    with suppress(StoreError):
        return at < end(store, bytes.fromhex(name)) - MAX_LIFETIME
    return False


def is_closed(store: KeyStore, session: bytes) -> bool:
    """Return whether nothing is left of a session that decrypts; errors as `KeyStore.load`."""
    return _kept(store, session).closed


def is_of_this_version(store: KeyStore, session: bytes) -> bool:
    """Return whether this version of fhe-auc could go on with a session; errors as `KeyStore.load`."""
    try:
        claimed(_kept(store, session).announcement)
    except VersionError:
        return False
    return True


def destroy_keys(store: KeyStore, session: bytes, *, has_result: bool) -> None:
    """Destroy what opens a session as a party, and remember whether the site has its result; there may be nothing.

    Copies of the store that were made before, and what a disk has not overwritten, still hold it, encrypted.
    """
    if store.has("bundle", session.hex()):
        found = Kept.stored(store, session)
        if not found.closed:
            msgspec.structs.replace(found, material=b"", closed=True, has_result=has_result).keep(store, session)


def close_ended(store: KeyStore, *, at: datetime) -> None:
    """Erase all that is left of sessions whose time is over (`note_ends`), but for whose rows counted."""
    for session in note_ends(store, at=at):
        with suppress(StoreError), store.together():  # what is damaged is for ``keys check`` to tell
            name = session.hex()
            if store.has("state", name):
                store.put("state", name, without_secrets(store.get("state", name), answer=False), replace=True)
            store.remove("bundle", name)


def close(store: KeyStore, session: bytes, *, lose_result: bool = False) -> None:
    """Destroy all that a store could go on with in a session.

    The bytes that answered last stay until the session has ended, for those who still ask. Raises `KeysError`, which
    says what is lost, where there is no result yet, and `lose_result` is not set.
    """
    ends, name = end(store, session), session.hex()
    if not (lose_result or is_closed(store, session)):
        lost = (
            "the session cannot go on without this helper"
            if _is_helped_by(store, session)
            else "this site gets no result of it, and where all must answer nobody does"
        )
        raise KeysError(
            f"session {name} can go on until {ends:%Y-%m-%d %H:%M} UTC: if it is closed now, {lost}; --lose-result "
            "closes it all the same"
        )
    with store.together():
        destroy_keys(store, session, has_result=False)
        if store.has("state", name):
            store.put("state", name, without_secrets(store.get("state", name), answer=True), replace=True)


def _is_helped_by(store: KeyStore, session: bytes) -> bool:
    """Whether the store is that of the session's helper; of one of another version nobody can say."""
    with suppress(VersionError):
        manifest = claimed(_kept(store, session).announcement).manifest
        own = Identity.from_bytes(store.get("identity", OWN))
        return manifest.keys == "helper" and own.name not in manifest.parties
    return False

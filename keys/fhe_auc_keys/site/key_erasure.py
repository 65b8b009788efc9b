"""Erases what sessions were opened with, once their result is there or their time is over.

bundle    once the result is there, the secret key, the common secret and the seed go; with the end all of it goes
state     once the time is over, the bytes that answered last go; whose rows counted, and how many, stays
opened    stays: a session opens once, whatever has become of it

A clock may be wrong for days. So nothing is erased on one look at it: the first that finds a session past its end is
written down with the session, and the end counts once a look finds that `APART` ago. By then a session
that lasts no longer than that has ended, however far the clock is ahead, if it was not set further ahead meanwhile; and
one that is set right again shows, as it is behind the first look, which is forgotten. A look from before the session
can have begun tells nothing: so looks a clock that starts in the past at each boot.
"""

from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from fhe_auc.machines.answers import without_secrets
from fhe_auc_keys.bundles.announcement import MAX_LIFETIME, claimed
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.errors import KeysError, StoreError, VersionError
from fhe_auc_keys.store.key_store import KeyStore, session_ids
from fhe_auc_keys.store.vault import own_identity

APART = timedelta(days=8)
"""From the first look at the clock that finds a session past its end, to the one that erases its keys."""


def note_ends(store: KeyStore, *, at: datetime) -> list[bytes]:
    """Look at the clock, and write down which sessions it is the first to find past their end; return those that count.

    What a look later than `at`, the present, has found does not count any more, unless `at` is from before the session
    can have begun. Entries that cannot be read are left for ``keys show --check`` to tell.
    """
    ended, now = list[bytes](), int(at.timestamp())
    for session in session_ids(store, "bundle"):
        with suppress(StoreError):
            kept = Kept.stored(store, session)
            seen = kept.end_seen
            if seen > now and at >= kept.ends - MAX_LIFETIME:
                seen = 0
            if not seen and now > kept.not_after:
                seen = now
            if seen != kept.end_seen:
                msgspec.structs.replace(kept, end_seen=seen).keep(store, session)
            if seen and now - seen >= APART.total_seconds():
                ended.append(session)
    return ended


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
        with suppress(StoreError), store.together():  # what is damaged is for ``keys show --check`` to tell
            name = session.hex()
            if store.has("state", name):
                store.put("state", name, without_secrets(store.get("state", name), answer=False), replace=True)
            store.remove("bundle", name)


def close(store: KeyStore, session: bytes, *, lose_result: bool = False) -> None:
    """Destroy all that a store could go on with in a session.

    The bytes that answered last stay until the session has ended, for those who still ask. Raises `KeysError`, which
    says what is lost, where there is no result yet, and `lose_result` is not set.
    """
    name = session.hex()
    if not store.has("bundle", name):
        raise StoreError(f"the key store has no session {name}: `fhe-auc keys show` lists them")
    kept = Kept.stored(store, session)
    if not (lose_result or kept.closed):
        lost = "this site gets no result of it, and where all must answer nobody does"
        with suppress(VersionError):  # of one of another version nobody can say whose helper this is
            manifest = claimed(kept.announcement).manifest
            if manifest.keys == "helper" and own_identity(store).name not in manifest.parties:
                lost = "the session cannot go on without this helper"
        raise KeysError(
            f"session {name} can go on until {kept.ends:%Y-%m-%d %H:%M} UTC: if it is closed now, {lost}; "
            "--lose-result closes it all the same"
        )
    with store.together():
        destroy_keys(store, session, has_result=False)
        if store.has("state", name):
            store.put("state", name, without_secrets(store.get("state", name), answer=True), replace=True)

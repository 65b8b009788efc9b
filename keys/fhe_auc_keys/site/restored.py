"""A key store that was put back to an older one: how that is noticed, and what becomes of it.

It would open sessions again and submit twice under one pad, and its ledger lacks what was spent since. Two things show
it: ``store.count`` in the role's state folder, which goes into no backup of the store, has the number of the store's
changes, which commands may have made up for meanwhile, and the last line of its audit trail, which every submission
adds to; and in the exchange lie answers that the role has signed (`fhe_auc.machines.answers`). Then all sessions are
closed, and of those that were made before none is opened any more, whatever the clock says; new ones go on. The store
remembers that it had a count: where that is gone, or another folder is configured, it may have been put back, too.

Nobody notices where a whole machine was put back, beside an exchange that hides its answers.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from fhe_auc.base.files import write_atomically
from fhe_auc.base.serialise import KeptFormat
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.errors import StoreError
from fhe_auc_keys.site.key_erasure import destroy_keys
from fhe_auc_keys.site.policy import note_restored
from fhe_auc_keys.store import audit, budget, known_members
from fhe_auc_keys.store.key_store import KeyStore, Record, session_ids
from fhe_auc_keys.store.vault import own_identity

NAME = "restored"  # of the entry, of the kind "trust"
COUNT = "store.count"


class _Restored(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    at: int  # when that was noticed, Unix seconds
    why: str
    settled: bool = False  # whether a session has ended since


_NOTE = Record[_Restored | None](
    "trust", NAME, KeptFormat[_Restored | None](b"fherest", _Restored, "note of a restored key store"), None
)


@contextmanager
def watched(store: KeyStore, folder: Path | None, *, at: datetime) -> Iterator[None]:
    """Compare a store with the count in a role's state folder, and bring that up to date when the context ends."""
    if folder is None:
        yield
        return
    file, why, had_count = folder / COUNT, "", store.has("trust", COUNT)
    before, lines, seen, digest = -1, 0, 0, _digest(store, 0)
    with suppress(OSError, ValueError):  # it is not there, or damaged
        before, lines, seen, digest = map(int, file.read_bytes().split())
    if before > store.count:
        why = f"it was changed {before:,} times, and this one only {store.count:,} times"
    elif digest != _digest(store, lines):
        why = f"line {lines:,} of its audit trail is not here"
    elif before < 0 and had_count:
        why = f"{str(file)!r}, which tells how often it was changed, is lost or damaged"
    if why:
        close_all(store, why, at=at, latest=seen)
    try:
        yield
    finally:
        if store.count != before:
            with suppress(OSError):  # with a lower count it notices less, and goes on
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _write(file, store, at)
                if not had_count:
                    store.put("trust", COUNT, b"")
                    _write(file, store, at)


def _write(file: Path, store: KeyStore, at: datetime) -> None:
    told = store.count, store.lines, int(at.timestamp()), _digest(store, store.lines)
    write_atomically(file, b"%d %d %d %d\n" % told, mode=0o600)


def _digest(store: KeyStore, number: int) -> int:
    return int.from_bytes(hashlib.sha256(store.line(number)).digest(), "big")


def close_all(store: KeyStore, why: str, *, at: datetime, latest: int = 0) -> None:
    """Close all sessions of a store that was put back, and write down that it was, and since when that is known.

    `latest` is when the store was changed last, as far as that is known, in Unix seconds: a clock may be behind it.
    """
    with store.together():
        for session in session_ids(store, "bundle"):
            with suppress(StoreError):  # what is damaged opens nothing
                destroy_keys(store, session, has_result=False)
        since = max(int(at.timestamp()), latest)
        _NOTE.keep(store, _Restored(since, why))
        note_restored(store, at=datetime.fromtimestamp(since, timezone.utc))
        budget.note_restored(store)
        if store.has("trust", known_members.NAME):
            audit.append_line(store, own_identity(store), "restored", at=at, why=why)


def made_before(store: KeyStore, announced: Announcement) -> str:
    """Say that a session may have been opened before the store was put back; "" where it was not."""
    found = _NOTE.stored(store)
    if found is None or announced.not_before.timestamp() > found.at:
        return ""
    return (
        f"this key store was put back to an older one ({found.why}), and may have opened this session before: only "
        "sessions made after that was noticed are opened; ask for a new one"
    )


def settle(store: KeyStore) -> None:
    """Write down that a session has ended: all is well again."""
    found = _NOTE.stored(store)
    if found is not None and not found.settled:
        _NOTE.keep(store, msgspec.structs.replace(found, settled=True))


def warning(store: KeyStore) -> str:
    """Say that the store was put back, for as long as no session has ended since, or a budget is in doubt."""
    found = _NOTE.stored(store)
    if found is None or (found.settled and not budget.LEDGER.stored(store).restored):
        return ""
    since = datetime.fromtimestamp(found.at, timezone.utc)
    return (
        f"the key store was put back to an older one ({found.why}), as was noticed on {since:%Y-%m-%d %H:%M} UTC: "
        "sessions that were made before are closed, and new ones go on"
        + ("; `fhe-auc keys budget --reconcile` once it is known what was spent" if found.settled else "")
    )

"""Who a site knows to be in its consortium, as its key store keeps it: the members' file of every version."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_text
from fhe_auc.base.serialise import KeptFormat
from fhe_auc_keys.errors import StoreError, UnsignedError, about
from fhe_auc_keys.store.key_store import KeyStore, Record
from fhe_auc_keys.trust.members import MAX_BYTES, Members
from fhe_auc_keys.trust.published import Published

NAME = "members"  # of the entry


class _Stored(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    files: tuple[bytes, ...]


_RECORD = Record("trust", NAME, KeptFormat(b"fhememb", _Stored, "members' files"), _Stored(()))


def stored(store: KeyStore) -> Members:
    """Return a key store's members; `StoreError` where it has none yet, `DamagedFileError` where they are malformed."""
    members = known(store)
    if members is None:
        raise StoreError("this key store knows no consortium yet: `fhe-auc join LINK NAME` takes part in one")
    return members


def known(store: KeyStore) -> Members | None:
    """Return the same, or None where there are none yet."""
    files = _RECORD.stored(store).files
    return Members(files) if files else None


def keep(store: KeyStore, members: Members) -> None:
    """Put them into a key store, in place of those of an earlier version."""
    _RECORD.keep(store, _Stored(members.files))


def newest(store: KeyStore, members: Members) -> Members:
    """Return them, or those that a store has where these are as new; `InputError` for another consortium's there."""
    there = known(store)
    if there is not None and there.root != members.root:
        raise InputError(f"{str(store.directory)!r} is of another consortium: give another --folder")
    return members if there is None or there.version < members.version else there


def renewed(store: KeyStore, published: Published, own: str, *, everywhere: bool = False) -> Members:
    """Return a store's members, after taking all newer versions that lie in the exchange into it.

    `own` is whose store it is; the rest as `Published.newest`.
    """
    before = stored(store)
    members = published.newest(before, own=own, everywhere=everywhere)
    if members.version > before.version:
        keep(store, members)
    return members


def in_folder(folder: Path) -> Members:
    """Return the members' files in a folder (1.json, …); whose they are, only a look at their fingerprint tells.

    Raises `InputError` where there are none, otherwise as `Members.newer`.
    """
    members = Members(())
    with suppress(FileNotFoundError, UnsignedError):
        while True:
            name = f"{members.version + 1}.json"
            with about(name):
                members = members.newer(read_text(folder / name, MAX_BYTES))
    if not members.version:
        raise InputError(f"there is no 1.json in {str(folder)!r}, the first members' file", file=str(folder))
    return members

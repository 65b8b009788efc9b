"""Who a site knows to be in its consortium, as its key store keeps it: the members' file of every version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.exchange import Exchange
from fhe_auc.base.files import read_from_others
from fhe_auc.base.serialise import KeptFormat
from fhe_auc_keys.errors import StoreError, UnsignedError, about, unreadable
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.members import MAX_BYTES, Members, fingerprint

NAME = "members"  # of the entry
FOLDER = "members/"  # in the exchange


class _Stored(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    files: tuple[bytes, ...]


_FORMAT = KeptFormat(b"fhememb", _Stored, "members' files")


def file_of(version: int) -> str:
    """Return the name in the exchange of the members' file of a version."""
    return f"{FOLDER}{version}.json"


def stored(store: KeyStore) -> Members:
    """Return a key store's members; `StoreError` where it has none yet, `DamagedFileError` where they are malformed."""
    members = known(store)
    if members is None:
        raise StoreError("this key store knows no consortium yet: `fhe-auc join LINK NAME` takes part in one")
    return members


def known(store: KeyStore) -> Members | None:
    """Return the same, or None where there are none yet."""
    if not store.has("trust", NAME):
        return None
    try:
        return Members(_FORMAT.unframe(store.get("trust", NAME)).files)
    except DeserialisationError as error:
        raise unreadable(error, f"trust/{NAME} is malformed; restore it from the backup") from None


def keep(store: KeyStore, members: Members) -> None:
    """Put them into a key store, in place of those of an earlier version."""
    store.put("trust", NAME, _FORMAT.frame(_Stored(members.files)), replace=True)


def newest(store: KeyStore, members: Members) -> Members:
    """Return them, or those that a store has where these are as new; `InputError` for another consortium's there."""
    there = known(store)
    if there is not None and there.root != members.root:
        raise InputError(f"{str(store.directory)!r} is of another consortium: give another --folder")
    return members if there is None or there.version < members.version else there


def renewed(store: KeyStore, exchange: Exchange) -> Members:
    """Return a store's members, after taking all newer versions that lie in the exchange into it.

    One that lacks signatures may get them yet, and is passed over. Raises as `Members.newer` and `Exchange.read` for
    what is no next version; those before it are kept.
    """
    before = members = stored(store)
    try:
        for newer in _newer(members, lambda name: exchange.read(name, MAX_BYTES)):
            members = newer
    finally:
        if members is not before:
            keep(store, members)
    return members


def joined(exchange: Exchange, root: bytes) -> Members:
    """Return the members in an exchange, all versions, of the consortium whose first file has the fingerprint `root`.

    Raises `InputError` where there are none, otherwise as `Members.begin` and `renewed`.
    """
    try:
        members = Members.begin(exchange.read(file_of(1), MAX_BYTES), root)
    except FileNotFoundError:
        raise InputError(f"there is no {file_of(1)} in {exchange}: is that the exchange of the link?") from None
    for newer in _newer(members, lambda name: exchange.read(name, MAX_BYTES)):
        members = newer
    return members


def in_folder(folder: Path) -> Members:
    """Return the members' files in a folder (1.json, …); whose they are, only a look at their fingerprint tells.

    Raises `InputError` where there are none, otherwise as `joined`.
    """

    def read(name: str) -> bytes:
        return read_from_others(folder / name.removeprefix(FOLDER), MAX_BYTES)

    try:
        first = read(file_of(1))
    except FileNotFoundError:
        raise InputError(f"there is no 1.json in {str(folder)!r}, the first members' file", file=str(folder)) from None
    members = Members.begin(first, fingerprint(first))
    for newer in _newer(members, read):
        members = newer
    return members


def _newer(members: Members, read: Callable[[str], bytes]) -> Iterator[Members]:
    while True:
        name = file_of(members.version + 1)
        try:
            with about(name):
                members = members.newer(read(name))
        except (FileNotFoundError, UnsignedError):
            return
        yield members

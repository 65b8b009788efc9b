"""A key store: one SQLite file in a folder of its own, encrypted under a passphrase, that a site backs up as a whole.

    header    scrypt's salt and cost, and a tag that tells a wrong passphrase from a damaged store
    entry     kind, name, and nonce | ChaCha20-Poly1305 with these as associated data; `state` is a site's of a session,
              `fleet` what a fleet's helper has opened, or its aggregator added up, `list` whose submissions an
              aggregator has asked about, `opened` that a session was opened
    trail     lines of the owner's audit trail, signed and not encrypted (`audit`)

Every entry has a key of its own, derived from the passphrase's by HKDF with kind and name, and a fresh nonce each time.
What encryption cannot show is a whole store put back to an older one: how often it was changed (`count`), and what
others have seen since, do. Beside it, serve.lock is locked while a process serves with the store (`serving`).
"""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from filelock import lock_descriptor

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.files import TEMPORARY, open_descriptor
from fhe_auc.base.serialise import KeptFormat, encode
from fhe_auc.session.manifest import SESSION_BYTES
from fhe_auc_keys.errors import DamagedFileError, KeysError, LockedError, StoreError, unreadable
from fhe_auc_keys.store.database import Database, require_private

Kind = Literal["budget", "bundle", "fleet", "identity", "list", "made", "opened", "state", "trust"]
_LOG2_COST = 10  # log2 of scrypt's n, with r = 8 and p = 1 (RFC 7914): of 256 random bits there is nothing to stretch

_LOG2_COSTS = range(10, 21)  # a header from elsewhere must not ask for all memory there is
_TABLES = """create table header(data blob not null);
create table entry(kind text not null, name text not null, data blob not null, primary key(kind, name)) without rowid;
create table trail(number integer primary key, line blob not null)"""

STORE = "store.sqlite"
"""The file in a key store's folder."""

SERVED = "serve.lock"

_SALT_BYTES, _NONCE_BYTES = 16, 12
_SESSION = re.compile(f"[0-9a-f]{{{2 * SESSION_BYTES}}}")
T = TypeVar("T")


class _StoreHeader(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    log2_cost: int
    salt: bytes
    tag: bytes  # ChaCha20-Poly1305 of nothing, under a key of its own


_FORMAT = KeptFormat(b"fhestor", _StoreHeader, "key store header")


class KeyStore(Database):
    """An open, locked key store; use it as a context manager.

    `directory` was made by `create`. The passphrase is not kept; the key derived from it is, until the store is closed.
    In place of the passphrase, `key` of an earlier opening opens the store at once.
    Raises `StoreError` where there is no key store, or one of another format version, or the passphrase does not fit,
    or it is on a network drive; `LockedError` where another process has it open, for all of `patience` (seconds);
    `UnsafeModeError` where somebody else than the owner can read or write it; `DamagedFileError` where it is damaged.
    """

    def __init__(self, directory: Path, passphrase: str | bytes, *, patience: float = 0.0) -> None:
        self.directory = Path(directory)
        if not is_in(self.directory):
            raise StoreError(f"no key store in {str(directory)!r}")
        self._key = b""
        super().__init__(self.directory / STORE, patience=patience)
        try:
            headers = self.rows("select data from header")
            self._key = _unlocked(headers[0][0] if headers else b"", passphrase)
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, directory: Path, passphrase: str) -> KeyStore:
        """Make an empty key store in a new or empty directory and open it; `passphrase` is 256 random bits, as text.

        What an interrupted call has left there (a full disk, a power cut) is taken for an empty directory. Raises
        `StoreError` where the directory is a file or not empty, or the passphrase empty or not text; otherwise as the
        class.
        """
        directory, log2_cost = Path(directory), _LOG2_COST
        salt = secrets.token_bytes(_SALT_BYTES)
        root = _stretch(passphrase, salt, log2_cost)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            require_private(directory, folder=True)
            if any(not entry.name.startswith(TEMPORARY) for entry in directory.iterdir()):
                raise FileExistsError
        except FileExistsError:
            raise StoreError(f"{str(directory)!r} is not empty; a key store is made in a new directory") from None
        header = _FORMAT.frame(_StoreHeader(log2_cost, salt, _tag(root, log2_cost, salt)))
        Database.make(directory / STORE, _TABLES, header=(header,))
        return cls(directory, root)

    @property
    def key(self) -> bytes:
        """The key derived from the passphrase, for who opens the store again in the same process."""
        self.rows("select 1")  # raises where it has been closed
        return self._key

    def close(self) -> None:
        """Release the lock; the store cannot be used afterwards."""
        super().close()
        self._key = b""

    def put(self, kind: Kind, name: str, data: bytes, *, replace: bool = False) -> None:
        """Encrypt and write an entry; `StoreError` where it is there, unless `replace`."""
        encrypted, insert = _encrypted(self._key, kind, name, data), "insert or replace" if replace else "insert"
        try:
            self.change(f"{insert} into entry values (?, ?, ?)", kind, name, encrypted)
        except sqlite3.IntegrityError:
            raise StoreError(f"the key store has a {kind} {name!r} already") from None

    def remove(self, kind: Kind, name: str) -> None:
        """Delete an entry; raise `StoreError` where there is none."""
        if not self.change("delete from entry where kind = ? and name = ?", kind, name):
            raise StoreError(f"the key store has no {kind}/{name}")

    def has(self, kind: Kind, name: str) -> bool:
        """Return whether there is an entry of that name."""
        return bool(self.rows("select 1 from entry where kind = ? and name = ?", kind, name))

    def get(self, kind: Kind, name: str) -> bytes:
        """Return an entry; `StoreError` where there is none, `DamagedFileError` for damage or another entry's data."""
        for (data,) in self.rows("select data from entry where kind = ? and name = ?", kind, name):
            return _decrypted(self._key, kind, name, data)
        raise StoreError(f"the key store has no {kind}/{name}")

    def load(self, kind: Kind, name: str, form: KeptFormat[T], advice: str = "") -> T:
        """Return what an entry holds in that format; errors as `get`, with `advice` where it is of another kind."""
        try:
            return form.unframe(self.get(kind, name))
        except DeserialisationError as error:
            raise unreadable(error, f"{kind}/{name}: {error}{advice}") from None

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Return the names of all entries of a kind, sorted."""
        return tuple(name for (name,) in self.rows("select name from entry where kind = ? order by 1", kind))

    def strangers(self) -> tuple[str, ...]:
        """Return the files and folders beside the store that no command has put there, sorted."""
        own = (STORE, f"{STORE}-journal", SERVED)
        return tuple(sorted(entry.name for entry in self.directory.iterdir() if entry.name not in own))

    def register(self, session: bytes) -> None:
        """Remember for good that a session was opened; raise `KeysError` where it was before."""
        if self.has_opened(session):
            raise KeysError(f"session {session.hex()} has been opened before")
        self.put("opened", session.hex(), b"")

    def has_opened(self, session: bytes) -> bool:
        """Return whether a session was opened."""
        return self.has("opened", session.hex())

    def add_line(self, line: bytes) -> None:
        """Add a line to the owner's audit trail."""
        self.change("insert into trail(line) values (?)", line)

    def trail(self) -> list[bytes]:
        """Return the lines of the audit trail."""
        return [line for (line,) in self.rows("select line from trail order by number")]

    def line(self, number: int) -> bytes:
        """Return a line of the audit trail, the first of which is 1; empty where there is none."""
        lines = self.rows("select line from trail where number = ?", number)
        return lines[0][0] if lines else b""

    @property
    def lines(self) -> int:
        """How many lines the audit trail has."""
        return int(self.rows("select coalesce(max(number), 0) from trail")[0][0])


@dataclass(frozen=True)
class Record(Generic[T]):
    """A value of which a key store has one."""

    kind: Kind
    name: str
    form: KeptFormat[T]
    empty: T  # what it is until something is kept

    def stored(self, store: KeyStore) -> T:
        """Return the value; `DamagedFileError` where it cannot be read, `StoreError` for another version's."""
        if not store.has(self.kind, self.name):
            return self.empty
        return store.load(self.kind, self.name, self.form, "; restore it from the backup")

    def keep(self, store: KeyStore, value: T) -> None:
        """Put a value in place of the one that is there; the same one changes nothing."""
        if value != self.stored(store):
            store.put(self.kind, self.name, self.form.frame(value), replace=True)


def session_ids(store: KeyStore, *kinds: Kind) -> tuple[bytes, ...]:
    """Return the sessions that a store has entries of these kinds for, which bear their ids as names, sorted."""
    names = sorted({name for kind in kinds for name in store.names(kind)})
    return tuple(bytes.fromhex(name) for name in names if _SESSION.fullmatch(name))


def is_in(directory: Path) -> bool:
    """Return whether a key store is there."""
    return os.path.lexists(directory / STORE)


def _stretch(passphrase: str, salt: bytes, log2_cost: int) -> bytes:
    # The same characters, typed on another system, may come in another normal form.
    try:
        typed = unicodedata.normalize("NFC", passphrase).encode()
    except UnicodeEncodeError:  # it carries the passphrase
        typed = b""
    if not typed:
        raise StoreError("the passphrase is empty, or not text")
    return Scrypt(salt=salt, length=32, n=2**log2_cost, r=8, p=1).derive(typed)


def _subkey(root: bytes, kind: str, name: str) -> ChaCha20Poly1305:
    info = b"fhe-auc key store 1\0" + encode((kind, name))
    return ChaCha20Poly1305(HKDF(hashes.SHA256(), 32, None, info).derive(root))


def _tag(root: bytes, log2_cost: int, salt: bytes) -> bytes:
    # A fixed nonce is safe: this key encrypts nothing but this one empty text.
    return _subkey(root, "header", "").encrypt(bytes(_NONCE_BYTES), b"", encode((log2_cost, salt)))


def _unlocked(data: bytes, passphrase: str | bytes) -> bytes:
    try:
        header = _FORMAT.unframe(data)
    except DeserialisationError as error:
        raise unreadable(error, f"{error}; restore it from the backup") from None
    if header.log2_cost not in _LOG2_COSTS or len(header.salt) != _SALT_BYTES:
        raise DamagedFileError("the key store's header is malformed; restore it from the backup")
    known = isinstance(passphrase, bytes)
    root = passphrase if isinstance(passphrase, bytes) else _stretch(passphrase, header.salt, header.log2_cost)
    if not secrets.compare_digest(_tag(root, header.log2_cost, header.salt), header.tag):
        raise StoreError(
            "the key store has been exchanged since it was opened first: start this process again"
            if known
            else "the passphrase is not this key store's"
        )
    return root


def _encrypted(root: bytes, kind: str, name: str, data: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + _subkey(root, kind, name).encrypt(nonce, data, encode((kind, name)))


def _decrypted(root: bytes, kind: str, name: str, data: bytes) -> bytes:
    try:
        return _subkey(root, kind, name).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], encode((kind, name)))
    except (InvalidTag, ValueError):
        raise DamagedFileError(f"{kind}/{name} is damaged, or another entry's; restore it from the backup") from None


@contextmanager
def serving(directory: Path) -> Iterator[None]:
    """Be the process that serves with a key store, which others may open meanwhile; `LockedError` where one does."""
    require_private(directory, folder=True)
    descriptor = open_descriptor(directory / SERVED, os.O_RDWR | os.O_CREAT)
    try:
        if not lock_descriptor(descriptor, blocking=False):
            raise LockedError(
                f"another `fhe-auc serve` has the key store {str(directory)!r}: one process plays all that a store is "
                "for, a site's also the key holder's part"
            )
        yield
    finally:
        os.close(descriptor)

"""A key store: one directory that a site can back up as a whole, encrypted under a passphrase.

    store.header               scrypt's salt and cost, and a tag that tells a wrong passphrase from a damaged file
    <kind>/<name>              nonce | ChaCha20-Poly1305, with kind and name as associated data; `state` is a site's
                               of a session; `fleet` what a fleet's helper has opened; `list` whose submissions an
                               aggregator has asked about
    seen/bundles               ids of the bundles opened so far
    lock                       locked while a process has the store open
    audit.jsonl, audit.lock    the owner's audit trail, not encrypted (`audit`), and its lock
    serve.lock                 locked while a process serves with the store (`serving`)

Every file has a key of its own, derived from the passphrase's by HKDF with kind and name, and a fresh nonce each time.
What encryption cannot show is a whole file put back to an older version, the list of seen bundles too.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Literal, TypeVar, get_args

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from filelock import lock_descriptor

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.files import TEMPORARY, is_private, open_descriptor, write_atomically
from fhe_auc.base.serialise import KeptFormat, encode
from fhe_auc.session.manifest import SESSION_BYTES
from fhe_auc_keys.errors import DamagedFileError, KeysError, LockedError, StoreError, UnsafeModeError, unreadable

Kind = Literal["budget", "bundle", "fleet", "identity", "list", "made", "state", "trust"]
SCRYPT_LOG2_COST = 17  # log2 of scrypt's n: 128 MB and about half a second, with r = 8 and p = 1 (RFC 7914)

_LOG2_COSTS = range(10, 21)  # a header from elsewhere must not ask for all memory there is
_KINDS: tuple[Kind, ...] = get_args(Kind)
MAGIC = b"fhestor"  # first bytes of a key store's header

_HEADER, _LOCK = "store.header", "lock"
TRAIL, TRAIL_LOCK = "audit.jsonl", "audit.lock"
"""The file of a store that is not encrypted: its owner's audit trail (`audit`); and its lock."""

SERVED = "serve.lock"

_SEEN, _BUNDLES = "seen", "bundles"
_SALT_BYTES, _NONCE_BYTES = 16, 12
_MAX_NAME_BYTES = 200
_PAUSE = 0.1  # seconds between looks at a lock
_SESSION = re.compile(f"[0-9a-f]{{{2 * SESSION_BYTES}}}")
T = TypeVar("T")


class _StoreHeader(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    log2_cost: int
    salt: bytes
    tag: bytes  # ChaCha20-Poly1305 of nothing, under a key of its own


_FORMAT = KeptFormat(MAGIC, _StoreHeader, "key store header")
_SEEN_FORMAT = KeptFormat[tuple[bytes, ...]](b"fheseen", tuple[bytes, ...], "list of opened bundles")


class KeyStore(AbstractContextManager["KeyStore"]):
    """An open, locked key store; use it as a context manager.

    `directory` was made by `create`. The passphrase is not kept; the key derived from it is, until the store is closed.
    In place of the passphrase, `key` of an earlier opening opens the store at once.
    Raises `StoreError` where there is no key store, or one of another format version, or the passphrase does not fit;
    `LockedError` where another process has it open, for all of `patience` (seconds); `UnsafeModeError` where somebody
    else than the owner can read or write it; `DamagedFileError` for a damaged header.
    """

    def __init__(self, directory: Path, passphrase: str | bytes, *, patience: float = 0.0) -> None:
        self.directory = Path(directory)
        if not is_in(self.directory):
            raise StoreError(f"no key store in {str(directory)!r}")
        self._lock = _locked(self.directory, patience)
        try:
            self._key = _unlocked(_read(self.directory / _HEADER), passphrase)
            for folder in (self.directory / each for each in (*_KINDS, _SEEN)):
                if folder.name in _KINDS and not os.path.lexists(folder):
                    folder.mkdir(mode=0o700)  # some backups leave out what is empty
                _check_directory(folder)
                _tidy(folder)
            _tidy(self.directory)
        except BaseException:
            os.close(self._lock)
            raise

    @classmethod
    def create(cls, directory: Path, passphrase: str, *, log2_cost: int = SCRYPT_LOG2_COST) -> KeyStore:
        """Make an empty key store in a new or empty directory and open it.

        What an interrupted call has left there (a full disk, a power cut) is taken for an empty directory. `log2_cost`
        is log2 of scrypt's n; ValueError unless it is 10 to 20.

        Raises `StoreError` where the directory is a file or not empty, or the passphrase empty or not text;
        `DamagedFileError` where a key store without its header is there; `UnsafeModeError` as the class.
        """
        if log2_cost not in _LOG2_COSTS:
            raise ValueError(f"log2_cost must lie between {_LOG2_COSTS[0]} and {_LOG2_COSTS[-1]}, got {log2_cost}")
        directory = Path(directory)
        salt = secrets.token_bytes(_SALT_BYTES)
        root = _stretch(passphrase, salt, log2_cost)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_directory(directory)
            _clear_unfinished(directory)
            for each in (*_KINDS, _SEEN):
                (directory / each).mkdir(mode=0o700)
        except FileExistsError:
            raise StoreError(f"{str(directory)!r} is not empty; a key store is made in a new directory") from None
        _write(directory / _SEEN / _BUNDLES, _encrypted(root, _SEEN, _BUNDLES, _SEEN_FORMAT.frame(())))
        _write(directory / _HEADER, _FORMAT.frame(_StoreHeader(log2_cost, salt, _tag(root, log2_cost, salt))))
        return cls(directory, passphrase)

    def __repr__(self) -> str:
        return f"<KeyStore {str(self.directory)!r}>"

    @property
    def key(self) -> bytes:
        """The key derived from the passphrase, for who opens the store again in the same process."""
        self._check_open()
        return self._key

    def __reduce__(self) -> str:
        raise TypeError("an open key store is not pickled")

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock; the store cannot be used afterwards."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock, self._key = -1, b""

    def put(self, kind: Kind, name: str, data: bytes, *, replace: bool = False) -> None:
        """Encrypt and write an entry, whole whatever crashes; `StoreError` where it is there, unless `replace`."""
        if not replace and self._has(kind, name):
            raise StoreError(f"the key store has a {kind} {name!r} already")
        _write(self._path(kind, name), _encrypted(self._key, kind, name, data))

    def remove(self, kind: Kind, name: str) -> None:
        """Delete an entry; raise `StoreError` where there is none, or for what cannot be a name."""
        if not self._has(kind, name):
            raise StoreError(f"the key store has no {kind}/{name}")
        self._path(kind, name).unlink()

    def get(self, kind: Kind, name: str) -> bytes:
        """Return an entry; `StoreError` where there is none, `DamagedFileError` for damage or another entry's file."""
        return _decrypted(self._key, kind, name, _read(self._path(kind, name)))

    def load(self, kind: Kind, name: str, form: KeptFormat[T], advice: str = "") -> T:
        """Return what an entry holds in that format; errors as `get`, with `advice` where it is of another kind."""
        try:
            return form.unframe(self.get(kind, name))
        except DeserialisationError as error:
            raise unreadable(error, f"{kind}/{name}: {error}{advice}") from None

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Return the names of all entries of a kind, sorted."""
        self._path(kind, "any")
        return tuple(sorted(each.name for each in (self.directory / kind).iterdir() if each.name[0] != "."))

    def strangers(self) -> tuple[str, ...]:
        """Return the files and folders in the store that no command has put there, from its own folder on, sorted."""
        self._check_open()
        found = (each.relative_to(self.directory) for each in self.directory.rglob("*"))
        return tuple(sorted(str(each) for each in found if not self._is_own(each)))

    def _is_own(self, path: Path) -> bool:
        match path.parts:
            case [top]:
                return top in (*_KINDS, _SEEN, _HEADER, _LOCK, SERVED, TRAIL, TRAIL_LOCK)
            case [top, name] if top in _KINDS:
                return _is_fit(name)
            case _:
                return path.parts == (_SEEN, _BUNDLES)

    def register(self, bundle_id: bytes) -> None:
        """Remember an opened bundle for good; raise `KeysError` where it is known already."""
        seen = _SEEN_FORMAT.frame((*self._unseen(bundle_id), bundle_id))
        _write(self.directory / _SEEN / _BUNDLES, _encrypted(self._key, _SEEN, _BUNDLES, seen))

    def keep(self, kind: Kind, name: str, data: bytes, *, bundle_id: bytes) -> None:
        """Put what an opened bundle held, and remember the bundle for good: a crash in between loses nothing.

        The entry is written first. A crash after that leaves the bundle unregistered, so that it can be opened again;
        it then finds its own entry, and only has to be registered.

        Raise `KeysError` where the bundle has been opened before; `StoreError` where the entry is there from another
        bundle, which is neither overwritten nor used up, or the name cannot be a file's.
        """
        self._unseen(bundle_id)
        if not self._has(kind, name):
            self.put(kind, name, data)
        elif self.get(kind, name) != data:
            raise StoreError(f"the key store has another {kind} {name!r} already, from another bundle")
        self.register(bundle_id)

    def opened_bundles(self) -> tuple[bytes, ...]:
        """Return the ids of all bundles opened so far; `DamagedFileError` where the list cannot be read."""
        self._check_open()
        data = _decrypted(self._key, _SEEN, _BUNDLES, _read(self.directory / _SEEN / _BUNDLES))
        try:
            return _SEEN_FORMAT.unframe(data)
        except DeserialisationError as error:
            raise unreadable(error, "the key store's list of opened bundles is malformed") from None

    def _unseen(self, bundle_id: bytes) -> tuple[bytes, ...]:
        """Return the ids seen so far; raise `KeysError` where `bundle_id` is one of them."""
        seen = self.opened_bundles()
        if bundle_id in seen:
            raise KeysError(f"bundle {bundle_id.hex()} has been opened before")
        return seen

    def _has(self, kind: Kind, name: str) -> bool:
        return os.path.lexists(self._path(kind, name))

    def _path(self, kind: str, name: str) -> Path:
        self._check_open()
        if kind not in _KINDS:
            raise StoreError(f"a key store has no kind {kind!r}, only {', '.join(_KINDS)}")
        if not _is_fit(name):
            raise StoreError(
                f"{name[:40]!a} is no name for an entry: letters, digits, blanks and ._@-, no blank or dot at an end"
            )
        return self.directory / kind / name

    def _check_open(self) -> None:
        if self._lock < 0:
            raise LockedError("the key store has been closed")


def session_ids(store: KeyStore, *kinds: Kind) -> tuple[bytes, ...]:
    """Return the sessions that a store has entries of these kinds for, which bear their ids as names, sorted."""
    names = sorted({name for kind in kinds for name in store.names(kind)})
    return tuple(bytes.fromhex(name) for name in names if _SESSION.fullmatch(name))


def is_in(directory: Path) -> bool:
    """Return whether a key store is there: it is, from the moment its header is."""
    return os.path.lexists(directory / _HEADER)


def _is_fit(name: str) -> bool:
    allowed = all(each.isalnum() or each in " ._@-" for each in name)
    fits = 0 < len(name.encode(errors="replace")) <= _MAX_NAME_BYTES and name == unicodedata.normalize("NFC", name)
    return allowed and fits and name[0] not in " ." and name[-1] not in " ."


def _tidy(folder: Path) -> None:
    """Remove what processes that died while writing have left."""
    for left_over in folder.glob(f"{TEMPORARY}*"):
        left_over.unlink()


def _clear_unfinished(directory: Path) -> None:
    """Remove what `create` leaves where it is interrupted; raise `FileExistsError` where there is anything else."""
    _tidy(directory)
    found = {each.name for each in directory.iterdir()}
    if found - {*_KINDS, _SEEN, _LOCK}:
        raise FileExistsError
    folders = [directory / name for name in sorted(found - {_LOCK})]
    for folder in folders:
        _check_directory(folder)
        _tidy(folder)
    if _LOCK in found or any(each.name != _BUNDLES for folder in folders for each in folder.iterdir()):
        raise DamagedFileError(
            f"{str(directory)!r} holds a key store without its {_HEADER}; restore it from the backup"
        )
    for folder in folders:  # the list of bundles, where it is there, is empty: nothing opens one without a header
        (folder / _BUNDLES).unlink(missing_ok=True)
        folder.rmdir()


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
        raise DamagedFileError(
            f"{kind}/{name} is damaged, or another entry's file; restore it from the backup"
        ) from None


def _locked(directory: Path, patience: float) -> int:
    descriptor = _opened(directory / _LOCK, os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + patience
    while not lock_descriptor(descriptor, blocking=False):
        if time.monotonic() >= deadline:
            os.close(descriptor)
            waited = f", and has not closed it within {patience:g} s" if patience else ""
            raise LockedError(f"another process has the key store {str(directory)!r} open{waited}")
        time.sleep(_PAUSE)
    return descriptor


@contextmanager
def serving(directory: Path) -> Iterator[None]:
    """Be the process that serves with a key store, which others may open meanwhile; `LockedError` where one does."""
    descriptor = _opened(directory / SERVED, os.O_RDWR | os.O_CREAT)
    try:
        if not lock_descriptor(descriptor, blocking=False):
            raise LockedError(
                f"another `fhe-auc serve` has the key store {str(directory)!r}: one process plays all that a store is "
                "for, a site's also the key holder's part"
            )
        yield
    finally:
        os.close(descriptor)


def _check_directory(path: Path) -> None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        raise DamagedFileError(f"{str(path)!r} is missing; restore it from the backup") from None
    _check_mode(path, status, stat.S_ISDIR)


def _check_mode(path: Path, status: os.stat_result, right_kind: Callable[[int], bool]) -> None:
    if not right_kind(status.st_mode):
        raise UnsafeModeError(f"{str(path)!r} is a link, or of an odd kind")
    if not is_private(status):
        raise UnsafeModeError(
            f"{str(path)!r} belongs to another user, or is open to others: run chmod -R go= on the key store"
        )


def _opened(path: Path, flags: int) -> int:
    """Return a descriptor of a plain file in a directory that nobody else can change."""
    _check_directory(path.parent)
    try:
        descriptor = open_descriptor(path, flags)
    except FileNotFoundError:
        raise StoreError(f"the key store has no {path.parent.name}/{path.name}") from None
    except OSError as error:
        raise UnsafeModeError(f"{str(path)!r} cannot be opened as a plain file: {error.strerror}") from None
    try:
        _check_mode(path, os.fstat(descriptor), stat.S_ISREG)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _read(path: Path) -> bytes:
    with os.fdopen(_opened(path, os.O_RDONLY), "rb") as file:
        return file.read()


def _write(path: Path, data: bytes) -> None:
    _check_directory(path.parent)
    write_atomically(path, data, mode=0o600, durable=True)

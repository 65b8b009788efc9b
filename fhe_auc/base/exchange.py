"""Where messages between roles lie: an `Exchange`, such as a `Folder` that several users write into.

Nothing rests on it: what is in it may be anything, and goes when others want it to. What is made there is open to all
who can reach it, as it is sealed, or public and signed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import quote

from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.base.files import LONGEST, TEMPORARY, read_from_others, write_atomically
from fhe_auc.base.logs import RoleLog, one_line

SHARED = 0o644
"""The mode of what is sealed, or public and signed: whoever may read the folder may read it, whatever the umask is."""

_LONGEST_NAME = 200  # bytes; file systems take 255

Version: TypeAlias = tuple[int, ...]
"""Differs once contents differ, and is greater later: it may save a read, and never decides that a file is good."""

T = TypeVar("T")


def make_folder(folder: Path, *, inside: bool = False) -> None:
    """Make a folder, and those above it, with the group of the one above, and open to all to whom that is open.

    What else it is open to the umask says, unless it is `inside` an exchange, where it is as that is, and nothing above
    it is made; a link there is refused by `InputError`. A folder that is there stays as it is. Raises `OSError` where
    it cannot be made.
    """
    if inside and folder.is_symlink():
        raise InputError(f"{str(folder)!r} is a link, where a folder should be: remove it")
    if folder.is_dir():
        return
    if not inside:
        make_folder(folder.parent)
    temporary = folder.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    temporary.mkdir(mode=0o700 if inside else 0o777)
    try:
        above = folder.parent.stat()
        mode = stat.S_IMODE(above.st_mode) | 0o700 | stat.S_IMODE(temporary.stat().st_mode)
        if sys.platform != "win32":
            with suppress(OSError):  # not in that group
                os.chown(temporary, -1, above.st_gid)
            if temporary.stat().st_gid != above.st_gid:  # what that group may do, this one may not
                mode = mode & ~0o2070 | (mode & 0o007) << 3
        temporary.chmod(mode)
        temporary.rename(folder)
    except OSError as error:
        temporary.rmdir()
        if not folder.is_dir():  # another process may have made it
            raise OSError(error.errno, error.strerror, os.fspath(folder)) from None


def _is_own(folder: Path) -> bool:
    """Whether a folder is this user's; on Windows, which does not tell, it is."""
    return sys.platform == "win32" or folder.stat().st_uid == os.geteuid()


def place_of(name: str) -> str:
    """Return the place that a member alone writes into: its name, with what file systems do not take as %XX."""
    return f"{_quoted(name)}/"


def _quoted(name: str) -> str:
    quoted = quote(name, safe=" ").replace(".", "%2E")
    return quoted if len(quoted) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


class Exchange(ABC):
    """Files by name, such as "NIGHT/round-1/north.submission"; a `place` is "", or the beginning of a name up to a "/".

    As text it is what people know it by.
    """

    @abstractmethod
    def list(self, place: str) -> dict[str, Version]:
        """Return what lies directly in a place; the names of places end with "/".

        The version of a place changes when a file directly in it comes or goes. Raises `OSError`, such as
        `FileNotFoundError` where there is no such place and places are made.
        """

    @abstractmethod
    def read(self, name: str, longest: int = LONGEST) -> bytes:
        """Return a file's contents; `OSError` as ever, `InputError` where it is longer, or is no file."""

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Write a file as a whole, in place of another; `OSError`, or `InputError` where others prevent it.

        A name that ends with "/" prepares a place that others put files into.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, which need not be there."""


class Folder(Exchange):
    """The exchange in a folder, which is made when needed only with `make`."""

    def __init__(self, root: Path, *, make: bool = False) -> None:
        self.root, self._make = root, make

    def __str__(self) -> str:
        return os.fspath(self.root)

    def list(self, place: str) -> dict[str, Version]:
        """List a folder."""
        listed: dict[str, Version] = {}
        with os.scandir(self._path(f"{place}?").parent if place else self.root) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    listed[entry.name + "/" * entry.is_dir(follow_symlinks=False)] = _state_of(entry)
        return listed

    def read(self, name: str, longest: int = LONGEST) -> bytes:
        """Read a file that is neither a link nor a device."""
        return read_from_others(self._path(name), longest, plain=True)

    def put(self, name: str, data: bytes) -> None:
        """Write a file, to the disk; the folders on the way are made."""
        path = self._inside(name)
        self.prepare(path.parent)
        if not name.endswith("/"):
            write_atomically(path, data, mode=SHARED, durable=True)
        elif _is_own(path.parent):  # another owner may not be in the group that ours would be open to: sites make it
            make_folder(path, inside=True)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        """Return where a name lies; `NotADirectoryError` for a link on the way, which others may lead anywhere."""
        path = self._inside(name)
        for folder in path.parents:
            if folder == self.root:
                break
            if folder.is_symlink():
                raise NotADirectoryError(errno.ENOTDIR, "a link, where a folder should be", str(folder))
        return path

    def _inside(self, name: str) -> Path:
        if ".." in name.split("/"):
            raise InputError(f"{name!r} leads out of {str(self)!r}")
        return self.root / name

    def prepare(self, folder: Path) -> None:
        """Make a folder in this one; errors as of `make_folder`."""
        if folder != self.root:
            self.prepare(folder.parent)
            make_folder(folder, inside=True)
        elif self._make:
            make_folder(folder)


def open_exchange(where: str) -> Exchange:
    """Return the exchange in a folder, or at a URL."""
    return Folder(Path(where))


class Arrivals:
    """What others put into an exchange, as one role sees it: each file is read once until it changes, never waited for.

    `skipped` says by name why a file does not count; that is logged, too, once. `had` is for `forward`: the names of
    files that were there, or have been copied there.
    """

    def __init__(self, exchange: Exchange, log: RoleLog | None = None) -> None:
        self.exchange = exchange
        self.skipped: dict[str, str] = {}
        self.had: set[str] = set()
        self._log = log
        self._listed: dict[str, Version] = {}  # at the last look
        self._read: dict[str, Version] = {}  # as it was when it was read
        self._seen: dict[str, Version] = {}  # as it was when it should have been read last
        self._taken: dict[str, object] = {}

    def names(self, place: str = "") -> set[str]:
        """Look what is in a place, forget what was there; nothing where it cannot be read, which is named.

        The names are without the place, and without the "/" of what is none of our files.
        """
        listed: dict[str, Version] = {}
        try:
            listed = {name.rstrip("/"): version for name, version in self.exchange.list(place).items()}
            self.skipped.pop(place, None)
        except FileNotFoundError:
            pass
        except OSError as error:
            self.name(place, error.strerror or type(error).__name__)
        for name in [name for name in self._listed | self.skipped if name != place and _is_in(place, name)]:
            if name.removeprefix(place).rstrip("/") not in listed:
                self._forget(name)
        self._listed |= {f"{place}{name}": version for name, version in listed.items()}
        return set(listed)

    def shown(self, name: str) -> str:
        """Return a name, or a place, for people: on one line, with the exchange's."""
        return one_line(f"{self.exchange}/{name}".rstrip("/"))

    def read(self, name: str, longest: int = LONGEST) -> bytes | None:
        """Return a file of at most so many bytes that the last look has found; None: nothing not read before.

        A file that has changed may be growing still, so it is read once it is the same at two looks. What cannot be
        read for a reason that may pass is tried again.
        """
        if name not in self._listed:
            return None
        version = self._listed[name]
        before, self._seen[name] = self._seen.get(name), version
        if name in self._read and (self._read[name] == version or before != version):
            return None
        try:
            data = self.exchange.read(name, longest)
        except FileNotFoundError:
            self._forget(name)
            return None
        except OSError as error:
            self._read.pop(name, None)
            self.skip(name, error.strerror or type(error).__name__)
            return None
        except InputError as error:
            self._read[name] = version
            self.skip(name, str(error))
            return None
        self._read[name] = version
        self.skipped.pop(name, None)
        return data

    def take(self, name: str, parse: Callable[[bytes], T], longest: int = LONGEST) -> T | None:
        """Return what `parse` has made of a file, once; None where there is none, or `FheAucError` has been raised."""
        data = self.read(name, longest)
        if data is not None:
            try:
                self._taken[name] = parse(data)
            except FheAucError as error:
                self.skip(name, told(error))
        return self._taken.get(name)  # type: ignore[return-value] # of the same `parse`

    def _forget(self, name: str) -> None:
        for known in (self.skipped, self._listed, self._read, self._seen, self._taken):
            known.pop(name, None)

    def skip(self, name: str, why: str) -> None:
        """Have a file not count until it changes."""
        self._taken.pop(name, None)
        self.name(name, why)

    def name(self, name: str, why: str) -> None:
        """Say why a file does not count, once."""
        if self._log is not None and self.skipped.get(name) != why:
            self._log.warning("skipped %s: %s", self.shown(name), why)
        self.skipped[name] = why


def _is_in(place: str, name: str) -> bool:
    """Whether a name is that of a file directly in a place."""
    return name.startswith(place) and "/" not in name[len(place) :].rstrip("/")


def told(error: Exception) -> str:
    """Return what is wrong with a file that others have put here, and what to do where it is not whole."""
    whole = getattr(error, "field", "") not in ("length", "checksum", "format")
    return str(error) if whole else f"{error}: copy it here again"


def _state_of(file: str | os.PathLike[str]) -> tuple[int, int, int]:
    """Return what changes with a file's contents: time, inode, size; `OSError` where there is none."""
    found = os.lstat(file)
    return found.st_mtime_ns, found.st_ino, found.st_size

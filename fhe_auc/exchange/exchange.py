"""Where messages between roles lie: an `Exchange`, such as a `Folder` that several users reach.

Each member writes in a place of its own (`place_of`), and reads those of others. Nothing rests on it: what is in it may
be anything, and goes when others want it to. What is made there is open to all who can reach it, as it is sealed, or
public and signed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sized
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import quote

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.base.files import LONGEST, TEMPORARY, read_from_others, write_atomically
from fhe_auc.base.logs import RoleLog, one_line

SHARED = 0o644
"""The mode of what is sealed, or public and signed: whoever may read the folder may read it, whatever the umask is."""

_LONGEST_NAME = 200  # bytes; file systems take 255

MOST_NAMES = 10_000
"""In a place: ten times what a session of a thousand sites has. With more, who writes there could fill memories."""

Version: TypeAlias = tuple[int | str, ...]
"""Differs once contents differ: it may save a read, and never decides that a file is good."""

T = TypeVar("T")


def make_folder(folder: Path, *, inside: bool = False) -> None:
    """Make a folder, and those above it, with the group of the one above, and open to all to whom that is open.

    What else it is open to the umask says, unless it is `inside` an exchange, where it is as that is, but for others to
    read alone, and nothing above it is made; a link there is refused by `InputError`. A folder that is there stays as
    it is. Raises `OSError` where it cannot be made.
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
        temporary.chmod(mode & ~0o022 if inside else mode)
        temporary.rename(folder)
    except OSError as error:
        temporary.rmdir()
        if not folder.is_dir():  # another process may have made it
            raise OSError(error.errno, error.strerror, os.fspath(folder)) from None


def place_of(name: str) -> str:
    """Return the place that a member alone writes into: its name, with what servers may not take as it is as =XX."""
    return f"{file_of(name)}/"


MEMBERS = "members/"
"""In a coordinator's place: where it has the members' file of every version."""


def file_of(name: str) -> str:
    """Return how the name of a file for a member begins, without what it ends with."""
    quoted = quote(name, safe=" ").replace(".", "%2E").replace("%", "=")  # WebDAV takes %2E for a point
    return quoted if len(quoted) <= _LONGEST_NAME else f"=={hashlib.sha256(name.encode()).hexdigest()}"  # no name's own


class Exchange(ABC):
    """Files by name, such as "north/3f…/round-1.submission"; a `place` is "", or the beginning of a name up to a "/".

    As text it is what people know it by. `coarse` says within how many seconds a file may change twice, and have the
    same version.
    """

    coarse = 0.0

    @abstractmethod
    def list(self, place: str) -> dict[str, Version]:
        """Return what lies directly in a place; the names of places end with "/".

        Raises `OSError`, such as `FileNotFoundError` where there is no such place and places are made; `InputError` for
        more than `MOST_NAMES` (`require_few`).
        """

    @abstractmethod
    def read(self, name: str, longest: int = LONGEST) -> bytes:
        """Return a file's contents; `OSError` as ever, `InputError` where it is longer, or is no file."""

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Write a file as a whole, in place of another; `OSError`, or `InputError` where others prevent it."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, which need not be there."""


def require_few(listed: Sized, place: str) -> None:
    """Raise `InputError` where a list of names is too long."""
    if len(listed) > MOST_NAMES:
        raise InputError(f"there are more than {MOST_NAMES:,} files in {place!r}: whose place it is removes them")


class Folder(Exchange):
    """The exchange in a folder, which is never made here: where it is away, it may be a share that is not mounted."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __str__(self) -> str:
        return os.fspath(self.root)

    def list(self, place: str) -> dict[str, Version]:
        """List a folder."""
        listed: dict[str, Version] = {}
        if not self.root.is_dir():  # which is not that there is nothing yet
            raise InputError(f"there is no folder {str(self)!r}: have it mounted, or made")
        with os.scandir(self._without_links(self._inside(place))) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    version = found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size
                    listed[entry.name + "/" * entry.is_dir(follow_symlinks=False)] = version
                    require_few(listed, place)
        return listed

    def read(self, name: str, longest: int = LONGEST) -> bytes:
        """Read a file that is neither a link nor a device."""
        return read_from_others(self._path(name), longest, plain=True)

    def put(self, name: str, data: bytes) -> None:
        """Write a file, to the disk; the folders on the way are made."""
        path = self._inside(name)
        self._prepare(path.parent)
        write_atomically(path, data, mode=SHARED, durable=True)

    def remove(self, name: str) -> None:
        """Remove a file, and the folders on the way that have nothing more in them."""
        path = self._path(name)
        path.unlink(missing_ok=True)
        with suppress(OSError):
            while (path := path.parent) != self.root:
                path.rmdir()

    def _path(self, name: str) -> Path:
        """Return where a name lies; errors as of `_without_links` for the folders on the way."""
        path = self._inside(name)
        self._without_links(path.parent)
        return path

    def _without_links(self, folder: Path) -> Path:
        """Return a folder; `NotADirectoryError` for a link on the way, which others may lead anywhere."""
        for above in (folder, *folder.parents):
            if above == self.root:
                break
            if above.is_symlink():
                raise NotADirectoryError(errno.ENOTDIR, "a link, where a folder should be", str(above))
        return folder

    def _inside(self, name: str) -> Path:
        if ".." in name.split("/"):
            raise InputError(f"{name!r} leads out of {str(self)!r}")
        return self.root / name

    def _prepare(self, folder: Path) -> None:
        """Make a folder in this one; errors as of `make_folder`."""
        if folder != self.root:
            self._prepare(folder.parent)
            make_folder(folder, inside=True)


class Arrivals:
    """What lies in places of an exchange, as one role sees it: never waited for, and read until it is good.

    What does not count is read again at every look; what is good, once its version is another, or was too fresh.
    `skipped` says by name why a file does not count; that is logged, too, once. `stuck` are those of them that were the
    same at two looks (`begin`). Names that are not `wanted` are none, and are not remembered.
    """

    def __init__(
        self,
        exchange: Exchange,
        log: RoleLog | None = None,
        clock: Clock = SYSTEM,
        wanted: Callable[[str], bool] = lambda name: not name.startswith("."),
    ) -> None:
        self.exchange, self.clock = exchange, clock
        self.skipped: dict[str, str] = {}
        self._log, self._wanted = log, wanted
        self._listed: dict[str, Version] = {}  # at the last look
        self._good: dict[str, tuple[Version, float]] = {}  # as it was, and since when
        self._rested: set[str] = set()  # what is good has been read when it was old enough
        self._digests: dict[str, bytes] = {}  # of what was read last
        self._taken: dict[str, object] = {}
        self._look, self._named = 0, dict[str, int]()  # and at which one a file was skipped first

    @property
    def stuck(self) -> set[str]:
        """Files that do not count, and have not changed since the look before."""
        return {name for name in self.skipped if self._named.get(name, self._look) < self._look}

    def begin(self) -> None:
        """Begin another look."""
        self._look += 1

    def version(self, name: str) -> Version | None:
        """Return a file's version at the last look; None: it was not there."""
        return self._listed.get(name)

    def names(self, place: str) -> set[str]:
        """Look which files are in a place, forget those that were; nothing where it cannot be read, which is named.

        The names are without the place.
        """
        listed: dict[str, Version] = {}
        try:
            listed = {name: version for name, version in self.exchange.list(place).items() if self._wanted(name)}
            self.clear(place)
        except FileNotFoundError:
            pass
        except (OSError, InputError) as error:
            self.name(place, _why(error))
        for name in [name for name in self._listed | self.skipped if name != place and name.startswith(place)]:
            inside = name.removeprefix(place)
            if "/" not in inside.rstrip("/") and inside not in listed:
                self._forget(name)
        self._listed |= {f"{place}{name}": version for name, version in listed.items()}
        return set(listed)

    def shown(self, name: str) -> str:
        """Return a name, or a place, for people: on one line, with the exchange's."""
        return one_line(f"{self.exchange}/{name}".rstrip("/"))

    def read(self, name: str, longest: int = LONGEST) -> bytes | None:
        """Return a file of at most so many bytes that the last look has found; None: it is as it was read last."""
        if name not in self._listed:
            return None
        try:
            data = self.exchange.read(name, longest)
        except FileNotFoundError:
            self._forget(name)
            return None
        except (OSError, InputError) as error:
            self._digests.pop(name, None)
            self.skip(name, _why(error))
            return None
        before, digest = self._digests.get(name), hashlib.sha256(data).digest()
        self._digests[name] = digest
        if before == digest:
            return None
        if before is not None:
            self.clear(name)
        return data

    def take(self, name: str, parse: Callable[[bytes], T]) -> T | None:
        """Return what `parse` makes of a file; None where there is none, or `FheAucError` has been raised."""
        version, now = self._listed.get(name), self.clock.monotonic()
        if version is None:
            return None
        good = self._good.get(name)
        if good is None or good[0] != version or name not in self._rested:
            data = self.read(name)
            if data is not None:
                try:
                    self._taken[name] = parse(data)
                    self.clear(name)
                except FheAucError as error:
                    self.skip(name, told(error))
            if name in self._taken:
                since = good[1] if good is not None and good[0] == version else now
                self._good[name] = version, since
                if now - since >= self.exchange.coarse:
                    self._rested.add(name)
                else:
                    self._rested.discard(name)
        return self._taken.get(name)  # type: ignore[return-value] # of the same `parse`

    def again(self, name: str) -> None:
        """Have a file be read again as if it had not been."""
        for known in (self._digests, self._good, self._taken):
            known.pop(name, None)

    def _forget(self, name: str) -> None:
        for known in (self.skipped, self._listed, self._digests, self._good, self._taken, self._named):
            known.pop(name, None)

    def clear(self, name: str) -> None:
        """Have nothing be wrong with a file."""
        self.skipped.pop(name, None)
        self._named.pop(name, None)

    def skip(self, name: str, why: str) -> None:
        """Have a file not count until it changes."""
        self._taken.pop(name, None)
        self._good.pop(name, None)
        self.name(name, why)

    def name(self, name: str, why: str) -> None:
        """Say why a file does not count, once."""
        if self._log is not None and self.skipped.get(name) != why:
            self._log.warning("skipped %s: %s", self.shown(name), why)
        self.skipped[name] = why
        self._named.setdefault(name, self._look)


def _why(error: OSError | InputError) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def told(error: Exception) -> str:
    """Return what is wrong with a file that others have put here, and what to do where it is not whole."""
    whole = getattr(error, "field", "") not in ("length", "checksum", "format")
    return str(error) if whole else f"{error}: its sender puts it there again"

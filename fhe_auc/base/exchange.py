"""Folders that several users write into: what is made there is open to all; what is found there may be anything."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.base.files import LONGEST, TEMPORARY, read_from_others
from fhe_auc.base.logs import RoleLog, one_line

SHARED = 0o644
"""The mode of what is sealed, or public and signed: whoever may read the folder may read it, whatever the umask is."""

State: TypeAlias = "tuple[int, int, int]"
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


def is_own(folder: Path) -> bool:
    """Whether a folder is this user's; on Windows, which does not tell, it is."""
    return sys.platform == "win32" or folder.stat().st_uid == os.geteuid()


class Arrivals:
    """Files that others put into folders: each is read once until it changes, and never waited for.

    `skipped` says by file why it does not count; that is logged, too, once.
    """

    def __init__(self, log: RoleLog | None = None) -> None:
        self.skipped: dict[Path, str] = {}
        self._log = log
        self._read: dict[Path, State] = {}  # as it was when it was read
        self._seen: dict[Path, State] = {}  # as it was at the last look
        self._taken: dict[Path, object] = {}
        self.had: dict[str, set[Path]] = {}  # by name of a file that is forwarded, the folders that have had it

    def names(self, folder: Path) -> set[str]:
        """Return what is in a folder, and forget what was there; nothing where it cannot be read, which is named."""
        names: set[str] = set()
        try:
            names.update(os.listdir(folder))
            self.skipped.pop(folder, None)
        except FileNotFoundError:
            pass
        except OSError as error:
            self.name(folder, error.strerror or type(error).__name__)
        for each in [each for each in self._seen | self.skipped if each.parent == folder and each.name not in names]:
            self._forget(each)
        return names

    def read(self, file: Path, longest: int = LONGEST) -> bytes | None:
        """Return what is in a file of at most so many bytes; None: nothing that has not been read before.

        A file that has changed may be growing still, so it is read once it is the same at two looks. What cannot be
        read for a reason that may pass is tried again.
        """
        try:
            state = state_of(file)
            before, self._seen[file] = self._seen.get(file), state
            if (known := self._read.get(file)) is not None and (known == state or before != state):
                return None
            data = read_from_others(file, longest, plain=True)
        except FileNotFoundError:
            self._forget(file)
            return None
        except OSError as error:
            self._read.pop(file, None)
            self.skip(file, error.strerror or type(error).__name__)
            return None
        except InputError as error:
            self._read[file] = state
            self.skip(file, str(error))
            return None
        self._read[file] = state
        self.skipped.pop(file, None)
        return data

    def take(self, file: Path, parse: Callable[[bytes], T], longest: int = LONGEST) -> T | None:
        """Return what `parse` has made of a file, once; None where there is none, or `FheAucError` has been raised."""
        data = self.read(file, longest)
        if data is not None:
            try:
                self._taken[file] = parse(data)
            except FheAucError as error:
                self.skip(file, told(error))
        return self._taken.get(file)  # type: ignore[return-value] # of the same `parse`

    def _forget(self, file: Path) -> None:
        for each in (self.skipped, self._read, self._seen, self._taken):
            each.pop(file, None)

    def skip(self, file: Path, why: str) -> None:
        """Have a file not count until it changes."""
        self._taken.pop(file, None)
        self.name(file, why)

    def name(self, file: Path, why: str) -> None:
        """Say why a file does not count, once."""
        if self._log is not None and self.skipped.get(file) != why:
            self._log.warning("skipped %s: %s", one_line(str(file)), why)
        self.skipped[file] = why


def told(error: Exception) -> str:
    """Return what is wrong with a file that others have put here, and what to do where it is not whole."""
    whole = getattr(error, "field", "") not in ("length", "checksum", "format")
    return str(error) if whole else f"{error}: copy it here again"


def state_of(file: str | os.PathLike[str]) -> State:
    """Return what changes with a file's contents: inode, size, time; `OSError` where there is none."""
    found = os.lstat(file)
    return found.st_ino, found.st_size, found.st_mtime_ns

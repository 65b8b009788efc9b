"""A private SQLite file that one process has open at a time: what is written together is there as a whole, or not.

SQLite's locks do not hold on network drives: where Linux says that a file is on one, it is refused. What is deleted is
overwritten in the file.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from fhe_auc.base.files import TEMPORARY, is_private, sync_folder
from fhe_auc_keys.errors import DamagedFileError, LockedError, StoreError, UnsafeModeError

D = TypeVar("D", bound="Database")

_REMOTE = {"afs", "cifs", "fuse.davfs", "fuse.rclone", "fuse.sshfs", "nfs", "nfs4", "smb3", "smbfs"}
_MOUNTS = Path("/proc/self/mountinfo")
_ERRORS = {"full": errno.ENOSPC, "I/O error": errno.EIO, "readonly": errno.EROFS, "unable to open": errno.EACCES}

# Extra: what was committed is there after a power cut. A bundle must not open twice, since an answer may have left.
# In the mode of one process a lock for reading is kept while the other one is waited for: two who open a file at one
# moment would keep each other out until their patience ends. So the mode comes last.
_OPENING = """pragma synchronous=extra; pragma secure_delete=on; pragma trusted_schema=off;
begin exclusive; pragma locking_mode=exclusive; commit"""


class Database:
    """An open, locked SQLite file, which must be there; a context manager.

    `LockedError` where another process has it open for all of `patience` (seconds), or it has been closed;
    `UnsafeModeError` where others can read or change it; `StoreError` on a network drive; `DamagedFileError`, later
    too, where it is damaged, and `OSError` where it cannot be read or written.
    """

    def __init__(self, path: Path, *, patience: float = 0.0) -> None:
        require_private(path.parent, folder=True)
        require_private(path)
        _require_local(path)
        self.path, self._depth = path, 0
        self._waited = f", and has not closed it within {patience:g} s" if patience else ""
        self._connection: sqlite3.Connection | None = sqlite3.connect(path, timeout=patience, isolation_level=None)
        try:
            with self._failing():
                self._connection.executescript(_OPENING)
        except BaseException:
            self.close()
            raise

    @classmethod
    def make(cls, path: Path, tables: str, **first: tuple[object, ...]) -> None:
        """Make a file with these tables and a first row in some, whole whatever crashes; errors as of the class.

        Its folder is private, and has no such file.
        """
        temporary = path.with_name(f"{TEMPORARY}{path.name}")
        for left_over in path.parent.glob(f"{temporary.name}*"):
            left_over.unlink()
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            with cls(temporary) as made, made.together():
                for table in tables.split(";"):
                    made.change(table)
                for table, row in first.items():
                    made.change(f"insert into {table} values ({', '.join('?' * len(row))})", *row)  # noqa: S608 - ours
            temporary.rename(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)

    def __enter__(self: D) -> D:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Unlock the file; done twice, it does nothing."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return what a query yields, as tuples."""
        with self._failing():
            return self._opened.execute(query, values).fetchall()

    def change(self, statement: str, *values: object) -> int:
        """Change something, in a transaction of its own or in that of `together`; return how many rows it was."""
        with self.together(), self._failing():
            return self._opened.execute(statement, values).rowcount

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let all that is changed in a context be kept as a whole, or not at all; inside another, it is part of that.

        `OSError`, where it ends, if that cannot be written: nothing of it is kept then.
        """
        connection = self._opened
        if self._depth:
            yield
            return
        with self._failing():
            connection.execute("begin immediate")
        self._depth, before = 1, connection.total_changes
        try:
            yield
            if connection.total_changes != before:
                with self._failing():
                    connection.execute(f"pragma user_version={self.count + 1}")
                    commit(connection)
        finally:
            self._depth = 0
            if connection.in_transaction:
                connection.rollback()

    @property
    def count(self) -> int:
        """How many transactions have changed the file."""
        return int(self.rows("pragma user_version")[0][0])

    @property
    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise LockedError("the key store has been closed")
        return self._connection

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Raise, for errors of SQLite, what the class says; on Python 3.10 their text alone tells them apart."""
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as error:
            why = str(error)
            if "is locked" in why:
                where = str(self.path.parent)
                raise LockedError(f"another process has the key store {where!r} open{self._waited}") from None
            for text, number in _ERRORS.items():
                if text in why:
                    raise OSError(number, why, str(self.path)) from None
            raise DamagedFileError(f"{str(self.path)!r} is damaged ({why}); restore it from the backup") from None


def commit(connection: sqlite3.Connection) -> None:
    """End a transaction: a machine that dies does so before this, or after it."""
    connection.execute("commit")


def require_private(path: Path, *, folder: bool = False) -> None:
    """Raise `UnsafeModeError` unless a path is a plain file, or a folder, that nobody else can read or change."""
    status = path.stat(follow_symlinks=False)
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(status.st_mode):
        raise UnsafeModeError(f"{str(path)!r} is a link, or of an odd kind")
    if not is_private(status):
        raise UnsafeModeError(
            f"{str(path)!r} belongs to another user, or is open to others: run chmod -R go= on the key store"
        )


def _require_local(path: Path) -> None:
    if sys.platform != "linux":
        return
    try:
        mounts = [line.split() for line in _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()]
    except OSError:  # a container may hide it
        return
    parents = {os.fspath(parent) for parent in path.resolve().parents}
    over = {fields[4]: fields[fields.index("-") + 1] for fields in mounts if fields[4] in parents}
    if over and (kind := over[max(over, key=len)]) in _REMOTE:
        raise StoreError(
            f"{str(path.parent)!r} is on a network drive ({kind}), where no lock keeps two machines from opening one "
            "key store: give it a folder on this machine's own disk"
        )

"""Columns of rows that arrive in pieces: in memory, or, where they are many, in an unnamed temporary file.

Such a file is seen by nobody else and gone with the process (`tempfile.TemporaryFile`, in ``TMPDIR``). Its columns are
arrays like any other, which the system reads from the file as they are used; `release` lets go of what has been read.
"""

from __future__ import annotations

import mmap
import tempfile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["BATCH", "Column", "release"]

BATCH = 2**20
"""Rows at a time."""

IN_MEMORY = 2**22
"""Rows of a column that are kept in memory; more go to a file."""


class Column:
    """One column that grows."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._parts: list[NDArray[Any]] = []
        self._file: Any = None
        self.rows = 0

    def append(self, entries: NDArray[Any]) -> None:
        """Add the entries of more rows, shape (n,)."""
        self.rows += len(entries)
        self._parts.append(np.asarray(entries, self._dtype))
        if self._file is None and self.rows > IN_MEMORY:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - the array that is made of it keeps it
        if self._file is not None:
            for part in self._parts:
                self._file.write(np.ascontiguousarray(part).data)
            self._parts.clear()

    def finished(self) -> NDArray[Any]:
        """Return the column, shape (rows,), read-only."""
        if self._file is None:
            joined = np.concatenate(self._parts) if self._parts else np.empty(0, self._dtype)
            self._parts.clear()
            joined.flags.writeable = False
            return joined
        self._file.flush()
        return np.memmap(self._file, self._dtype, "r", shape=(self.rows,))


def release(array: NDArray[Any]) -> None:
    """Let go of memory that holds what has been read of a column in a file; it is read again where it is needed."""
    owner: Any = array
    while owner is not None and not isinstance(owner, mmap.mmap):
        owner = getattr(owner, "base", None) if not isinstance(owner, memoryview) else owner.obj
    if owner is not None:
        owner.madvise(mmap.MADV_DONTNEED)

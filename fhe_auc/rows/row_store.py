"""Columns of rows that arrive in pieces: in memory, or, where they are many, in an unnamed temporary file.

Such a file is seen by nobody else and gone with the process (`tempfile.TemporaryFile`, in ``TMPDIR``). Its columns are
arrays like any other, which the system reads from the file as they are used; `release` lets go of what has been read.
"""

import mmap
import os
import sys
import tempfile
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fhe_auc.base.files import naming

BATCH = 2**16  # rows at a time: columns of so many fit into a processor's cache
IN_MEMORY = 2**20  # rows of a column that are kept in memory; more go to a file


class Column:
    """One column that grows; where it is of rows that are `in_memory` already, it stays there."""

    def __init__(self, dtype: DTypeLike, *, in_memory: bool = False) -> None:
        self._dtype, self._in_memory = np.dtype(dtype), in_memory
        self._parts: list[NDArray[Any]] = []
        self._file: Any = None
        self.rows = 0

    def append(self, entries: NDArray[Any]) -> None:
        """Add the entries of more rows, shape (n,)."""
        self.rows += len(entries)
        self._parts.append(np.asarray(entries, self._dtype))
        if self._file is None and self.rows > IN_MEMORY and not self._in_memory:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when finished
        if self._file is not None:
            with naming(tempfile.gettempdir()):
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
        with self._file:  # the array keeps what is in it
            with naming(tempfile.gettempdir()):
                self._file.flush()
            return np.memmap(self._file, self._dtype, "r", shape=(self.rows,))


def parted(codes: NDArray[np.int32], parts: int, columns: Sequence[NDArray[Any]]) -> list[list[NDArray[Any]]]:
    """Return the columns of each part, parts by code from 0, rows in the order in which they were; all read-only."""
    sizes = np.zeros(parts, np.int64)
    in_order, last = True, 0
    for start in range(0, len(codes), BATCH):
        own = codes[start : start + BATCH]
        sizes += np.bincount(own, minlength=parts)
        in_order = in_order and bool(own[0] >= last and (own[1:] >= own[:-1]).all())
        last = int(own[-1])
        release(codes)
    if not in_order:
        columns = _sorted(codes, np.cumsum(sizes) - sizes, columns)
    return cut(columns, sizes.tolist())


def cut(columns: Sequence[NDArray[Any]], sizes: Sequence[int]) -> list[list[NDArray[Any]]]:
    """Return the columns of each part, so many rows each, one after the other."""
    return [[each[end - size : end] for each in columns] for size, end in zip(sizes, accumulate(sizes), strict=True)]


def _sorted(codes: NDArray[np.int32], starts: NDArray[np.int64], columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the columns with each part's rows together, from its start on."""
    made = [_like(each) for each in columns]
    place = starts.copy()
    narrow = np.int16 if len(starts) < 2**15 else np.int32  # numpy sorts the former by radix
    for start in range(0, len(codes), BATCH):
        own = codes[start : start + BATCH].astype(narrow)
        order = np.argsort(own, kind="stable")
        present, first = np.unique(own[order], return_index=True)
        ends = np.append(first[1:], len(own))
        for source, target in zip(map(np.asarray, columns), map(np.asarray, made), strict=True):
            rows = source[start : start + BATCH][order]
            for code, begin, end in zip(present, first, ends, strict=True):
                target[place[code] : place[code] + end - begin] = rows[begin:end]
            release(source)
            release(target)
        place[present] += ends - first
        release(codes)
    for each in made:
        each.flags.writeable = False
    return made


def _like(array: NDArray[Any]) -> NDArray[Any]:
    if not isinstance(array, np.memmap):
        return np.empty_like(array)
    with tempfile.TemporaryFile() as file:  # the array keeps what is in it
        with naming(tempfile.gettempdir()):
            if sys.platform == "linux":  # on a full disk, writing into a hole would end the process
                os.posix_fallocate(file.fileno(), 0, array.nbytes)
            file.truncate(array.nbytes)
        return np.memmap(file, array.dtype, "r+", shape=array.shape)


def release(array: NDArray[Any]) -> None:
    """Let go of memory that holds what has been read of a column in a file; it is read again where it is needed."""
    owner: Any = array
    while owner is not None and not isinstance(owner, mmap.mmap):
        owner = getattr(owner, "base", None) if not isinstance(owner, memoryview) else owner.obj
    if sys.platform != "win32" and owner is not None:  # Windows takes it back by itself where memory is short
        owner.madvise(mmap.MADV_DONTNEED)

"""Tables of a fleet in Parquet files, in a folder or an object store: whatever pyarrow.fs reads, s3:// and gs:// too.

A range's keys, records, blobs and answers are in files of one name. Every column has one length, which the session
knows. A file is read in batches, as arrays over Arrow's buffers. What it is known by is the SHA-256 of what is read,
column by column: so what is checked is what is used, whoever writes to the folder meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from shutil import copyfileobj
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.files import replacing
from fhe_auc.input_proofs.sessions import RANDOMNESS_BYTES
from fhe_auc.question.fleet import MEMBER_BYTES, FleetList, KeyFile
from fhe_auc.rlwe.packing import byte_rows, octet_rows
from fhe_auc_keys.fleet.session import BLOB_BYTES, Loaded
from fhe_auc_keys.roles.blobs import SIGNATURE_BYTES
from fhe_auc_keys.trust.sealing import OVERHEAD, WRAPPED_BYTES

Columns: TypeAlias = dict[str, NDArray[Any]]
"""Of a batch, by name: numbers, of the shape (rows,), or bytes, (rows, length)."""

BATCH = 1024  # rows in memory, and of a row group that is written
NOT_ASCENDING = "{!r}: keys do not ascend, from file to file, too: one that is there twice would count twice"
_MOST_ROWS, _MOST_BYTES = 2**17, 2**28  # of a row group
_LONGEST, _BUFFER = 2**28, 2**20  # bytes of a file that is no table, and of a column that are read at once
_NUMBERS: dict[str, np.dtype[Any]] = {"member": np.dtype("<u4"), "row": np.dtype("<u4"), "verdict": np.dtype("u1")}


def table(*names: str, **lengths: int) -> pa.Schema:
    """Return the columns of a table: numbers by their `names`, and bytes of these `lengths`; of none there is none."""
    numbers = [(name, pa.from_numpy_dtype(_NUMBERS[name])) for name in names]
    return pa.schema([*numbers, *((name, pa.binary(length)) for name, length in lengths.items() if length)])


KEYS = table(key=MEMBER_BYTES)
ANSWERS = table("member", "row", "verdict", part=WRAPPED_BYTES)


def records(session: Loaded) -> pa.Schema:
    """Return the columns of a session's records."""
    return table("member", sketch=OVERHEAD + session.inside, blob=BLOB_BYTES, signature=SIGNATURE_BYTES)


def blobs(session: Loaded) -> pa.Schema:
    """Return the columns of what the helper is given of those that are whole; `row` is a record's in its file."""
    proofs, sealed = session.computation.proofs, {"blob": BLOB_BYTES, "signature": SIGNATURE_BYTES}
    shown = {} if proofs is None else {"randomness": RANDOMNESS_BYTES, "answers": proofs.answer_bytes}
    return table("member", "row", sketch_digest=32, **sealed, **shown)


class Digest:
    """The SHA-256 over a table, whatever its batches are: of its only column, or of those of all columns."""

    def __init__(self) -> None:
        self._columns: dict[str, hashlib._Hash] = {}
        self.rows = 0  # in it

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Go on with these rows, one at least, of the same columns each time."""
        for name, column in columns.items():
            self._columns.setdefault(name, hashlib.sha256()).update(np.ascontiguousarray(column).data)
        self.rows += len(next(iter(columns.values())))

    @property
    def value(self) -> bytes:
        """The digest, 32 bytes."""
        digests = [each.digest() for each in self._columns.values()]
        return digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()


def batches(place: str, schema: pa.Schema) -> Iterator[Columns]:
    """Yield the rows of a file, so many at a time; `DeserialisationError` where it is no such table to its end."""
    try:
        with _at(place) as (system, path), system.open_input_file(path) as file:
            found = pq.ParquetFile(file, buffer_size=_BUFFER)
            groups = map(found.metadata.row_group, range(found.metadata.num_row_groups))
            if not found.schema_arrow.equals(schema) or found.metadata.num_rows > 2**32:
                raise DeserialisationError(f"its columns are not {', '.join(map(str, schema))}")
            if any(each.num_rows > _MOST_ROWS or each.total_byte_size > _MOST_BYTES for each in groups):
                raise DeserialisationError(f"a row group has more than {_MOST_ROWS:,} rows or {_MOST_BYTES:,} bytes")
            for batch in filter(len, found.iter_batches(batch_size=BATCH)):
                yield {name: _viewed(name, batch.column(name)) for name in schema.names}
    except (InputError, UnicodeError, DeserialisationError) as error:  # names of columns are text
        raise DeserialisationError(f"{place}: not a whole file of these: {error}".splitlines()[0]) from None


def listed_batches(place: str, schema: pa.Schema, digest: bytes) -> Iterator[Columns]:
    """Yield the same of a file that somebody has listed with this digest, which says how many rows it has, too.

    Raises `DeserialisationError` at its end where it is another one: what comes of it must not leave before.
    """
    found = Digest()
    with suppress(DeserialisationError):
        for columns in batches(place, schema):
            found.add(columns)
            yield columns
    if found.value != digest:
        raise DeserialisationError(f"{place!r} is not the file that is listed: ask for it again, or put it back")


class Writer:
    """Writes a table, batch by batch, and knows the digest of what it has written."""

    def __init__(self, file: pq.ParquetWriter, schema: pa.Schema) -> None:
        self.digest, self.schema, self._file = Digest(), schema, file

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Write these rows."""
        mine = {name: np.ascontiguousarray(columns[name]) for name in self.schema.names}
        if rows := len(mine[self.schema.names[0]]):
            self.digest.add(mine)
            kinds = zip(self.schema.types, mine.values(), strict=True)
            arrays = [pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(column)]) for kind, column in kinds]
            self._file.write_table(pa.Table.from_arrays(arrays, schema=self.schema), row_group_size=BATCH)


@contextmanager
def writing(place: str, schema: pa.Schema) -> Iterator[Writer]:
    """Give what writes a table to a file, which is there as a whole once all is written; errors as `write_file`."""
    plainly = {"compression": "none", "use_dictionary": False, "write_statistics": False}  # it is random bytes
    with _new(place) as whole, pq.ParquetWriter(whole, schema, **plainly) as file:
        yield Writer(file, schema)


def names_in(folder: str) -> list[str]:
    """Return the names of the Parquet files in a folder, sorted; raise `InputError` where it cannot be read."""
    with _at(folder) as (system, path):
        found = system.get_file_info(fs.FileSelector(path))
    return sorted(each.base_name for each in found if each.is_file and each.base_name.endswith(".parquet"))


def read_file(place: str) -> bytes:
    """Return a file's contents; raise `InputError` where it cannot be read, or is longer than 2^28 bytes."""
    with _at(place) as (system, path), system.open_input_stream(path) as file:
        if (system.get_file_info(path).size or 0) > _LONGEST:
            raise InputError(f"{place!r} is longer than {_LONGEST:,} bytes", file=place)
        return bytes(file.readall())


def require_readable(place: str) -> None:
    """Read a file to its end, whatever it is; raise `InputError` where that fails."""
    with _at(place) as (system, path), system.open_input_stream(path) as file:
        while file.read(_BUFFER):
            pass


def write_file(place: str, data: bytes) -> None:
    """Write a file as a whole, in a folder that is made where there is none; raise `InputError` where that fails."""
    with _new(place) as file:
        file.write(data)


def within(folder: str, name: str) -> str:
    """Return the place of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def require_apart(*folders: str) -> None:
    """Raise `InputError` where two folders are the same: files of one would replace those of the other."""
    if len({folder.rstrip("/") if "://" in folder else os.path.realpath(folder) for folder in folders}) < len(folders):
        raise InputError(f"give a folder of its own for each, got {', '.join(map(repr, folders))}")


def read_keys(place: str, last: bytes = b"", digest: bytes = b"") -> NDArray[np.uint8]:
    """Return the keys in a file, shape (members, 32), which ascend, and are above the `last` one of another file.

    Raises `InputError` where they do not, or there is none; else as `batches`, or with a `digest` `listed_batches`.
    """
    found = listed_batches(place, KEYS, digest) if digest else batches(place, KEYS)
    keys = np.concatenate([octet_rows([], MEMBER_BYTES), *(columns["key"] for columns in found)])
    if not len(keys) or any(key >= after for key, after in pairwise((last, *byte_rows(keys)))):
        raise InputError(NOT_ASCENDING.format(place), file=place)
    return np.asarray(keys, np.uint8)


def listed(folder: str) -> FleetList:
    """Return the list of the files of keys in a folder; errors as `read_keys` and `FleetList`."""
    files, last = list[KeyFile](), b""
    for name in names_in(folder):
        keys = read_keys(within(folder, name), last)
        files.append(KeyFile(name, len(keys), hashlib.sha256(keys.tobytes()).digest()))
        last = keys[-1].tobytes()
    return FleetList(tuple(files))


def write_keys(folder: str, keys: NDArray[np.uint8], per_file: int) -> FleetList:
    """Write keys, shape (members, 32), sorted, as so many files; return their list."""
    ordered = keys[np.lexsort(keys.T[::-1])]
    for number, start in enumerate(range(0, len(keys), per_file)):
        with writing(within(folder, f"{number:06}.parquet"), KEYS) as file:
            file.add({"key": ordered[start : start + per_file]})
    return listed(folder)


def write_records(place: str, sent: Sequence[Sequence[Any]]) -> None:
    """Write records of a range: member, sketch, blob and signature each, in which all are alike in length."""
    member, *sealed = zip(*sent, strict=True)
    lengths = {name: len(each[0]) for name, each in zip(("sketch", "blob", "signature"), sealed, strict=True)}
    octets = map(octet_rows, sealed, lengths.values())
    with writing(place, table("member", **lengths)) as file:
        file.add({"member": np.array(member, "<u4"), **dict(zip(lengths, octets, strict=True))})


def _viewed(name: str, column: pa.Array) -> NDArray[Any]:
    """Return a column of a batch as an array over its buffer."""
    if column.null_count:
        raise DeserialisationError("a value is missing")
    kind = _NUMBERS[name] if name in _NUMBERS else np.dtype((np.uint8, (column.type.byte_width,)))
    found: NDArray[Any] = np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)
    return found


@contextmanager
def _new(place: str) -> Iterator[Any]:
    """Open a file that is there once it is written to its end."""
    with _at(place) as (system, path):
        if isinstance(system, fs.LocalFileSystem):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            with replacing(path, mode=0o600, durable=True) as file:
                yield file
            return
        with tempfile.TemporaryFile() as whole:  # an object store takes no upload back
            yield whole
            whole.seek(0)
            with system.open_output_stream(path) as stream:
                copyfileobj(whole, stream)


@contextmanager
def _at(place: str) -> Iterator[tuple[fs.FileSystem, str]]:
    """Give what a place is in, and its path there; raise `InputError` where it cannot be used."""
    try:
        if re.match(r"[a-z][a-z0-9+.-]*://", place):
            yield fs.FileSystem.from_uri(place)
        else:
            yield fs.LocalFileSystem(), str(Path(place).absolute())
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{place!r} cannot be opened, read or written: {error}", file=place) from None

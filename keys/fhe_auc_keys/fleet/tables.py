"""Tables of a fleet in Parquet files, in a folder or an object store: whatever pyarrow.fs reads, s3:// and gs:// too.

    keys        key                                                                             a file each range
    records     member | sketch | blob | signature                                              of the same name
    blobs       member | row | sketch_digest | blob | signature | randomness | answers          of the same name
    answers     member | verdict | part                                                         of the same name

Every column has one length, which the session knows. A file is read in batches, as arrays over Arrow's buffers. What it
is known by is the SHA-256 of what is read, column by column: so what is checked is what is used, whoever writes to the
folder meanwhile, and however a file is laid out.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
from fhe_auc.question.fleet import MEMBER_BYTES, FleetList, KeyFile
from fhe_auc.rlwe.packing import octet_rows

Columns: TypeAlias = dict[str, NDArray[Any]]
"""Of a batch, by name: numbers, of the shape (rows,), or bytes, (rows, length)."""

BATCH = 1024  # rows in memory, and of a row group that is written

_NUMBERS = {"member": pa.uint32(), "row": pa.uint32(), "verdict": pa.uint8()}
_DTYPES = {pa.uint32(): np.dtype("<u4"), pa.uint8(): np.dtype(np.uint8)}
_MOST_ROWS, _MOST_BYTES = 2**17, 2**28  # of a row group, of which a reader may have a column in memory
_LONGEST = 2**28  # bytes of a file that is no table
_BUFFER = 2**20  # bytes of a column that are read at once
_SUFFIX = ".parquet"
_NOT_WHOLE = OSError, pa.ArrowException, UnicodeError  # what reading raises: names of columns are text


def table(*names: str, **lengths: int) -> pa.Schema:
    """Return the columns of a table: numbers by their `names`, and bytes of these `lengths`; of none there is none."""
    columns = [(name, _NUMBERS[name]) for name in names]
    return pa.schema([*columns, *((name, pa.binary(length)) for name, length in lengths.items() if length)])


_KEYS = table(key=MEMBER_BYTES)


class Digest:
    """The SHA-256 over a table, whatever its batches are: of its only column, or of those of all columns."""

    def __init__(self) -> None:
        self._columns: dict[str, hashlib._Hash] = {}
        self.rows = 0
        """How many rows are in it."""

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Go on with these rows, of the same columns each time."""
        if not len(next(iter(columns.values()))):
            return
        for name, column in columns.items():
            self._columns.setdefault(name, hashlib.sha256()).update(np.ascontiguousarray(column).data)
        self.rows += len(next(iter(columns.values())))

    @property
    def value(self) -> bytes:
        """The digest, 32 bytes."""
        digests = [each.digest() for each in self._columns.values()]
        return digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()


def batches(place: str, schema: pa.Schema, wanted: NDArray[np.uint32] | None = None) -> Iterator[tuple[int, Columns]]:
    """Yield the rows of a file, so many at a time, each batch with the number of its first row.

    Of row groups without a `wanted` row (ascending) nothing is read. Raises `DeserialisationError` where the file is no
    such table, or cannot be read to its end; `InputError` where there is none.
    """
    system, path = _opened(place)
    try:
        with system.open_input_file(path) as file:
            found, first = _checked(pq.ParquetFile(file, buffer_size=_BUFFER), schema), 0
            for group in range(found.metadata.num_row_groups):
                end = first + found.metadata.row_group(group).num_rows
                if wanted is None or np.searchsorted(wanted, first) < np.searchsorted(wanted, end):
                    for batch in found.iter_batches(batch_size=BATCH, row_groups=[group]):
                        if len(batch):
                            yield first, {name: _viewed(batch.column(name)) for name in schema.names}
                        first += len(batch)
                first = end
    except FileNotFoundError as error:
        raise InputError(f"{place!r} cannot be read: {error}", file=place) from None
    except (*_NOT_WHOLE, DeserialisationError) as error:
        raise DeserialisationError(f"{place}: not a whole file of records: {error}".splitlines()[0]) from None


def listed_batches(place: str, schema: pa.Schema, rows: int, digest: bytes) -> Iterator[Columns]:
    """Yield the same of a file that somebody has listed with so many rows and this digest.

    Raises `DeserialisationError` at its end where it is another one: what comes of it must not leave before.
    """
    found = Digest()
    with suppress(DeserialisationError):
        for _, columns in batches(place, schema):
            found.add(columns)
            if found.rows > rows:
                break
            yield columns
    if (found.rows, found.value) != (rows, digest):
        raise DeserialisationError(f"{place!r} is not the file that is listed; ask for it again, or put it back")


class Writer:
    """Writes a table, batch by batch; `writing` makes one."""

    def __init__(self, file: Any, schema: pa.Schema) -> None:
        self.digest = Digest()
        self._schema = schema
        # Random bytes do not compress.
        self._file = pq.ParquetWriter(
            file, schema, compression="none", use_dictionary=False, write_statistics=False
        )  # fmt: skip

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Write a batch as a row group; columns that the table has not are left out."""
        mine = {name: np.ascontiguousarray(columns[name]) for name in self._schema.names}
        self.digest.add(mine)
        if not len(next(iter(mine.values()))):
            return
        arrays = [
            pa.Array.from_buffers(kind.type, len(column), [None, pa.py_buffer(column)])
            for kind, column in zip(self._schema, mine.values(), strict=True)
        ]
        self._file.write_table(pa.Table.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Write the end of the file."""
        self._file.close()


@contextmanager
def writing(place: str, schema: pa.Schema) -> Iterator[Writer]:
    """Give what writes a table to a file, which is there once all is written, and as a whole.

    Raises `InputError` where that fails.
    """
    with _new(place) as file:
        made = Writer(file, schema)
        try:
            yield made
        finally:
            made.close()


def names_in(folder: str) -> list[str]:
    """Return the names of the Parquet files in a folder, sorted; raise `InputError` where it cannot be read."""
    with _at(folder, "read") as (system, path):
        found = system.get_file_info(fs.FileSelector(path))
    return sorted(each.base_name for each in found if each.is_file and each.base_name.endswith(_SUFFIX))


def is_there(place: str) -> bool:
    """Return whether there is a file; raise `InputError` where that cannot be seen."""
    with _at(place, "looked up") as (system, path):
        return bool(system.get_file_info(path).type != fs.FileType.NotFound)


def read_file(place: str) -> bytes:
    """Return a file's contents; raise `InputError` where it cannot be read, or is longer than 2^28 bytes."""
    with _at(place, "read") as (system, path), system.open_input_stream(path) as file:
        if (system.get_file_info(path).size or 0) > _LONGEST:
            raise InputError(f"{place!r} is longer than {_LONGEST:,} bytes", file=place)
        return bytes(file.readall())


def write_file(place: str, data: bytes) -> None:
    """Write a file as a whole, in a folder that is made where there is none; raise `InputError` where that fails."""
    with _new(place) as file:
        file.write(data)


def within(folder: str, name: str) -> str:
    """Return the place of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def listed(folder: str) -> FleetList:
    """Return the list of the files of keys in a folder; raise `InputError` where they are none, or do not ascend."""
    files, last = list[KeyFile](), b""
    for name in names_in(folder):
        place, digest = within(folder, name), Digest()
        try:
            for keys in _ascending(place, batches(place, _KEYS), last):
                digest.add({"key": keys})
                last = keys[-1].tobytes()
        except DeserialisationError as error:
            raise InputError(f"{place!r} is not a file of keys: {error}", file=place) from None
        files.append(KeyFile(name, digest.rows, digest.value if digest.rows else b""))
    return FleetList(tuple(files))


def read_keys(place: str, file: KeyFile) -> NDArray[np.uint8]:
    """Return the keys of a listed file, shape (members, 32).

    Raises `InputError` where it cannot be read; `DeserialisationError` where it is another file, or keys do not ascend.
    """
    keys, end = np.empty((file.number, MEMBER_BYTES), np.uint8), 0
    found = ((0, each) for each in listed_batches(place, _KEYS, file.number, file.digest))
    for each in _ascending(place, found, b""):
        keys[end : end + len(each)] = each
        end += len(each)
    return keys


def write_keys(folder: str, keys: NDArray[np.uint8], per_file: int) -> FleetList:
    """Write keys, shape (members, 32), sorted, as so many files; return their list."""
    ordered = keys[np.lexsort(keys.T[::-1])]
    for number, start in enumerate(range(0, len(keys), per_file)):
        with writing(within(folder, f"{number:06}{_SUFFIX}"), _KEYS) as file:
            file.add({"key": ordered[start : start + per_file]})
    return listed(folder)


def write_records(place: str, records: Sequence[Sequence[Any]]) -> None:
    """Write records of a range: member, sketch, blob and signature each, in which all are alike in length."""
    member, *rest = zip(*records, strict=True)
    names = "sketch", "blob", "signature"
    schema = table("member", **{name: len(column[0]) for name, column in zip(names, rest, strict=True)})
    with writing(place, schema) as file:
        for start in range(0, len(records), BATCH):
            own = slice(start, start + BATCH)
            columns = {name: octet_rows(column[own], len(column[0])) for name, column in zip(names, rest, strict=True)}
            file.add({"member": np.array(member[own], np.uint32), **columns})


def _ascending(place: str, found: Iterable[tuple[int, Columns]], last: bytes) -> Iterator[NDArray[np.uint8]]:
    """Yield keys, which ascend, and are above the `last` one of another file; `InputError` where they do not."""
    for _, columns in found:
        before = np.frombuffer(last.ljust(MEMBER_BYTES, b"\0"), np.uint8)
        words = np.concatenate([before[None], columns["key"]])[0 if last else 1 :].view(">u8")
        left, right = words[:-1], words[1:]
        rows, places = np.arange(len(left)), (left != right).argmax(axis=1)
        if not (left[rows, places] < right[rows, places]).all():
            raise InputError(
                f"{place!r}: keys do not ascend, from file to file, too; one that stands there twice would count twice",
                file=place,
            )
        last = columns["key"][-1].tobytes()
        yield columns["key"]


def _viewed(column: pa.Array) -> NDArray[Any]:
    """Return a column of a batch as an array over its buffer."""
    if column.null_count:
        raise DeserialisationError("a value is missing")
    kind = _DTYPES.get(column.type, np.dtype(np.uint8))
    length = 1 if column.type in _DTYPES else column.type.byte_width
    place, count = column.offset * length * kind.itemsize, len(column) * length
    found = np.frombuffer(column.buffers()[1], kind, count, place)
    return found if column.type in _DTYPES else found.reshape(-1, length)


def _checked(file: pq.ParquetFile, schema: pa.Schema) -> pq.ParquetFile:
    if not file.schema_arrow.equals(schema):
        raise DeserialisationError(f"its columns are not {', '.join(f'{each.name} ({each.type})' for each in schema)}")
    if file.metadata.num_rows > 2**32:
        raise DeserialisationError("it has more than 2^32 rows")
    for group in range(file.metadata.num_row_groups):
        about = file.metadata.row_group(group)
        if about.num_rows > _MOST_ROWS or about.total_byte_size > _MOST_BYTES:
            raise DeserialisationError(
                f"it has row groups of more than {_MOST_ROWS:,} records or {_MOST_BYTES:,} bytes"
            )
    return file


@contextmanager
def _new(place: str) -> Iterator[Any]:
    """Open a file that is there once it is written to its end."""
    with _at(place, "written") as (system, path):
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
def _at(place: str, done: str) -> Iterator[tuple[fs.FileSystem, str]]:
    """Give what a place is in, and its path there; raise `InputError` where something cannot be `done` with it."""
    found = _opened(place)
    try:
        yield found
    except OSError as error:
        raise InputError(f"{place!r} cannot be {done}: {error}", file=place) from None


def _opened(place: str) -> tuple[fs.FileSystem, str]:
    if not re.match(r"[a-z][a-z0-9+.-]*://", place):
        return fs.LocalFileSystem(), str(Path(place).absolute())
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(place)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{place!r} cannot be opened: {error}") from None
    return found

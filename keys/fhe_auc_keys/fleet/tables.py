"""Members and records in Parquet files, in a folder or an object store: whatever pyarrow.fs reads, s3:// and gs:// too.

A fleet's members are the column ``key``, Ed25519 keys of 32 bytes, in the order of their index.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.files import write_atomically
from fhe_auc.question.fleet import MEMBER_BYTES, Members


def _schema(*names: str) -> pa.Schema:
    """Return the columns of a table of members: their index, and bytes by these names."""
    return pa.schema([("member", pa.uint32()), *((name, pa.binary()) for name in names)])


RECORDS = _schema("session", "sketch", "blob", "signature")  # what devices submit
BLOBS = _schema("sketch_digest", "blob", "signature", "randomness", "answers")  # what the helper is given of them
RESPONSES = _schema("part")  # what devices are given

_MEMBERS = pa.schema([("key", pa.binary())])

GROUP = 10_000  # records of a row group, at most, in files that we write

_BATCH = 4  # rows in memory: a file that says a long one once can repeat it in them all
_MOST_GROUPS = 2**10  # of a file: each is a task, and a file for the helper
_MOST_ROWS, _MOST_BYTES, _LONGEST = 2**17, 2**28, 2**30  # of a row group, of which a task has some in memory; a file
_SUFFIX = ".parquet"
_NOT_WHOLE = OSError, pa.ArrowException, UnicodeError  # what reading raises: names of columns are text


class RowGroup(NamedTuple):
    """A row group of a file, which one task works on."""

    file: str
    group: int


def parts_of(folder: str, schema: pa.Schema) -> tuple[list[RowGroup], dict[str, str]]:
    """Return the row groups of Parquet files in or below a folder, in order, and why files are refused."""
    with _at(folder, "read") as (system, path):
        found = system.get_file_info(fs.FileSelector(path, recursive=True))
    parts: list[RowGroup] = []
    refused: dict[str, str] = {}
    for each in sorted(info.path for info in found if info.path.endswith(_SUFFIX)):
        rest = Path(each).relative_to(path)
        name = within(folder, rest.as_posix()) if "://" in folder else str(Path(folder) / rest)
        try:
            with system.open_input_file(each) as file:
                groups = _checked(pq.ParquetFile(file), schema).metadata.num_row_groups
            if groups > _MOST_GROUPS:
                raise DeserialisationError(f"it has more than {_MOST_GROUPS:,} row groups")
        except (*_NOT_WHOLE, DeserialisationError) as error:
            refused[name] = f"not a whole file of records: {error}".splitlines()[0]
            continue
        parts += (RowGroup(name, group) for group in range(groups))
    return parts, refused


def rows_of(part: RowGroup, schema: pa.Schema) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a row group, as tuples; raise `DeserialisationError` where they cannot be read."""
    system, path = _opened(part.file)
    try:
        with system.open_input_file(path) as file:
            table = _checked(pq.ParquetFile(file), schema)
            for batch in table.iter_batches(batch_size=_BATCH, row_groups=[part.group]):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except _NOT_WHOLE as error:
        raise DeserialisationError(f"{part.file}: {error}".splitlines()[0]) from None


def is_there(place: str) -> bool:
    """Return whether there is a file; raise `InputError` where that cannot be seen."""
    with _at(place, "looked up") as (system, path):
        return bool(system.get_file_info(path).type != fs.FileType.NotFound)


def read_file(place: str) -> bytes:
    """Return a file's contents; raise `InputError` where it cannot be read, or is longer than 2^30 bytes."""
    with _at(place, "read") as (system, path), system.open_input_stream(path) as file:
        if (system.get_file_info(path).size or 0) > _LONGEST:
            raise InputError(f"{place!r} is longer than {_LONGEST:,} bytes", file=place)
        return bytes(file.readall())


def rows_in(data: bytes, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a file that has been read, or some of its columns; raise `DeserialisationError` where it is none."""
    try:
        return _checked(pq.ParquetFile(io.BytesIO(data)), schema).read(columns=columns)
    except _NOT_WHOLE as error:
        raise DeserialisationError(f"not a whole file of records: {error}".splitlines()[0]) from None


def write_file(place: str, data: bytes) -> None:
    """Write a file as a whole, in a folder that is made where there is none; raise `InputError` where that fails."""
    with _at(place, "written") as (system, path):
        if isinstance(system, fs.LocalFileSystem):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, data, mode=0o600, durable=True)
        else:
            with system.open_output_stream(path) as file:
                file.write(data)


def as_file(columns: Sequence[Any], schema: pa.Schema) -> bytes:
    """Return columns as a Parquet file; equal columns give equal bytes, where pyarrow is the same."""
    arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=schema)
    # Half of what readers take: rows are about equally long.
    group = _MOST_BYTES // 2 * len(table) // max(table.nbytes, 1)
    stream = io.BytesIO()
    # Random bytes do not compress; the session's digest, which all have in common, goes into a dictionary.
    pq.write_table(
        table,
        stream,
        compression="none",
        use_dictionary=["session"] if "session" in schema.names else False,
        write_statistics=False,
        row_group_size=max(1, min(GROUP, group)),
    )
    return stream.getvalue()


def within(folder: str, name: str) -> str:
    """Return the place of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def write_members(place: str, members: Members) -> None:
    """Write the file of a fleet's members; `members` has the shape (members, 32)."""
    write_file(place, as_file([[each.tobytes() for each in members]], _MEMBERS))


def read_members(place: str) -> Members:
    """Return what is in such a file; raise `InputError` where it is none."""
    try:
        entries = rows_in(read_file(place), _MEMBERS).column(0).to_pylist()
        if any(each is None or len(each) != MEMBER_BYTES for each in entries):
            raise DeserialisationError(f"an entry is not {MEMBER_BYTES} bytes long")
    except DeserialisationError as error:
        raise InputError(f"{place!r} is not a file of members: {error}", file=place) from None
    return np.frombuffer(b"".join(entries), np.uint8).reshape(-1, MEMBER_BYTES)


def _checked(file: pq.ParquetFile, schema: pa.Schema) -> pq.ParquetFile:
    if not file.schema_arrow.equals(schema):
        raise DeserialisationError(f"its columns are not {', '.join(schema.names)}")
    for group in range(file.metadata.num_row_groups):
        about = file.metadata.row_group(group)
        if about.num_rows > _MOST_ROWS or about.total_byte_size > _MOST_BYTES:
            raise DeserialisationError(
                f"it has row groups of more than {_MOST_ROWS:,} records or {_MOST_BYTES:,} bytes"
            )
    return file


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

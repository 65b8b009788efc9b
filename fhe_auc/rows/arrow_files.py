"""Parquet and Feather files, some rows at a time; and folders of Parquet files, which are one table."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from fhe_auc.base.errors import InputError
from fhe_auc.rows.arrow_columns import piece_of
from fhe_auc.rows.pieces import Piece, find_columns
from fhe_auc.rows.row_store import BATCH

if TYPE_CHECKING:
    from fhe_auc.rows.table_files import TableFile

PARQUET = ".parquet"
_BUFFER = 2**18  # bytes of a column at a time
_LOGS = ("_delta_log", ".hoodie")  # of Delta Lake and Hudi: which of the files' rows are left


def parquet_pieces(file: TableFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield the rows of these columns; those that folders are named by, as "site=a", are columns too."""
    from pyarrow.parquet import ParquetFile  # takes time to import

    # Otherwise it would hold all of the file, or of a group of rows.
    with _native(file.path) as opened, ParquetFile(opened, pre_buffer=False, buffer_size=_BUFFER) as source:
        own = source.schema_arrow.names
        of_folder = dict(re.findall(r"([^/\\=]+)=([^/\\]*)[/\\]", str(file.path)))
        named = {name: unquote(value) for name, value in of_folder.items() if name not in own}
        names = find_columns((*texts, *numbers), [*own, *named])
        for batch in source.iter_batches(BATCH, columns=[name for name in names.values() if name in own]):
            yield piece_of(
                {
                    name: [named[there]] * batch.num_rows if there in named else batch.column(there)
                    for name, there in names.items()
                },
                numbers,
                texts,
            )


def parquet_rows(path: Path) -> int:
    """Return how many rows a Parquet file has."""
    from pyarrow.parquet import read_metadata

    with _native(path) as opened:
        return int(read_metadata(opened).num_rows)


def feather_pieces(file: TableFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield the rows of these columns."""
    with pa.memory_map(os.fsencode(file.path)) as mapped, pa.ipc.open_file(mapped) as source:
        names = find_columns((*texts, *numbers), source.schema.names)
        for at in range(source.num_record_batches):
            batch = source.get_batch(at)
            for start in range(0, batch.num_rows, BATCH):
                rows = batch.slice(start, BATCH)
                yield piece_of({name: rows.column(there) for name, there in names.items()}, numbers, texts)


def _native(path: Path) -> Any:
    """Return the file as Arrow's own, whatever its name: Arrow takes a text for UTF-8, and bytes as they are."""
    return pa.OSFile(os.fsencode(path))


def folder_of(path: Path) -> Path | None:
    """Return a folder, or that in which a pattern such as "scores/*.parquet" begins; None for any other path."""
    if os.path.isdir(path):
        return path
    if os.path.lexists(path) or not glob.has_magic(str(path)):
        return None
    return Path(*takewhile(lambda part: not glob.has_magic(part), path.parts))


def parquet_files(path: Path) -> list[Path]:
    """Return the files of a folder, with those in it, or of a pattern, sorted; not hidden ones, nor "_SUCCESS".

    There are none where `path` is neither, or has no Parquet files. Raises `InputError` where other files are beside
    them, or some of their rows were deleted; `OSError` for a folder that cannot be read.
    """
    root = folder_of(path)
    if root is None:
        return []
    found = [path] if root == path else map(Path, glob.glob(str(path), recursive=True))
    inside = {each for one in found for each in (_walked(one) if one.is_dir() else (one,))}
    files = sorted(each for each in inside if not any(part[0] in "._" for part in each.relative_to(root).parts))
    parquet = [each for each in files if each.suffix.lower() == PARQUET]
    if parquet and (logs := [name for name in _LOGS if (root / name).is_dir()]):
        raise InputError(f"{logs[0]!r} tells which rows of its files are deleted: export it as one Parquet file")
    if parquet and len(parquet) < len(files):
        other = next(each for each in files if each not in parquet)
        raise InputError(f"{str(other)!r} is no Parquet file, but beside some: name these by a pattern, '*{PARQUET}'")
    return parquet


def _walked(folder: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise error

    for where, _, names in os.walk(folder, onerror=fail, followlinks=True):
        yield from (Path(where, name) for name in names)

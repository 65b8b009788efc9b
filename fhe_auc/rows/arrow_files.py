"""Parquet and Feather files, some rows at a time; and folders of Parquet files, which are one table."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from fhe_auc.base.errors import InputError
from fhe_auc.rows.arrow_columns import piece_of
from fhe_auc.rows.csv_files import TextFile
from fhe_auc.rows.pieces import Piece, find_columns
from fhe_auc.rows.row_store import BATCH

PARQUET = ".parquet"
_BUFFER = 2**18  # bytes of a column at a time
_LOGS = ("_delta_log", ".hoodie")  # of Delta Lake and Hudi: which of the files' rows are left


def parquet_pieces(file: TextFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield the rows of these columns; those that folders are named by, as "site=a", are columns too."""
    from pyarrow.parquet import ParquetFile  # takes time to import

    # Otherwise it would hold all of the file, or of a group of rows.
    with native(file.path) as opened, ParquetFile(opened, pre_buffer=False, buffer_size=_BUFFER) as source:
        own = source.schema_arrow.names
        of_folders = dict(re.findall(r"([^/\\=]+)=([^/\\]*)[/\\]", str(file.path)))
        named = {name: unquote(value) for name, value in of_folders.items() if name not in own}
        names = find_columns((*texts, *numbers), [*own, *named])
        for batch in source.iter_batches(BATCH, columns=[there for there in names.values() if there in own]):
            folders = {there: [value] * batch.num_rows for there, value in named.items()}
            columns = {name: folders[at] if at in folders else batch.column(at) for name, at in names.items()}
            yield piece_of(columns, numbers, texts)


def feather_pieces(file: TextFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield the rows of these columns."""
    with pa.memory_map(os.fsencode(file.path)) as mapped, pa.ipc.open_file(mapped) as source:
        names = find_columns((*texts, *numbers), source.schema.names)
        for batch in map(source.get_batch, range(source.num_record_batches)):
            for start in range(0, batch.num_rows, BATCH):
                rows = batch.slice(start, BATCH)
                yield piece_of({name: rows.column(there) for name, there in names.items()}, numbers, texts)


def native(path: Path) -> Any:
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
    """Return the Parquet files of a folder, with those in it, or of a pattern, sorted; but not hidden ones.

    There are none where `path` is neither. Raises `InputError` where others are beside them, but for "_SUCCESS" and its
    like, or a log says which of their rows were deleted; `OSError` for a folder that cannot be read.
    """
    if (root := folder_of(path)) is None:
        return []
    found = [root] if root == path else [*map(Path, glob.glob(str(path), recursive=True))]
    walks = (os.walk(each, onerror=_fail, followlinks=True) for each in found if each.is_dir())
    inside = {Path(where, name) for walk in walks for where, _, names in walk for name in names}
    inside |= {each for each in found if each.is_file()}
    files = {each: each.relative_to(root).parts for each in sorted(inside)}
    shown = [each for each, parts in files.items() if not any(part.startswith(".") for part in parts)]
    parquet = [each for each in shown if each.suffix.lower() == PARQUET]
    if parquet and (logs := [name for name in _LOGS if (root / name).is_dir()]):
        raise InputError(f"{logs[0]!r} tells which rows of its files are deleted: export it as one Parquet file")
    unclear = (each for each in shown if (each in parquet) == any(part.startswith("_") for part in files[each]))
    if parquet and (other := next(unclear, None)) is not None:
        which = f"name the files that do by a pattern, as {str(root / '[!_]*') + PARQUET!r}"
        raise InputError(f"{str(other)!r} may hold rows of it, or not: {which}")
    return parquet


def _fail(error: OSError) -> None:
    raise error

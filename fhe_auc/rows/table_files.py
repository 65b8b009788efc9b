"""Files of tables, each kind by its suffix; columns some rows at a time, entries as they are, unchecked.

Errors name rows as people find them: the line of a text file, the row of a sheet, the observation of a statistics
package, all from 1, otherwise by their number from 0.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.base.file_kinds import LOOK, TEXT, FileKind, kind_of
from fhe_auc.rows.arrow_columns import piece_of
from fhe_auc.rows.csv_files import STDIN, TextFile, text_pieces
from fhe_auc.rows.json_lines import json_line, json_pieces
from fhe_auc.rows.pieces import OPTIONS, KeptPieces, Piece, Words, find_columns
from fhe_auc.rows.quotes import QuoteError
from fhe_auc.rows.row_store import BATCH
from fhe_auc.rows.whole_files import PACKAGES, WORDS, WORKBOOKS, sheet_row, statistics_pieces, workbook_pieces

_PARQUET = ".parquet"
_BUFFER = 2**18  # bytes of a column at a time
_EMPTY = FileKind("empty", (), "nothing was saved in it")
_UNSURE = ("an archive", "a binary file")  # names of kinds that may be others, and are tried
OBJECTS = "it holds Python objects, which could run code; save numbers or text, as with astype(float) or astype(str)"


@dataclass(frozen=True, eq=False)
class TableFile(TextFile):
    """One file, whose text is read as that of a `TextFile` where it is one; `path` "-" is standard input, which is.

    A `fhe_auc.rows.pieces.Table`; `folder_names` its party, by its folder and not by its own name. A folder of Parquet
    files, or a pattern such as "scores/*.parquet", is one table too.
    """

    folder_names: bool = False
    names_columns: ClassVar[bool] = True
    _kept: list[KeptPieces] = field(default_factory=list, init=False, repr=False)

    @property
    def party(self) -> str:
        """The file's name without its suffix, or that of its folder."""
        if self.folder_names:
            return self.path.parent.name
        if (folder := _folder_of(self.path)) is not None:
            return folder.resolve().name.removesuffix(_PARQUET)
        return "stdin" if self.path == STDIN else self.path.name[: len(self.path.name) - len(self.suffix)]

    @property
    def title(self) -> str:
        """How messages begin."""
        return f"file {self.name!r}"

    @property
    def name(self) -> str:
        """How messages name it."""
        return "standard input" if self.path == STDIN else str(self.path)

    file = name

    @property
    def suffix(self) -> str:
        """Its last suffix, or ".csv.gz" and its like."""
        suffixes = [each.lower() for each in self.path.suffixes]
        return "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])

    @property
    def words(self) -> Words:
        """How messages name arguments."""
        return WORDS if self.suffix in WORKBOOKS else OPTIONS

    @cached_property
    def parts(self) -> list[TableFile]:
        """The Parquet files of a folder, with those in it, or of a pattern, sorted; none for a file, no hidden ones.

        Raises `InputError` where others are beside them, but for "_SUCCESS" and its like.
        """
        if (root := _folder_of(self.path)) is None:
            return []

        def fail(error: OSError) -> None:
            raise self._error(f" cannot be read: {error.strerror}")

        found = [root] if root == self.path else [*map(Path, glob.glob(str(self.path), recursive=True))]
        walks = (os.walk(each, onerror=fail, followlinks=True) for each in found if each.is_dir())
        inside = {Path(where, name) for walk in walks for where, _, names in walk for name in names}
        rows, others = list[Path](), list[Path]()
        for each in sorted(inside | {each for each in found if each.is_file()}):
            parts, is_parquet = each.relative_to(root).parts, each.suffix.lower() == _PARQUET
            if not any(part.startswith(".") for part in parts) and (is_parquet or not parts[-1].startswith("_")):
                (rows if is_parquet and not any(part.startswith("_") for part in parts) else others).append(each)
        if rows and others:
            which = f"name the files that do by a pattern, as {str(root / '[!_]*') + _PARQUET!r}"
            raise self._error(f": {str(others[0])!r} may hold rows of it, or not: {which}")
        return [replace(self, path=path) for path in rows]

    def place(self, row: int, wanted: Sequence[str]) -> Place:
        """Return where a row, from 0, is; `wanted` are the columns that were read."""
        for part in self.parts:
            if row < (rows := sum(len(piece.texts[wanted[0]]) for piece in part.pieces((), wanted[:1]))):
                return part.place(row, wanted)
            row -= rows
        kind = self._kind or _TEXT
        number = kind.number(self, row, wanted)
        text = f"{self.name}, row {row}" if number is None else f"{self.name}, {kind.word} {number}"
        return Place(text, self.name, number if kind.word == "line" else None)

    def keep(self, numbers: Sequence[str], texts: Sequence[str]) -> None:
        """Read what is not read in pieces."""
        if self.suffix in (*PACKAGES, *WORKBOOKS):
            self._kept[:] = [KeptPieces(self._read(numbers, texts))]

    def pieces(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        """Yield the rows of these columns, in order; raise `InputError` where the file cannot be read or lacks one."""
        for part in self.parts or [self]:
            yield from part._kept[0].pieces(numbers, texts) if part._kept else part._read(numbers, texts)

    def _read(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        what, kind = self._what(), self._kind
        tried = what.name.startswith(_UNSURE)
        if kind is None and (tried or what.encoding or what is _EMPTY):
            raise self._error(f": unknown suffix {self.suffix!r}; known are {', '.join(SUFFIXES)}")
        try:
            if kind is None or not (kind.word == "line" or tried or self.suffix in what.suffixes):
                raise InputError(what.told)
            yield from kind.pieces(self, numbers, texts)
            pa.default_memory_pool().release_unused()  # Arrow would keep it for its next file
        except QuoteError as error:
            line = self.line_at(error.offset)
            raise self._error(f": line {line}: {error}", line) from None
        except InputError as error:
            raise error.within(self.title, file=self.name) from None
        except Exception as error:  # what the libraries raise on damaged files has no end
            raise self._error(f" cannot be read: {_reason(error, self.wrong_encoding)}") from None

    def _what(self) -> FileKind:
        """Return what a file is; raise `InputError` for what is not there, a folder, or a pipe: it is read twice."""
        if self.path == STDIN:
            return TEXT
        try:
            mode = self.path.stat().st_mode
            if stat.S_ISREG(mode):
                with self.path.open("rb") as opened:
                    first = opened.read(LOOK)
                return kind_of(first) if first else _EMPTY
        except FileNotFoundError:
            many = "" if _folder_of(self.path) is None else "; a pattern is for Parquet files, other files are named"
            raise self._error(f" does not exist{many}") from None
        except (OSError, ValueError) as error:
            raise self._error(f" cannot be read: {_reason(error, '')}") from None
        if stat.S_ISDIR(mode):
            raise self._error(" is a folder: name the files in it")
        raise self._error(" is a pipe, a device or a socket: give a plain file, or text as standard input (-)")

    def _error(self, what: str, line: int | None = None) -> InputError:
        return InputError(self.title + what, file=self.name, line=line)

    @property
    def _kind(self) -> _Kind | None:
        return _KINDS.get(".csv" if self.path == STDIN else self.suffix)


def _reason(error: Exception, wrong_encoding: str) -> str:
    """Return the first line of an error, but for the row that Arrow's CSV reader quotes: it is somebody's data."""
    if isinstance(error, OSError) and error.strerror and not isinstance(error, pa.ArrowException):
        return error.strerror
    text = (str(error) or type(error).__name__).splitlines()[0]
    if isinstance(error, UnicodeError) or (isinstance(error, pa.ArrowException) and "UTF8" in text):
        return wrong_encoding
    if isinstance(error, pa.ArrowException) and text.startswith("CSV"):
        return "it is no well-formed CSV"
    return text


def _folder_of(path: Path) -> Path | None:
    """Return a folder, or that in which a pattern such as "scores/*.parquet" begins; None for any other path."""
    if os.path.lexists(path) or not glob.has_magic(str(path)):
        return path if os.path.isdir(path) else None
    return Path(*takewhile(lambda part: not glob.has_magic(part), path.parts))


def _parquet_pieces(file: TextFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
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
            yield piece_of(columns, numbers, texts, file.form.decimal)


def _feather_pieces(file: TextFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    with pa.memory_map(os.fsencode(file.path)) as mapped, pa.ipc.open_file(mapped) as source:
        names = find_columns((*texts, *numbers), source.schema.names)
        for batch in map(source.get_batch, range(source.num_record_batches)):
            for start in range(0, batch.num_rows, BATCH):
                rows = batch.slice(start, BATCH)
                columns = {name: rows.column(there) for name, there in names.items()}
                yield piece_of(columns, numbers, texts, file.form.decimal)


def native(path: Path) -> Any:
    """Return the file as Arrow's own, whatever its name: Arrow takes a text for UTF-8, and bytes as they are."""
    return pa.OSFile(os.fsencode(path))


def _npz_pieces(file: TextFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    with file.path.open("rb") as opened:  # numpy leaves files open that it cannot read
        archive = np.load(opened, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise InputError("it is one array, not named columns: save these with numpy.savez")
        there = find_columns((*texts, *numbers), archive.files)
        arrays = {name: _load_column(archive, own) for name, own in there.items()}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the columns differ in length: {', '.join(f'{name} {n}' for name, n in lengths.items())}")
        for name in texts:
            if (names := f"{there[name]}_names") in archive.files:
                indices, known = pa.array(arrays[name]), pa.array(_load_column(archive, names))
                arrays[name] = pa.DictionaryArray.from_arrays(indices, known)
        yield piece_of(arrays, numbers, texts, file.form.decimal)


def _load_column(archive: Mapping[str, Any], name: str) -> NDArray[Any]:
    try:
        array = archive[name]
    except ValueError:  # an object array would be unpickled
        raise InputError(f"column {name!r} cannot be read: {OBJECTS}") from None
    if not isinstance(array, np.ndarray) or array.ndim != 1:
        shape = f"has shape {array.shape}" if isinstance(array, np.ndarray) else "is no array of NumPy's"
        raise InputError(f"column {name!r} must be one-dimensional, but {shape}")
    return array


class _Kind(NamedTuple):
    """A kind of files: what reads it, and where a row stands that has a number from 0."""

    pieces: Callable[[TextFile, Sequence[str], Sequence[str]], Iterator[Piece]]
    word: str = "row"
    number: Callable[[TextFile, int, Sequence[str]], int | None] = lambda _, row, __: row


_TEXT = _Kind(text_pieces, "line", TextFile.line_of)
_KINDS = {
    **dict.fromkeys((".csv", ".tsv", ".csv.gz", ".tsv.gz"), _TEXT),
    **dict.fromkeys((".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"), _Kind(json_pieces, "line", json_line)),
    _PARQUET: _Kind(_parquet_pieces),
    **dict.fromkeys((".feather", ".arrow"), _Kind(_feather_pieces)),
    ".npz": _Kind(_npz_pieces),
    **dict.fromkeys(PACKAGES, _Kind(statistics_pieces, "observation", lambda _, row, __: row + 1)),
    **dict.fromkeys(WORKBOOKS, _Kind(workbook_pieces, "row", sheet_row)),
}
SUFFIXES = tuple(_KINDS)  # kinds of files, by their suffix

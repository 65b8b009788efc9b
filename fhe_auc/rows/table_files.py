"""Files of tables, each kind by its suffix; columns some rows at a time, entries as they are, unchecked.

Rows are named in errors as people find them: by the line of a text file, which an editor counts from 1, the row of a
sheet, the observation of a statistics package, otherwise by their number from 0. A missing entry is None, or NaN in a
column of numbers; texts such as NA are left as they are.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.base.file_kinds import LOOK, TEXT, FileKind, kind_of
from fhe_auc.rows.arrow_columns import piece_of
from fhe_auc.rows.arrow_files import PARQUET, feather_pieces, folder_of, parquet_files, parquet_pieces, parquet_rows
from fhe_auc.rows.csv_files import STDIN, TextFile, text_pieces
from fhe_auc.rows.json_lines import json_line, json_pieces
from fhe_auc.rows.pieces import OPTIONS, KeptPieces, Piece, Words, find_columns
from fhe_auc.rows.quotes import QuoteError
from fhe_auc.rows.statistics_files import PACKAGES, statistics_pieces
from fhe_auc.rows.workbooks import WORDS, WORKBOOKS, sheet_row, workbook_pieces

_EMPTY = FileKind("empty", ("",), "nothing was saved in it")
OBJECTS = "it holds Python objects, which could run code; save numbers or text, as with astype(float) or astype(str)"


@dataclass(frozen=True, eq=False)
class TableFile(TextFile):
    """One file, whose text is read as that of a `TextFile` where it is one; `path` "-" is standard input, which is.

    A `fhe_auc.rows.pieces.Table`; `folder_names` its party, by its folder and not by its own name. A folder of Parquet
    files, or a pattern such as "scores/*.parquet", is one table too. `sheet` is that of a workbook.
    """

    folder_names: bool = False
    sheet: str | None = None
    names_columns: ClassVar[bool] = True
    _kept: list[KeptPieces] = field(default_factory=list, init=False, repr=False)

    @property
    def party(self) -> str:
        """The file's name without its suffix, or that of its folder."""
        if self.folder_names:
            return self.path.parent.name
        if (folder := folder_of(self.path)) is not None:
            return folder.resolve().name.removesuffix(PARQUET)
        return "stdin" if self.path == STDIN else self.path.name[: len(self.path.name) - len(self.suffix)]

    @property
    def title(self) -> str:
        """How messages begin."""
        return f"file {self.name!r}"

    @property
    def file(self) -> str:
        """How errors name it."""
        return self.name

    @property
    def name(self) -> str:
        """How messages name it."""
        return "standard input" if self.path == STDIN else str(self.path)

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
        """The files of a folder or of a pattern; none for a file. Raise `InputError` as `parquet_files` does."""
        try:
            return [replace(self, path=path) for path in parquet_files(self.path)]
        except InputError as error:
            raise error.within(self.title, file=self.name) from None
        except OSError as error:
            raise InputError(f"{self.title} cannot be read: {_reason(error, '')}", file=self.name) from None

    def place(self, row: int, wanted: Sequence[str]) -> Place:
        """Return where a row, from 0, is; `wanted` are the columns that were read."""
        for part in self.parts:
            if row < (rows := parquet_rows(part.path)):
                return part.place(row, wanted)
            row -= rows
        kind = self._kind or _TEXT
        number = kind.number(self, row, wanted)
        line = number if kind.word == "line" else None
        return Place(f"{self.name}, {f'row {row}' if number is None else f'{kind.word} {number}'}", self.name, line)

    def keep(self, numbers: Sequence[str], texts: Sequence[str]) -> None:
        """Read what is not read in pieces."""
        if self._kind is not None and self._kind.once:
            self._kept[:] = [KeptPieces(self._read(numbers, texts))]

    def pieces(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        """Yield the rows of these columns, in order; raise `InputError` where the file cannot be read or lacks one."""
        for part in self.parts or [self]:
            yield from part._kept[0].pieces(numbers, texts) if part._kept else part._read(numbers, texts)

    def _read(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        kind = self._refuse_what_is_no_plain_file()
        if self._kind is None:
            known = ", ".join(SUFFIXES)
            raise InputError(f"file {self.name!r}: unknown suffix {self.suffix!r}; known are {known}", file=self.name)
        try:
            if kind.suffixes and self.suffix not in kind.suffixes and self._kind.word != "line":
                raise InputError(kind.told)
            yield from self._kind.pieces(self, numbers, texts)
            pa.default_memory_pool().release_unused()  # Arrow would keep it for its next file
        except QuoteError as error:
            line = self.line_at(error.offset)
            raise InputError(f"file {self.name!r}: line {line}: {error}", file=self.name, line=line) from None
        except InputError as error:
            raise error.within(f"file {self.name!r}", file=self.name) from None
        except Exception as error:  # what the libraries raise on damaged files has no end
            reason = kind.told if kind.advice and not kind.suffixes else _reason(error, self.wrong_encoding)
            raise InputError(f"file {self.name!r} cannot be read: {reason}", file=self.name) from None

    def _refuse_what_is_no_plain_file(self) -> FileKind:
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
            many = "" if folder_of(self.path) is None else "; a pattern is for Parquet files, other files are named"
            raise InputError(f"file {self.name!r} does not exist{many}", file=self.name) from None
        except (OSError, ValueError) as error:
            raise InputError(f"file {self.name!r} cannot be read: {_reason(error, '')}", file=self.name) from None
        if stat.S_ISDIR(mode):
            raise InputError(f"file {self.name!r} is a folder: name the files in it", file=self.name)
        told = "a pipe, a device or a socket: give a plain file, or text as standard input (-)"
        raise InputError(f"file {self.name!r} is {told}", file=self.name)

    @property
    def _kind(self) -> _Kind | None:
        return _KINDS.get(".csv" if self.path == STDIN else self.suffix)

    def open_native(self) -> Any:
        """Return the file as Arrow's own, whatever its name: Arrow takes a text for UTF-8, and bytes as they are."""
        return pa.OSFile(os.fsencode(self.path))


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


def _npz_pieces(file: TableFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    with file.path.open("rb") as opened:  # numpy leaves files open that it cannot read
        archive = np.load(opened, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise InputError("holds one array, not named columns; save it with numpy.savez")
        there = find_columns((*texts, *numbers), archive.files)
        arrays = {name: _load_column(archive, own) for name, own in there.items()}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the columns differ in length: {', '.join(f'{name} {n}' for name, n in lengths.items())}")
        for name in texts:
            if (names := f"{there[name]}_names") in archive.files:
                arrays[name] = _named_entries(name, arrays[name], _load_column(archive, names))
        yield piece_of(arrays, numbers, texts)


def _load_column(archive: Mapping[str, Any], name: str) -> NDArray[Any]:
    try:
        array = archive[name]
    except ValueError:  # an object array would be unpickled
        raise InputError(f"column {name!r} cannot be read: {OBJECTS}") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"column {name!r} is no array of NumPy's, but something else in the archive")
    if array.ndim != 1:
        raise InputError(f"column {name!r} must be one-dimensional, but has shape {array.shape}")
    return array


def _named_entries(column: str, entries: NDArray[Any], names: NDArray[Any]) -> NDArray[Any]:
    """Return the name of each entry, which is its index."""
    if entries.dtype.kind not in "iu":
        raise InputError(f"column {column!r} must hold indices into its names, but is of type {entries.dtype}")
    outside = (entries < 0) | (entries >= len(names))
    if outside.any():
        row = int(outside.argmax())
        raise InputError(f"row {row}: column {column!r} is {entries[row]}, but there are {len(names)} names")
    return np.asarray(names[entries])


class _Kind(NamedTuple):
    """A kind of files: what reads it, and where a row stands that has a number from 0."""

    pieces: Callable[[TableFile, Sequence[str], Sequence[str]], Iterator[Piece]]
    word: str = "row"
    number: Callable[[TableFile, int, Sequence[str]], int | None] = lambda _, row, __: row
    once: bool = False  # all is read at once


_TEXT = _Kind(text_pieces, "line", TableFile.line_of)
_KINDS = {
    **dict.fromkeys((".csv", ".tsv", ".csv.gz", ".tsv.gz"), _TEXT),
    **dict.fromkeys((".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"), _Kind(json_pieces, "line", json_line)),
    PARQUET: _Kind(parquet_pieces),
    **dict.fromkeys((".feather", ".arrow"), _Kind(feather_pieces)),
    ".npz": _Kind(_npz_pieces),
    **dict.fromkeys(PACKAGES, _Kind(statistics_pieces, "observation", lambda _, row, __: row + 1, True)),
    **dict.fromkeys(WORKBOOKS, _Kind(workbook_pieces, "row", sheet_row, True)),
}
SUFFIXES = tuple(_KINDS)  # kinds of files, by their suffix

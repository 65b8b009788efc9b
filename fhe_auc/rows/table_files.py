"""Columns of CSV, Parquet, Feather and NPZ files, some rows at a time; entries as they are, unchecked.

Rows are named in errors as people find them: by the line of a text file, which an editor counts from 1, otherwise by
their number from 0. A missing entry is None, or NaN in a column of numbers; texts such as NA are left as they are.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.rows.arrow_columns import arrow_piece, as_objects
from fhe_auc.rows.csv_files import STDIN, TextFile, text_pieces
from fhe_auc.rows.entries import Coded, canonical
from fhe_auc.rows.pieces import OPTIONS, KeptPieces, Piece, Words, find_columns
from fhe_auc.rows.quotes import QuoteError
from fhe_auc.rows.row_store import BATCH

_BUFFER = 2**18  # bytes of a column at a time
OBJECTS = "it holds Python objects, which could run code; save numbers or text, as with astype(float) or astype(str)"


@dataclass(frozen=True, eq=False)
class TableFile(TextFile):
    """One file, whose text is read as that of a `TextFile` where it is one; `path` "-" is standard input, which is.

    A `fhe_auc.rows.pieces.Table`; `folder_names` its party, by its folder and not by its own name.
    """

    folder_names: bool = False
    names_columns: ClassVar[bool] = True
    words: ClassVar[Words] = OPTIONS
    _kept: list[KeptPieces] = field(default_factory=list, init=False, repr=False)

    @property
    def party(self) -> str:
        """The file's name without its suffix, or that of its folder."""
        if self.folder_names:
            return self.path.parent.name
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

    def place(self, row: int, wanted: Sequence[str]) -> Place:
        """Return where a row, from 0, is; `wanted` are the columns that were read."""
        line = self.line_of(row, wanted) if self.is_text else None
        return Place(f"{self.name}, {f'row {row}' if line is None else f'line {line}'}", self.name, line)

    def keep(self, numbers: Sequence[str], texts: Sequence[str]) -> None:
        """Read what is not read in pieces."""
        if self.suffix in _READ_ONCE:
            self._kept[:] = [KeptPieces(self._read(numbers, texts))]

    def pieces(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        """Yield the rows of these columns, in order; raise `InputError` where the file cannot be read or lacks one."""
        yield from self._kept[0].pieces(numbers, texts) if self._kept else self._read(numbers, texts)

    def _read(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        self._refuse_what_is_no_plain_file()
        if not self.is_text and self.suffix not in _READERS:
            known = ", ".join(SUFFIXES)
            raise InputError(f"file {self.name!r}: unknown suffix {self.suffix!r}; known are {known}", file=self.name)
        try:
            if self.is_text:
                yield from text_pieces(self, numbers, texts)
            else:
                yield from _READERS[self.suffix](self, numbers, texts)
            pa.default_memory_pool().release_unused()  # Arrow would keep it for its next file
        except QuoteError as error:
            line = self.line_at(error.offset)
            raise InputError(f"file {self.name!r}: line {line}: {error}", file=self.name, line=line) from None
        except InputError as error:
            raise error.within(f"file {self.name!r}", file=self.name) from None
        except Exception as error:  # what the libraries raise on damaged files has no end
            reason = _reason(error, self.wrong_encoding)
            raise InputError(f"file {self.name!r} cannot be read: {reason}", file=self.name) from None

    def _refuse_what_is_no_plain_file(self) -> None:
        """Raise `InputError` for what is not there, a folder, or a pipe or a device: files are read more than once."""
        if self.path == STDIN:
            return
        try:
            mode = self.path.stat().st_mode
        except FileNotFoundError:
            raise InputError(f"file {self.name!r} does not exist", file=self.name) from None
        except (OSError, ValueError) as error:
            raise InputError(f"file {self.name!r} cannot be read: {_reason(error, '')}", file=self.name) from None
        if stat.S_ISDIR(mode):
            raise InputError(f"file {self.name!r} is a folder: name the files in it", file=self.name)
        if not stat.S_ISREG(mode):
            told = "a pipe, a device or a socket: give a plain file, or text as standard input (-)"
            raise InputError(f"file {self.name!r} is {told}", file=self.name)

    @property
    def is_text(self) -> bool:
        """Whether it is CSV or its like."""
        return self.path == STDIN or self.suffix in _TEXT_SUFFIXES

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


def _parquet_pieces(file: TableFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    from pyarrow.parquet import ParquetFile  # takes time to import

    # Otherwise it would hold all of the file, or of a group of rows.
    with file.open_native() as opened, ParquetFile(opened, pre_buffer=False, buffer_size=_BUFFER) as source:
        names = find_columns((*texts, *numbers), source.schema_arrow.names)
        for batch in source.iter_batches(BATCH, columns=[*names.values()]):
            yield arrow_piece(batch, names, numbers, texts)


def _feather_pieces(file: TableFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    with pa.memory_map(os.fsencode(file.path)) as mapped, pa.ipc.open_file(mapped) as source:
        names = find_columns((*texts, *numbers), source.schema.names)
        for at in range(source.num_record_batches):
            batch = source.get_batch(at)
            for start in range(0, batch.num_rows, BATCH):
                yield arrow_piece(batch.slice(start, BATCH), names, numbers, texts)


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

        def coded(column: str) -> Coded:
            names = f"{there[column]}_names"
            known = _load_column(archive, names) if names in archive.files else None
            return _named_entries(column, arrays[column], known)

        values = {
            name: array if array.dtype.kind in "biuf" else as_objects(array.tolist())
            for name, array in arrays.items()
            if name in numbers
        }
        yield Piece(values, {name: coded(name) for name in texts})


def _load_column(archive: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    try:
        array = archive[name]
    except ValueError:  # an object array would be unpickled
        raise InputError(f"column {name!r} cannot be read: {OBJECTS}") from None
    if array.ndim != 1:
        raise InputError(f"column {name!r} must be one-dimensional, but has shape {array.shape}")
    return array


def _named_entries(column: str, entries: NDArray[Any], names: NDArray[Any] | None) -> Coded:
    if names is None:
        distinct, codes = np.unique(entries, return_inverse=True)
        return Coded(codes.astype(np.int32), [canonical(entry, site=True) for entry in distinct.tolist()])
    if entries.dtype.kind not in "iu":
        raise InputError(f"column {column!r} must hold indices into its names, but is of type {entries.dtype}")
    outside = (entries < 0) | (entries >= len(names))
    if outside.any():
        row = int(outside.argmax())
        raise InputError(f"row {row}: column {column!r} is {entries[row]}, but there are {len(names)} names")
    return Coded(entries.astype(np.int32), [canonical(entry, site=True) for entry in names.tolist()])


_TEXT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_READERS = {".parquet": _parquet_pieces, ".feather": _feather_pieces, ".arrow": _feather_pieces, ".npz": _npz_pieces}

_READ_ONCE = frozenset[str]()  # kinds of files of which all is read at once

SUFFIXES = (*_TEXT_SUFFIXES, *_READERS)  # kinds of files, by their suffix

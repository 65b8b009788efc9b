"""Columns of CSV, Parquet, Feather and NPZ files, some rows at a time; entries as they are, unchecked.

Rows are named in errors as people find them: by the line of a text file, which an editor counts from 1, otherwise by
their number from 0. A missing entry is None, or NaN in a column of numbers; texts such as NA are left as they are.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.base.suggestions import known_names
from fhe_auc.rows.entries import Coded, level_text, name_text
from fhe_auc.rows.quotes import QuoteError, Quotes
from fhe_auc.rows.row_store import BATCH

STDIN = Path("-")
OBJECTS = "it holds Python objects, which could run code; save numbers or text, as with astype(float) or astype(str)"

_BLOCK = 2**22  # bytes of text at a time
_SMALL = 2**18  # what a processor's cache holds
_GZIP = b"\x1f\x8b"  # how its files begin
_DELIMITERS = (",", ";", "\t", "|")
_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """How text files are written.

    Attributes
    ----------
    delimiter : str or None
        One character between columns; None: the one of comma, semicolon, tab and | that gives the columns asked for.
    decimal : str
        "." or ",".
    encoding : str
        Any that Python knows, such as "utf-8", "windows-1252", "utf-16".
    """

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or not self.delimiter.isascii()):
            raise InputError(f"the delimiter is one ASCII character, got {self.delimiter!r}")
        if self.decimal not in (".", ","):
            raise InputError(f"the decimal mark is a point or a comma, got {self.decimal!r}")
        try:
            "".encode(self.encoding)
        except LookupError:
            raise InputError(f"the encoding {self.encoding!r} is unknown") from None


class Piece(NamedTuple):
    """Some rows: columns of numbers as arrays, all others coded."""

    numbers: dict[str, NDArray[Any]]
    texts: dict[str, Coded]


@dataclass(frozen=True, eq=False)
class TableFile:
    """One file; `path` "-" is standard input, which is text."""

    path: Path
    form: TextFormat = field(default_factory=TextFormat)

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
        line = self._line(row, wanted) if self.is_text else None
        return Place(f"{self.name}, {f'row {row}' if line is None else f'line {line}'}", self.name, line)

    def pieces(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        """Yield the rows of these columns, in order; raise `InputError` where the file cannot be read or lacks one."""
        self._refuse_what_is_no_plain_file()
        read = _text_pieces if self.path == STDIN else _READERS.get(self.suffix)
        if read is None:
            raise InputError(
                f"file {self.name!r}: unknown suffix {self.suffix!r}; known are {', '.join(_READERS)}", file=self.name
            )
        try:
            yield from read(self, tuple(numbers), tuple(texts))
        except QuoteError as error:
            line = self.line_at(error.offset)
            raise InputError(f"file {self.name!r}: line {line}: {error}", file=self.name, line=line) from None
        except InputError as error:
            raise error.within(f"file {self.name!r}", file=self.name) from None
        except Exception as error:  # what the libraries raise on damaged files has no end
            raise InputError(
                f"file {self.name!r} cannot be read: {_reason(error, self.wrong_encoding)}", file=self.name
            ) from None

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
            raise InputError(
                f"file {self.name!r} is a pipe, a device or a socket: give a plain file, or text as standard input (-)",
                file=self.name,
            )

    @property
    def wrong_encoding(self) -> str:
        """What to say of a text file that is not in the encoding given."""
        if self._encoding == "utf-8-sig":
            return "it is not UTF-8 text; say its encoding, as in --encoding windows-1252"
        return f"it is not {self._encoding} text, and --encoding is that of all text files: save it again in that one"

    @property
    def is_text(self) -> bool:
        """Whether it is CSV or its like."""
        return self.path == STDIN or self.suffix in _TEXT_SUFFIXES

    def open_bytes(self) -> Any:
        """Return the bytes of a text file, decompressed, as a file of Arrow's own.

        Arrow reads ahead in threads. With a file of Python's these abort the process where it ends while they read.
        """
        if self.path == STDIN:
            kept = _standard_input()
            kept.flush()
            if sys.platform == "linux":
                return pa.OSFile(f"/proc/self/fd/{kept.fileno()}")  # opened anew, from its beginning
            kept.seek(0)
            return pa.BufferReader(kept.read())
        with self.path.open("rb") as file:
            zipped = file.read(2) == _GZIP  # whatever its name
        return pa.CompressedInputStream(self.open_native(), "gzip") if zipped else self.open_native()

    def open_native(self) -> Any:
        """Return the file as Arrow's own, whatever its name: Arrow takes a text for UTF-8, and bytes as they are."""
        return pa.OSFile(os.fsencode(self.path))

    def open_text(self) -> IO[bytes]:
        """Return the bytes of a text file, decompressed, from the beginning."""
        if self.path == STDIN:
            file = _standard_input()
            file.seek(0)
            return file
        opened: IO[bytes] = self.open_bytes()
        return opened

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes of a text file; as UTF-8, where its encoding does not have ASCII characters as one byte."""
        if '",\n'.encode(self.form.encoding) == b'",\n':
            stream = self.open_text()
            yield from iter(lambda: stream.read(_SMALL), b"")
            return
        with self.decoded() as text:
            yield from iter(lambda: text.read(_SMALL).encode(), b"")

    def delimiter(self, wanted: Sequence[str]) -> str:
        """Return the delimiter that was given, or that of the header with all these columns."""
        if self.form.delimiter is not None:
            return self.form.delimiter
        if (stated := self.stated_delimiter()) is not None:
            return stated
        if ".tsv" in self.suffix:
            return "\t"
        header = self.header(",")
        line = ",".join(header)
        for delimiter in _DELIMITERS:
            names = {name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])}
            if names.issuperset(wanted):
                return delimiter
        return ","

    def stated_delimiter(self) -> str | None:
        """Return what a first line such as "sep=;", which is for Excel, says that the delimiter is."""
        with self.decoded() as text:
            stated = re.fullmatch(r"sep=(.)[\r\n]+", text.readline(7))
        return stated and stated[1]

    def header(self, delimiter: str) -> list[str]:
        """Return the names of the columns as they stand there; none in an empty file."""
        return next((names for _, names in self.records(delimiter)), [])

    def records(self, delimiter: str, errors: str = "replace") -> Iterator[tuple[int, list[str]]]:
        """Yield the header and each row, with the line on which it begins; blank lines are none.

        `errors` is what to do with text in another encoding, as for `open`.
        """
        lines = 0 if self.stated_delimiter() is None else 1
        with self.decoded(errors) as text:
            for _ in range(lines):
                text.readline()
            reader, before = csv.reader(text, delimiter=delimiter), 0
            for record in reader:
                if record:
                    yield lines + before + 1, record
                before = reader.line_num

    def decoded(self, errors: str = "replace") -> io.TextIOWrapper:
        """Return the text of a text file, from the beginning."""
        buffered = io.BufferedReader(_Unclosed(self.open_text()))
        return io.TextIOWrapper(buffered, self._encoding, newline="", errors=errors)

    @property
    def _encoding(self) -> str:
        return "utf-8-sig" if self.form.encoding.lower().replace("_", "-") in ("utf-8", "utf8") else self.form.encoding

    def _line(self, row: int, wanted: Sequence[str]) -> int | None:
        """Return the line on which a row begins; a row may take several. None where that cannot be told."""
        try:
            return next((line for line, _ in islice(self.records(self.delimiter(wanted)), row + 1, None)), None)
        except csv.Error:
            return None

    def line_at(self, offset: int) -> int:
        """Return the line of a byte of the `blocks`."""
        lines = 1
        for block in self.blocks():
            lines += block[: max(offset, 0)].count(b"\n")
            offset -= len(block)
        return lines


class _Unclosed(io.RawIOBase):
    """What reads a stream from its beginning and leaves it open: standard input can be had once only."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _standard_input() -> IO[bytes]:
    """Return all of standard input as a file that can be read again; unnamed, where it is long."""
    if not _STANDARD_INPUT:
        kept: Any = tempfile.SpooledTemporaryFile(max_size=_BLOCK)  # noqa: SIM115
        shutil.copyfileobj(sys.stdin.buffer, kept)
        kept.seek(0)
        if kept.read(2) == _GZIP:
            kept.seek(0)
            zipped, kept = kept, tempfile.SpooledTemporaryFile(max_size=_BLOCK)  # noqa: SIM115
            shutil.copyfileobj(gzip.GzipFile(fileobj=zipped, mode="rb"), kept)
        _STANDARD_INPUT.append(kept)
    return _STANDARD_INPUT[0]


_STANDARD_INPUT: list[IO[bytes]] = []


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


_OPTIONS = {"y_true": "--label-column", "y_score": "--score-column"}  # who meets these names has not given any


def _require(wanted: Sequence[str], there: Sequence[str]) -> None:
    times = Counter(there)
    for name in wanted:
        if times[name] == 0:
            hint = f"; {_OPTIONS[name]} names the right one" if name in _OPTIONS else ""
            raise InputError(f"there is no column {name!r}{known_names(name, there)}{hint}", column=name)
        if times[name] > 1:
            raise InputError(f"column {name!r} is there {times[name]} times", column=name)


# Text -----------------------------------------------------------------------------------------------------------------


def _text_pieces(file: TableFile, numbers: tuple[str, ...], texts: tuple[str, ...]) -> Iterator[Piece]:
    start = file.open_text().read(2)
    if start in (b"\xff\xfe", b"\xfe\xff") and not file.form.encoding.lower().startswith("utf-16"):
        raise InputError("it is UTF-16 text; say so with --encoding utf-16")
    wanted = (*texts, *numbers)
    delimiter = file.delimiter(wanted)
    yielded = 0
    for kind in (pa.float64(), pa.string()):  # text, where something is no number: so that its row can be named
        try:
            for batch in _batches(file, wanted, delimiter, dict.fromkeys(numbers, kind) | dict.fromkeys(texts, _TEXT)):
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                skipped = min(yielded, batch.num_rows) if kind == pa.string() else 0
                yielded -= skipped
                if skipped < batch.num_rows:
                    yield Piece(
                        {name: _numbers_of(columns[name], file.form.decimal)[skipped:] for name in numbers},
                        {name: _coded(columns[name]).chosen(slice(skipped, None)) for name in texts},
                    )
                if kind == pa.float64():
                    yielded += batch.num_rows
            return
        except pa.ArrowInvalid as error:
            if kind == pa.string() or "conversion error to double" not in str(error):
                raise


def _batches(file: TableFile, wanted: Sequence[str], delimiter: str, types: Mapping[str, Any]) -> Iterator[Any]:
    given = {
        "parse_options": pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "read_options": pa_csv.ReadOptions(
            block_size=_BLOCK, encoding=file.form.encoding, skip_rows=0 if file.stated_delimiter() is None else 1
        ),
    }
    header = file.header(delimiter)
    if not header:
        raise InputError("the file is empty")
    raw = {name.strip(): name for name in header}
    _require(wanted, [name.strip() for name in header])
    converting = pa_csv.ConvertOptions(
        include_columns=[raw[name] for name in wanted],
        column_types={raw[name]: kind for name, kind in types.items()},
        strings_can_be_null=False,
        decimal_point=file.form.decimal,
    )
    quotes = Quotes(
        delimiter.encode(),
        len(header),
        [header.index(raw[name]) for name, kind in types.items() if kind != _TEXT],
        lambda text: float(text.replace(file.form.decimal, ".")),
        _BLOCK,
    )
    blocks = file.blocks()  # the same text once more, beside Arrow: while the system has it in memory
    try:
        with pa_csv.open_csv(file.open_bytes(), convert_options=converting, **given) as reader:
            for batch in reader:
                for block in islice(blocks, -(-_BLOCK // _SMALL)):
                    quotes.feed(block)
                yield batch.rename_columns(list(wanted))
    except pa.ArrowInvalid as error:
        quotes.feed_all(blocks)  # what a quote does to the rows behind it is no fault of these
        if "Empty CSV file" in str(error):  # a header that no line break ends
            return
        if re.search(r"Expected \d+ columns, got", str(error)):
            _refuse_other_lengths(file, delimiter)
        raise
    quotes.feed_all(blocks)


def _refuse_other_lengths(file: TableFile, delimiter: str) -> None:
    """Raise `InputError` for the first row that is not as long as the header."""
    records = file.records(delimiter)
    _, header = next(records)
    for number, (line, row) in enumerate(records):
        if len(row) != len(header):
            advice = "" if number else "; --delimiter says what stands between columns"
            found = f"{len(row)} column{'s' * (len(row) != 1)}"
            raise InputError(f"line {line}: {found}, and the header has {len(header)}{advice}", line=line)


def _numbers_of(column: Any, decimal: str) -> NDArray[Any]:
    """Return numbers, or each entry by itself where one is none; with None for what is missing."""
    if pa.types.is_floating(column.type):
        return _arrow_values(column)
    texts = column.to_pylist()
    if decimal == ".":
        _refuse_commas([text.strip() for text in texts])
    return _as_objects([_number_or_text(entry, decimal) for entry in texts])


def _refuse_commas(texts: list[str]) -> None:
    """Raise `InputError` where numbers have a comma, with the remedy: in 1,200 it may part thousands, in 0,25 not."""
    commas = [text for text in texts if re.fullmatch(r"[-+]?\d+,\d+", text)]
    unclear = [text for text in commas if re.fullmatch(r"[-+]?[1-9]\d{0,2},\d{3}", text)]
    if commas and len(unclear) < len(commas):
        first = next(text for text in commas if text not in unclear)
        raise InputError(f"{first!r} has a decimal comma; say so with --decimal ,")
    if commas:
        raise InputError(
            f"{commas[0]!r} may be {commas[0].replace(',', '')} or {commas[0].replace(',', '.')}: write numbers with a "
            "decimal point, and without a mark between thousands"
        )


def _number_or_text(text: str, decimal: str) -> float | str | None:
    if level_text(text) is None:
        return None
    if decimal == "," and re.fullmatch(r"\s*[-+]?\d+(\.\d+)+(,\d+)?\s*", text):
        raise InputError(
            f"{text.strip()!r} has a point, and the decimal mark is a comma: a point between thousands is to be removed"
        )
    if re.fullmatch(r"\s*[-+]?\d+([.,]\d+)?\s*%\s*", text):
        raise InputError(f"{text.strip()!r} has a percent sign; remove it and give --score-scale percent")
    try:
        return text if "_" in text else float(text.replace(decimal, "."))  # Python reads 1_000 as a number
    except ValueError:
        return text


def _coded(column: Any) -> Coded:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    entries = [name_text(entry) for entry in column.dictionary.to_pylist()]
    index = {name: code for code, name in enumerate(dict.fromkeys(entries))}
    lookup = np.array([index[entry] for entry in entries] or [0], np.int32)
    return _with_missing(column.indices, lookup, list(index))


def _with_missing(indices: Any, lookup: NDArray[np.int32], names: list[str | None]) -> Coded:
    if indices.null_count:
        if None not in names:
            names.append(None)
        missing = _array(indices.is_null())
        codes = np.where(missing, 0, _array(indices))
        return Coded(np.where(missing, names.index(None), lookup[codes]), names)
    return Coded(lookup[_array(indices)], names)


# Parquet and Feather --------------------------------------------------------------------------------------------------


def _parquet_pieces(file: TableFile, numbers: tuple[str, ...], texts: tuple[str, ...]) -> Iterator[Piece]:
    from pyarrow.parquet import ParquetFile  # takes time to import

    with (
        file.open_native() as opened,
        ParquetFile(opened, pre_buffer=False) as source,
    ):  # or it would hold all of the file
        _require((*texts, *numbers), source.schema_arrow.names)
        for batch in source.iter_batches(BATCH, columns=[*numbers, *texts]):
            yield _arrow_piece(batch, numbers, texts)


def _feather_pieces(file: TableFile, numbers: tuple[str, ...], texts: tuple[str, ...]) -> Iterator[Piece]:
    with pa.memory_map(os.fsencode(file.path)) as mapped, pa.ipc.open_file(mapped) as source:
        _require((*texts, *numbers), source.schema.names)
        for at in range(source.num_record_batches):
            batch = source.get_batch(at)
            for start in range(0, batch.num_rows, BATCH):
                yield _arrow_piece(batch.slice(start, BATCH), numbers, texts)


def _arrow_piece(batch: Any, numbers: tuple[str, ...], texts: tuple[str, ...]) -> Piece:
    return Piece(
        {name: _arrow_values(batch.column(name)) for name in numbers},
        {name: _coded_column(name, batch.column(name)) for name in texts},
    )


def _coded_column(name: str, column: Any) -> Coded:
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    try:
        return _coded(column)
    except pa.ArrowNotImplementedError:
        raise InputError(
            f"column {name!r} holds {column.type} entries, and not one text or number for each row"
        ) from None


def _arrow_values(column: Any) -> NDArray[Any]:
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    plain = pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
    if plain and column.null_count == 0:
        return _array(column)
    return _as_objects([name_text(entry) if isinstance(entry, bytes) else entry for entry in column.to_pylist()])


def _array(column: Any) -> NDArray[Any]:
    """Return numbers or Booleans as numpy has them, with anything where one is missing.

    Arrow's own way imports pandas where that is installed, for half a second.
    """
    if pa.types.is_boolean(column.type):
        return _array(column.cast(pa.uint8())).view(np.bool_)
    letter = "f" if pa.types.is_floating(column.type) else "i" if pa.types.is_signed_integer(column.type) else "u"
    kind = np.dtype(f"{letter}{column.type.bit_width // 8}")
    _, values = column.buffers()
    if values is None:  # of no rows
        return np.empty(0, kind)
    return np.frombuffer(values, kind, len(column), column.offset * kind.itemsize)


# NPZ ------------------------------------------------------------------------------------------------------------------


def _npz_pieces(file: TableFile, numbers: tuple[str, ...], texts: tuple[str, ...]) -> Iterator[Piece]:
    with file.path.open("rb") as opened:  # numpy leaves files open that it cannot read
        archive = np.load(opened, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise InputError("holds one array, not named columns; save it with numpy.savez")
        wanted = (*texts, *numbers)
        _require(wanted, archive.files)
        arrays = {name: _load_column(archive, name) for name in wanted}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the columns differ in length: {', '.join(f'{name} {n}' for name, n in lengths.items())}")

        def coded(column: str) -> Coded:
            names = f"{column}_names"
            known = _load_column(archive, names) if names in archive.files else None
            return _named_entries(column, arrays[column], known)

        yield Piece({name: _npz_values(arrays[name]) for name in numbers}, {name: coded(name) for name in texts})


def _load_column(archive: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    try:
        array = archive[name]
    except ValueError:  # an object array would be unpickled
        raise InputError(f"column {name!r} cannot be read: {OBJECTS}") from None
    if array.ndim != 1:
        raise InputError(f"column {name!r} must be one-dimensional, but has shape {array.shape}")
    return array


def _npz_values(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind in "biuf":
        return array
    return _as_objects([name_text(entry) if isinstance(entry, bytes) else entry for entry in array.tolist()])


def _named_entries(column: str, entries: NDArray[Any], names: NDArray[Any] | None) -> Coded:
    if names is None:
        distinct, codes = np.unique(entries, return_inverse=True)
        return Coded(codes.astype(np.int32), [name_text(entry) for entry in distinct.tolist()])
    if entries.dtype.kind not in "iu":
        raise InputError(f"column {column!r} must hold indices into its names, but is of type {entries.dtype}")
    outside = (entries < 0) | (entries >= len(names))
    if outside.any():
        row = int(outside.argmax())
        raise InputError(f"row {row}: column {column!r} is {entries[row]}, but there are {len(names)} names")
    return Coded(entries.astype(np.int32), [name_text(entry) for entry in names.tolist()])


def _as_objects(entries: list[Any]) -> NDArray[Any]:
    """Keep each entry as it is, so that an error can show it; numpy.array would turn a mixture into text."""
    return np.fromiter(entries, dtype=object, count=len(entries))


_TEXT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_READERS = {
    **dict.fromkeys(_TEXT_SUFFIXES, _text_pieces),
    ".parquet": _parquet_pieces,
    ".feather": _feather_pieces,
    ".arrow": _feather_pieces,
    ".npz": _npz_pieces,
}

SUFFIXES = tuple(_READERS)
"""Kinds of files, by their suffix."""

"""CSV files and their like, some rows at a time: Arrow reads rows; here are delimiters, lines of rows, and messages."""

import csv
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.rows.arrow_columns import arrow_values, as_objects, coded
from fhe_auc.rows.entries import canonical
from fhe_auc.rows.pieces import Piece, find_columns
from fhe_auc.rows.quotes import Quotes

STDIN = Path("-")

_BLOCK = 2**20  # bytes of text at a time
_LONGEST = 2**22  # bytes of a row
_SMALL = 2**18  # what a processor's cache holds
_GZIP = b"\x1f\x8b"  # how its files begin
_DELIMITERS = (",", ";", "\t", "|")
_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """How text files are written.

    `delimiter` is one character between columns; None: the one of comma, semicolon, tab and | that gives the columns
    asked for. `decimal` is "." or ",", `encoding` any that Python knows. Raises `InputError` for others.
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


@dataclass(frozen=True, eq=False)
class TextFile:
    """One text file; `path` "-" is standard input."""

    path: Path
    form: TextFormat = field(default_factory=TextFormat)

    @property
    def wrong_encoding(self) -> str:
        """What to say of a text file that is not in the encoding given."""
        if self._encoding == "utf-8-sig":
            return "it is not UTF-8 text; say its encoding, as in --encoding windows-1252"
        return f"it is not {self._encoding} text, and --encoding is that of all text files: save it again in that one"

    def open_bytes(self) -> Any:
        """Return the bytes of a text file, decompressed, as a file of Arrow's own.

        Arrow reads ahead in threads. With a file of Python's these abort the process where it ends while they read.
        """
        opened = _standard_input() if self.path == STDIN else pa.OSFile(os.fsencode(self.path))  # bytes as they are
        zipped = opened.read(len(_GZIP)) == _GZIP  # whatever its name
        opened.seek(0)
        return pa.CompressedInputStream(opened, "gzip") if zipped else opened

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes of a text file; as UTF-8, where its encoding does not have ASCII characters as one byte."""
        if '",\n'.encode(self.form.encoding) == b'",\n':
            with self.open_bytes() as stream:
                yield from iter(lambda: stream.read(_SMALL), b"")
        else:
            with self.decoded() as text:
                yield from iter(lambda: text.read(_SMALL).encode(), b"")

    def delimiter(self, wanted: Sequence[str]) -> str:
        """Return the delimiter that was given, or that of the header with all these columns."""
        if self.form.delimiter is not None:
            return self.form.delimiter
        if (stated := self.stated_delimiter()) is not None:
            return stated
        if self.path.name.lower().removesuffix(".gz").endswith(".tsv"):
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
        """Yield the header and each row, blank lines apart, and the line where it begins; `errors` as for `open`."""
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
        return io.TextIOWrapper(self.open_bytes(), self._encoding, newline="", errors=errors)

    @property
    def _encoding(self) -> str:
        return "utf-8-sig" if self.form.encoding.lower().replace("_", "-") in ("utf-8", "utf8") else self.form.encoding

    def line_of(self, row: int, wanted: Sequence[str]) -> int | None:
        """Return the line on which a row, from 0, begins; a row may take several. None where that cannot be told."""
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


def _standard_input() -> Any:
    """Return all of standard input, from its beginning; it can be had once only, and is kept in an unnamed file."""
    if not _STANDARD_INPUT:
        _STANDARD_INPUT.append(tempfile.SpooledTemporaryFile(_LONGEST))  # noqa: SIM115
        shutil.copyfileobj(sys.stdin.buffer, _STANDARD_INPUT[0])
        _STANDARD_INPUT[0].flush()
    kept = _STANDARD_INPUT[0]
    if sys.platform == "linux":
        return pa.OSFile(f"/proc/self/fd/{kept.fileno()}")  # opened anew
    kept.seek(0)
    return pa.BufferReader(kept.read())


_STANDARD_INPUT: list[IO[bytes]] = []


def text_pieces(file: TextFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield the rows of these columns, in order; raise `InputError`, or what Arrow raises on what is no CSV."""
    start = file.open_bytes().read(2)
    if start in (b"\xff\xfe", b"\xfe\xff") and not file.form.encoding.lower().startswith("utf-16"):
        raise InputError("it is UTF-16 text; say so with --encoding utf-16")
    wanted = (*texts, *numbers)
    delimiter = file.delimiter(wanted)
    yielded, kind, size = 0, pa.float64(), _BLOCK
    while True:
        types, behind = dict.fromkeys(numbers, kind) | dict.fromkeys(texts, _TEXT), yielded
        try:
            for batch in _batches(file, wanted, delimiter, types, size):
                skipped = min(behind, batch.num_rows)
                behind -= skipped
                if skipped < batch.num_rows:
                    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                    found = {name: _numbers_of(columns[name], file.form.decimal) for name in numbers}
                    yield Piece(found, {name: coded(columns[name], file.form.decimal) for name in texts}).chosen(
                        slice(skipped, None)
                    )
                    yielded += batch.num_rows - skipped
            return
        except pa.ArrowInvalid as error:
            if size < _LONGEST and "straddling" in str(error):
                size = _LONGEST
            elif kind == pa.float64() and "conversion error to double" in str(error):
                kind = pa.string()  # so that the row can be named
            else:
                raise


def _batches(
    file: TextFile, wanted: Sequence[str], delimiter: str, types: Mapping[str, Any], size: int
) -> Iterator[Any]:
    """Yield the rows in so many bytes of text at a time."""
    skipped = 0 if file.stated_delimiter() is None else 1
    header = file.header(delimiter)
    if not header:
        raise InputError("the file is empty")
    raw = find_columns(wanted, header)
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
        _LONGEST,
    )
    blocks = file.blocks()  # the same text once more, beside Arrow: while the system has it in memory
    try:
        with pa_csv.open_csv(
            file.open_bytes(),
            read_options=pa_csv.ReadOptions(block_size=size, encoding=file.form.encoding, skip_rows=skipped),
            parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=converting,
        ) as reader:
            for batch in reader:
                for block in islice(blocks, -(-size // _SMALL)):
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


def _refuse_other_lengths(file: TextFile, delimiter: str) -> None:
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
        return arrow_values(column)
    texts = column.to_pylist()
    if decimal == ".":
        _refuse_commas([text.strip() for text in texts])
    return as_objects([_number_or_text(entry, decimal) for entry in texts])


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
    if canonical(text) is None:
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

"""CSV files and their like, some rows at a time: Arrow reads rows; here are delimiters, lines of rows, and messages.

Standard input, and what is compressed or no UTF-8, is read once, into an unnamed temporary file.
"""

import codecs
import importlib.util
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from fhe_auc.base.errors import InputError
from fhe_auc.base.file_kinds import LOOK, TEXT, kind_of, text_in, utf8_marks
from fhe_auc.rows.arrow_columns import piece_of
from fhe_auc.rows.entries import number_of
from fhe_auc.rows.pieces import Piece, column_names, find_columns
from fhe_auc.rows.quotes import Quotes

STDIN = Path("-")

_BLOCK = 2**20  # bytes of text at a time
_LONGEST = 2**22  # bytes of an entry over several lines
_LONGEST_ROW = 2**26  # bytes
_SMALL = 2**18  # what a processor's cache holds
_TOP = 20  # lines, one of which may be the header
_DELIMITERS = (",", ";", "\t", "|")
_TEXT = pa.dictionary(pa.int32(), pa.string())
_SPEC: Any = importlib.util.find_spec("_csv")
CSV: Any = importlib.util.module_from_spec(_SPEC)
"""Python's reader of CSV, loaded once more: how long an entry may be is one number for all who use a module."""
_SPEC.loader.exec_module(CSV)
CSV.field_size_limit(_LONGEST_ROW)


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """How text files are written.

    `delimiter` is one character between columns, a tab also by name; None: the one of comma, semicolon, tab and | that
    gives the columns asked for. `decimal` is "." or ",", `encoding` any that Python knows. Raises `InputError` for
    others.
    """

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if (self.delimiter or "").lower() in ("\\t", "tab"):
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and not re.fullmatch("[\t -!#-~]", self.delimiter):
            raise InputError(f"the delimiter is one ASCII character, no quote, or tab, got {self.delimiter!r}")
        if self.decimal not in (".", ","):
            raise InputError(f"the decimal mark is a point or a comma, got {self.decimal!r}")
        try:
            "".encode(self.encoding)
        except (LookupError, ValueError):
            raise InputError(
                f"the encoding {self.encoding!r} is unknown; some are utf-8, utf-16, windows-1252"
            ) from None


@dataclass(frozen=True, eq=False)
class TextFile:
    """One file, as text; `path` "-" is standard input, and `sheet` that of a workbook, which is no text."""

    path: Path
    form: TextFormat = field(default_factory=TextFormat)
    sheet: str | None = None

    @property
    def wrong_encoding(self) -> str:
        """What to say of a text file that is not in the encoding given."""
        if codecs.lookup(self.form.encoding).name.startswith(TEXT.encoding):
            return "it is not UTF-8 text; say its encoding, as in --encoding windows-1252"
        told = "text, and --encoding is that of all text files: save it again in that one"
        return f"it is not {self.form.encoding} {told}"

    def open_text(self) -> Any:
        """Return the text in UTF-8, decompressed and without marks, as a file of Arrow's own.

        Arrow reads ahead in threads. With a file of Python's these abort the process where it ends while they read.
        Raises `InputError` where it is no text, or in another encoding than is said.
        """
        opened = self._open() if self.source[1] is None else _opened(self.source[1])
        opened.seek(utf8_marks(opened.read(LOOK)))
        return opened

    def _open(self) -> Any:
        return _opened(_standard_input()) if self.path == STDIN else pa.OSFile(os.fsencode(self.path))  # whatever bytes

    @cached_property
    def source(self) -> tuple[str, Any]:
        """Its encoding, and its text in UTF-8 where the file itself has it not; errors as of `open_text`."""
        encoding, blocks = text_in(self._open(), self.form.encoding)
        return encoding, None if blocks is None else _kept(blocks)

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes of the text, as of `open_text`."""
        with self.open_text() as stream:
            yield from iter(lambda: stream.read(_SMALL), b"")

    def delimiter(self, wanted: Sequence[str]) -> str:
        """Return the delimiter that is given, in the file or else, or that of the header with most of these columns."""
        if given := self.form.delimiter or self.stated_delimiter():
            return given
        usual = "\t" if self.path.name.lower().removesuffix(".gz").endswith(".tsv") else ","
        names = {each: column_names(self.header(each)) for each in dict.fromkeys((usual, *_DELIMITERS))}
        return max(names, key=lambda each: (len(names[each] & column_names(wanted)), len(names[each])))

    def stated_delimiter(self) -> str | None:
        """Return what a first line such as "sep=;", which is for Excel, says that the delimiter is."""
        with self.decoded() as text:
            stated = re.fullmatch(r'"?sep=([\t -~])"?\1*[\r\n]+', text.readline(_TOP), re.IGNORECASE)
        return stated and stated[1]

    def header(self, delimiter: str) -> list[str]:
        """Return the names of the columns as they stand there; none in an empty file."""
        return next((names for _, names in self.records(delimiter)), [])

    def records(self, delimiter: str, errors: str = "replace") -> Iterator[tuple[int, list[str]]]:
        """Yield the header and each row, blank lines apart, and the line where it begins; `errors` as for `open`."""
        begin = 0 if self.stated_delimiter() is None else 1
        with self.decoded(errors) as text:
            reader, before = CSV.reader(text, delimiter=delimiter), 0
            for record in reader:
                if record and before >= begin:
                    yield before + 1, record
                before = reader.line_num

    def decoded(self, errors: str = "replace") -> io.TextIOWrapper:
        """Return the text of a text file, from the beginning."""
        return io.TextIOWrapper(self.open_text(), TEXT.encoding, newline="", errors=errors)

    def line_of(self, row: int, wanted: Sequence[str]) -> int | None:
        """Return the line on which a row, from 0, begins; a row may take several. None where that cannot be told."""
        try:
            return next((line for line, _ in islice(self.records(self.delimiter(wanted)), row + 1, None)), None)
        except CSV.Error:
            return None

    def line_at(self, offset: int) -> int:
        """Return the line of a byte of the `blocks`."""
        lines = 1
        for block in self.blocks():
            lines += block[: max(offset, 0)].count(b"\n")
            offset -= len(block)
        return lines


@cache
def _standard_input() -> Any:
    return _kept(iter(lambda: sys.stdin.buffer.read(_SMALL), b""))  # which can be had once only


def _kept(blocks: Iterable[bytes]) -> Any:
    """Return an unnamed file of these bytes; raise `InputError` where the temporary folder has no room for them."""
    with tempfile.TemporaryFile() as file:
        for block in blocks:
            try:
                file.write(block)
                file.flush()
            except OSError as error:
                told = f"{tempfile.gettempdir()!r} (TMPDIR) has no room for its text: {error.strerror}"
                raise InputError(told) from None
        file.seek(0)
        return _opened(file) if sys.platform == "linux" else pa.py_buffer(file.read())


def _opened(kept: Any) -> Any:
    """Open an unnamed file anew, as one of Arrow's own."""
    return pa.BufferReader(kept) if isinstance(kept, pa.Buffer) else pa.OSFile(f"/proc/self/fd/{kept.fileno()}")


def text_pieces(file: TextFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield the rows of these columns, in order; raise `InputError`, or what Arrow raises on what is no CSV."""
    if (other := kind_of(file.open_text().read(LOOK))) is not TEXT:
        raise InputError(other.told)
    wanted = (*texts, *numbers)
    delimiter = file.delimiter(wanted)
    header = file.header(delimiter)
    if not header:
        raise InputError("the file is empty")
    yielded, kind = 0, pa.float64()
    size = max(_BLOCK, sum(2 * len(name.encode()) + 6 for name in header))
    while True:
        types, behind = dict.fromkeys(numbers, kind) | dict.fromkeys(texts, _TEXT), yielded
        try:
            for batch in _batches(file, wanted, delimiter, header, types, size):
                more = batch.slice(behind)
                behind = max(behind - batch.num_rows, 0)
                if more.num_rows:
                    yield piece_of(dict(zip(wanted, more.columns, strict=True)), numbers, texts, file.form.decimal)
                    yielded += more.num_rows
            vars(file).pop("source", None)  # a copy takes room that the next file may need
            return
        except pa.ArrowInvalid as error:
            if "straddling" in str(error):
                if size >= _LONGEST_ROW:
                    raise InputError(f"a row is longer than {size:,} bytes") from None
                size *= 8
            elif kind == pa.float64() and "conversion error to double" in str(error):
                kind = pa.string()  # so that the row can be named
            else:
                raise


def _batches(
    file: TextFile, wanted: Sequence[str], delimiter: str, header: list[str], types: Mapping[str, Any], size: int
) -> Iterator[Any]:
    """Yield the rows in so many bytes of text at a time."""
    below = (
        (f"line {line}", names)
        for each in file.form.delimiter or _DELIMITERS
        for line, names in islice(file.records(each), _TOP)
    )
    try:
        raw = find_columns(wanted, header, below=below)
    except InputError:
        if "\N{REPLACEMENT CHARACTER}" in "".join(header) and not "".join(wanted).isascii():
            raise InputError(file.wrong_encoding) from None
        if "\n" in "".join(header):
            Quotes(delimiter.encode(), len(header), (), float, _LONGEST).feed_all(file.blocks())
        raise
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
        lambda text: number_of(text, file.form.decimal),
        _LONGEST,
    )
    blocks = file.blocks()  # the same text once more, beside Arrow: while the system has it in memory
    try:
        with pa_csv.open_csv(
            file.open_text(),
            read_options=pa_csv.ReadOptions(block_size=size, skip_rows=0 if file.stated_delimiter() is None else 1),
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

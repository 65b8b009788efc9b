"""What a file is, by its first bytes and not its name: text and its encoding, a workbook, an archive, a database."""

import codecs
import gzip
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from fhe_auc.base.errors import InputError

LOOK = 2**12
"""Bytes at the beginning of a file that `kind_of` is given."""

_BLOCK = 2**18  # bytes at a time: what a processor's cache holds


class FileKind(NamedTuple):
    """What a file is."""

    name: str  # with its article
    suffixes: tuple[str, ...] = ()  # a name that ends in one of these has it read
    advice: str = ""
    encoding: str = ""  # of text

    @property
    def told(self) -> str:
        """What it is, and what to do, for the end of a message."""
        usual = f"give it a name that ends in {self.suffixes[0]}" if self.suffixes else "save its rows as CSV"
        return f"it is {self.name}: {self.advice or usual}"


_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_WORKBOOKS = (".xls", ".xlsx", ".xlsm", ".xlsb")
TEXT = FileKind("text", (".csv", ".tsv", ".csv.gz", ".tsv.gz", *_LINES), encoding="utf-8")
_MARKED = TEXT._replace(encoding="utf-8-sig")
_JSON = FileKind("JSON", _LINES, "JSON lines, an object each, need a name that ends in .jsonl", TEXT.encoding)
_HTML = FileKind("a web page (HTML)", (), "where it shows the rows, and no log-in, save them as CSV")
_BINARY = FileKind("a binary file")
_GZIP = FileKind("a file compressed by gzip", TEXT.suffixes, "decompress it")
_KINDS = (  # how they begin; the first that fits
    (rb"\x1f\x8b", _GZIP),
    (rb"PK\x03\x04.*opendocument\.spreadsheet", FileKind("an OpenDocument spreadsheet", (".ods",))),
    (rb"PK\x03\x04.*xl/\w*\.bin", FileKind("a binary Excel workbook", (".xlsb",))),
    (rb"PK\x03\x04.*(?:xl/|\[Content_Types\])", FileKind("an Excel workbook", (".xlsx", ".xlsm"))),
    (rb"PK\x03\x04.*\.npy", FileKind("an archive of NumPy's", (".npz",))),
    (rb"\xd0\xcf\x11\xe0", FileKind("an old Excel workbook, or one with a password", _WORKBOOKS)),
    (rb"PAR[1E][^\t\n\r -~]", FileKind("a Parquet file", (".parquet",))),
    (rb"ARROW1\0", FileKind("a Feather file", (".feather", ".arrow"))),
    (rb"SQLite format 3\0", FileKind("an SQLite database", (), "name it as sqlite:///FILE, with a --query")),
    (rb".{8}DUCK..\0{6}", FileKind("a DuckDB database", (), "name it as duckdb:///FILE, with a --query")),
    (rb"\0{12}\xc2\xea\x81", FileKind("a SAS file", (".sas7bdat",))),
    (rb"HEADER RECORD\*{7}LIB", FileKind("a SAS transport file", (".xpt",))),
    (rb"\$FL[23]", FileKind("an SPSS file", (".sav", ".zsav"))),
    (rb"<stata_dta>|[i-s][\x01\x02]\x01\0", FileKind("a Stata file", (".dta",))),
    (rb"PK[\x03\x05]|7z\xbc|Rar!\x1a|.{257}ustar", FileKind("an archive (zip or the like)", (), "unpack it")),
    (rb"BZh\d1AY|\xfd7zX|\x28\xb5\x2f\xfd|\x04\x22\x4d", FileKind("a compressed file", (), "unpack it, or use gzip")),
    (rb"%PDF-|\{\\rtf", FileKind("a document (PDF or RTF)")),
    (rb"version https://git-lfs", FileKind("a pointer of Git LFS", (), "fetch the file itself, by git lfs pull")),
    (rb"(?i)\s*<(?:!--|\?xml|(?:!doctype|html|head|meta|body|table|style|script|div)\b)", _HTML),
    (rb'\s*(?:\{\s*["}]|\[\s*[\[{])', _JSON),
    (rb"\x80[\x02-\x05]|\x93NUMPY|\xff{4}|\x89(?:PNG|HDF)|\xff\xd8\xff|ORC.{0,9}[\0-\x08]|RD[AX][23]\n|X\n\0", _BINARY),
)
_PATTERNS = [(re.compile(pattern, re.DOTALL), kind) for pattern, kind in _KINDS]
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")  # the mark of UTF-32 begins as that of UTF-16


def kind_of(first: bytes) -> FileKind:
    """Return what a file is whose first `LOOK` bytes these are; text is `TEXT`, or of another encoding."""
    for encoding in _WIDE:
        if first.startswith("\ufeff".encode(encoding)):
            return _encoded(encoding[:6])
    marks = utf8_marks(first)
    known = next((kind for pattern, kind in _PATTERNS if pattern.match(first, marks)), None)
    return known or (_MARKED if marks else _unmarked(first))


def utf8_marks(first: bytes) -> int:
    """Return how many bytes the marks of UTF-8 take with which a text begins: tools in a row may each put one."""
    return len(first) - len(re.sub(b"^(?:%s)+" % codecs.BOM_UTF8, b"", first))


def _unmarked(first: bytes) -> FileKind:
    """Return which text it is: in the right encoding it has line breaks or, where none are, delimiters."""
    if 30 * (first.rstrip(b"\0") or first).count(0) <= len(first):  # a disk may put zeros behind a text
        return TEXT
    breaks = "[\r\n]" if re.search(rb"[\r\n]", first) else "[,;\t|]"
    for encoding in _WIDE:
        with suppress(UnicodeDecodeError):
            text = codecs.getincrementaldecoder(encoding)().decode(first)
            if "\0" not in text and re.search(breaks, text):
                return _encoded(encoding)
    return _BINARY


def _encoded(encoding: str) -> FileKind:
    return FileKind(f"{encoding[:6].upper()} text", TEXT.suffixes, f"say so with --encoding {encoding}", encoding)


def text_in(file: Any, said: str) -> tuple[str, Iterator[bytes] | None]:
    """Return the encoding of a text file, and its text in UTF-8; None where that is the file as it is, or a mark.

    `file` is open for bytes, and may be compressed by gzip, whatever its name. `said` is its encoding, which a mark
    overrules. Raises `InputError` where it is no text, or in another encoding, `UnicodeError` as the text is read.
    """
    zipped = kind_of(file.read(LOOK)) is _GZIP
    file.seek(0)
    stream: Any = gzip.GzipFile(fileobj=file) if zipped else file
    first, encoding = stream.read(LOOK), codecs.lookup(said).name.removesuffix("-sig")
    stream.seek(0)
    kind = kind_of(first)
    if kind.encoding[:6] not in ("utf-8", "utf-8-", encoding[:6]):
        raise InputError(kind.told)
    if kind.encoding != TEXT.encoding:
        encoding = kind.encoding
    elif encoding.startswith(("utf-16", "utf-32")) and first and 0 not in first:
        raise UnicodeError
    blocks = iter(lambda: stream.read(_BLOCK), b"")
    if encoding.startswith(TEXT.encoding):
        return encoding, blocks if zipped else None
    return encoding, map(str.encode, codecs.iterdecode(blocks, encoding))

"""What a file is, by its first bytes and not its name: text and its encoding, a workbook, an archive, a database."""

import codecs
import gzip
import re
from collections.abc import Iterator
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


_JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
TEXT = FileKind("text", (".csv", ".tsv", ".csv.gz", ".tsv.gz", *_JSON_LINES), encoding="utf-8")
_MARKED = TEXT._replace(encoding="utf-8-sig")
JSON = FileKind("JSON", _JSON_LINES, "JSON lines, an object each, need a name that ends in .jsonl", TEXT.encoding)
GZIP = FileKind("a file compressed by gzip", TEXT.suffixes, "decompress it")
_ZIP = rb"PK\x03\x04.*"
_UNPACK = "decompress it, or compress it by gzip"
_OTHER = rb"[^\t\n\r -~]"  # no character of a header's first names
_KINDS = (  # how they begin; the first that fits
    (rb"\x1f\x8b", GZIP),
    (_ZIP + rb"opendocument\.spreadsheet", FileKind("an OpenDocument spreadsheet", (".ods",))),
    (_ZIP + rb"xl/\w*\.bin", FileKind("a binary Excel workbook", (".xlsb",))),
    (_ZIP + rb"(?:xl/|\[Content_Types\])", FileKind("an Excel workbook", (".xlsx", ".xlsm"))),
    (_ZIP + rb"\.npy", FileKind("an archive of NumPy's", (".npz",))),
    (rb"PK(?:\x03\x04|\x05\x06|\x07\x08)", FileKind("a zip archive", (), "unpack it")),
    (
        rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        FileKind("an old Excel workbook, or one with a password", (".xls", ".xlsx", ".xlsm", ".xlsb")),
    ),
    (rb"PAR[1E]" + _OTHER, FileKind("a Parquet file", (".parquet",))),
    (rb"ARROW1\0", FileKind("a Feather file", (".feather", ".arrow"))),
    (rb"FEA1" + _OTHER, FileKind("a Feather file of version 1", (), "save it again, as Feather 2 or Parquet")),
    (rb"\xff{4}", FileKind("a stream of Arrow's", (), "save it as Feather or Parquet")),
    (rb"\x93NUMPY", FileKind("one array of NumPy's", (), "save named columns by numpy.savez, as .npz")),
    (rb"\x80[\x02-\x05]", FileKind("a pickle of Python's, which could run code")),
    (rb"SQLite format 3\0", FileKind("an SQLite database", (), "name it as sqlite:///FILE, with a --query")),
    (rb".{8}DUCK.\0", FileKind("a DuckDB database", (), "name it as duckdb:///FILE, with a --query")),
    (rb"\0\x01\0\0Standard ", FileKind("an Access database", (), "save its table as CSV")),
    (rb"\0{12}\xc2\xea\x81", FileKind("a SAS file", (".sas7bdat",))),
    (rb"HEADER RECORD\*{7}LIB", FileKind("a SAS transport file", (".xpt",))),
    (rb"\$FL[23]", FileKind("an SPSS file", (".sav", ".zsav"))),
    (rb"<stata_dta>|[i-s][\x01\x02]\x01\0", FileKind("a Stata file", (".dta",))),
    (rb"RD[AX][23]\n|X\n\0", FileKind("a file of R's", (), "save its rows as CSV, by write.csv")),
    (rb"ORC.{0,9}[\0-\x08]|Obj\x01|\x89HDF\r|MATLAB 5\.0", FileKind("an ORC, Avro, HDF5 or MATLAB file")),
    (rb"BZh\d1AY", FileKind("a file compressed by bzip2", (), _UNPACK)),
    (rb"\xfd7zXZ\0|\x5d\0\0", FileKind("a file compressed by xz", (), _UNPACK)),
    (rb"\x28\xb5\x2f\xfd", FileKind("a file compressed by zstd", (), _UNPACK)),
    (rb"\x04\x22\x4d\x18|\x1f\x9d", FileKind("a compressed file (lz4 or compress)", (), _UNPACK)),
    (rb"7z\xbc\xaf|Rar!\x1a|.{257}ustar", FileKind("an archive (7z, rar or tar)", (), "unpack it")),
    (rb"-----BEGIN PGP|Salted__", FileKind("an encrypted file", (), "decrypt it")),
    (rb"%PDF-|\{\\rtf", FileKind("a document (PDF or RTF)")),
    (rb"\x89PNG\r|\xff\xd8\xff|GIF8\da|\x7fELF|MZ\x90", FileKind("a picture or a program")),
    (rb"version https://git-lfs", FileKind("a pointer of Git LFS", (), "fetch the file itself, by git lfs pull")),
    (
        rb"(?i)\s*<(?:!--|(?:!doctype|html|head|meta|body|table|style|script|div)\b)",
        FileKind("a web page (HTML)", (), "where it shows the rows, and no log-in, save them as CSV"),
    ),
    (rb"\s*<\?xml", FileKind("XML")),
    (
        rb'\s*(?:\{\s*["}]|\[\s*[\[{])',
        JSON,
    ),
)
_PATTERNS = [(re.compile(pattern, re.DOTALL), kind) for pattern, kind in _KINDS]
_MARKS = (  # that of UTF-32 begins as that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def kind_of(first: bytes) -> FileKind:
    """Return what a file is whose first `LOOK` bytes these are; text is `TEXT`, or of another encoding."""
    for mark, encoding in _MARKS:
        if first.startswith(mark):
            return _encoded(encoding)
    marks = utf8_marks(first)
    known = next((kind for pattern, kind in _PATTERNS if pattern.match(first, marks)), None)
    return known or (_MARKED if marks else _unmarked(first))


def utf8_marks(first: bytes) -> int:
    """Return how many bytes the marks of UTF-8 take with which a text begins: tools in a row may each put one."""
    found = 0
    while first.startswith(codecs.BOM_UTF8, found):
        found += len(codecs.BOM_UTF8)
    return found


def _unmarked(first: bytes) -> FileKind:
    """Return which text it is: in the right encoding it has line breaks or, where there are none, delimiters."""
    if 20 * first.count(0) <= len(first):
        return TEXT
    breaks = "[\r\n]" if re.search(rb"[\r\n]", first) else "[,;\t|]"
    for encoding in ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"):
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(first)
        except UnicodeDecodeError:
            continue
        if "\0" not in text and re.search(breaks, text):
            return _encoded(encoding)
    return FileKind("a binary file")


def _encoded(encoding: str) -> FileKind:
    return FileKind(f"{encoding[:6].upper()} text", TEXT.suffixes, f"say so with --encoding {encoding}", encoding)


def text_in(file: Any, said: str) -> tuple[FileKind, str, Iterator[bytes] | None]:
    """Return what a text file is, its encoding, and its text in UTF-8; None where that is the file as it is, or a mark.

    `file` is open for bytes, and may be compressed by gzip, whatever its name. `said` is its encoding, which a mark
    overrules. Raises `InputError` where it is no text, or in another encoding, `UnicodeError` as the text is read.
    """
    zipped = kind_of(file.read(LOOK)) is GZIP
    file.seek(0)
    stream: Any = gzip.GzipFile(fileobj=file) if zipped else file
    first, encoding = stream.read(LOOK), codecs.lookup(said).name.removesuffix("-sig")
    stream.seek(0)
    kind = kind_of(first)
    if kind.encoding[:6] not in (TEXT.encoding, _MARKED.encoding[:6], encoding[:6]):
        raise InputError(kind.told)
    if kind.encoding != TEXT.encoding:
        encoding = kind.encoding
    elif encoding.startswith(("utf-16", "utf-32")) and first and 0 not in first:
        raise UnicodeError
    blocks = iter(lambda: stream.read(_BLOCK), b"")
    if encoding.startswith(TEXT.encoding):
        return kind, encoding, blocks if zipped else None
    return kind, encoding, map(str.encode, codecs.iterdecode(blocks, encoding))

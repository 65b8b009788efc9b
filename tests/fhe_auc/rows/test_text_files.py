"""Text files as portals, editors and spreadsheets leave them: read right, or refused with what leads to the rows."""

import csv
import gzip
import io
import lzma
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.rows.csv_files import TextFile, TextFormat, text_pieces
from fhe_auc.rows.party_files import FileEntries
from fhe_auc.rows.table_writer import add_column
from tests.support.platforms import full_disk, needs_limits
from tests.support.tables import read_parties

ROWS = [(1, 0.9), (0, 0.1), (1, 0.3), (0, 0.5)]
TEXT = "y_true,y_score\n1,0.9\n0,0.1\n1,0.3\n0,0.5\n"
MARK = b"\xef\xbb\xbf"
FIELD_LIMIT = csv.field_size_limit()


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows_of(data: bytes | str, name: str = "a.csv", **form: str) -> list[tuple[int, float]]:
    Path(name).write_bytes(data if isinstance(data, bytes) else data.encode())
    (party,) = read_parties([name], entries=FileEntries(form=TextFormat(**form)))
    return [*zip(party.y_true.astype(int).tolist(), party.y_score.tolist(), strict=True)]


def refusal(data: bytes | str, name: str = "a.csv", **form: str) -> str:
    with pytest.raises(InputError) as caught:
        rows_of(data, name, **form)
    assert caught.value.file == name
    return str(caught.value)


@pytest.mark.parametrize("named", ["utf-8", "U8", "utf-8-sig", "windows-1252", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_marks_of_utf_8_are_taken_off_however_many_and_whatever_the_option_says(named: str, packed: bool) -> None:
    for marks in (1, 2, 3):
        for text in (TEXT, TEXT.replace("y_true", '"y_true"'), TEXT.replace(",", "\t"), "sep=,\n" + TEXT):
            data = MARK * marks + text.encode()
            assert rows_of(gzip.compress(data) if packed else data, encoding=named) == ROWS
    assert rows_of("sep=,\n\ufeff" + TEXT) == ROWS


WIDE = ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("written", WIDE)
def test_utf_16_and_32_are_named_with_the_option_that_reads_them(written: str, packed: bool) -> None:
    named = "Łódź,y_true,y_score\nKöln,1,0.9\n年齢,0,0.1\n"
    for text, rows in ((TEXT, ROWS), (named, ROWS[:2]), (TEXT.replace("\n", ",年齢\r\n"), ROWS)):
        data = gzip.compress(text.encode(written)) if packed else text.encode(written)
        for wrong in ("utf-8", "windows-1252", "utf-32" if written.startswith("utf-16") else "utf-16-le"):
            told = refusal(data, encoding=wrong)
            assert told.endswith(f"it is {written[:6].upper()} text: say so with --encoding {written}")
        assert rows_of(data, encoding=told.split()[-1]) == rows


def test_a_mark_or_the_bytes_decide_which_half_comes_first() -> None:
    """Editors call Excel's "Unicode text", which has a mark, utf-16-le; SQL Server writes it without."""
    for written in WIDE:
        for named in (each for each in (*WIDE, written.upper().replace("-", "_")) if each[:6].lower() == written[:6]):
            assert rows_of(TEXT.encode(written), encoding=named) == ROWS
    assert rows_of(("\ufeff\ufeff" + TEXT).encode("utf-16"), encoding="utf-16-le") == ROWS
    for named in ("utf-16", "utf-32-be"):
        for text in (TEXT, TEXT + "\n"):  # of an odd and an even number of bytes
            assert f"it is not {named} text, and --encoding is that of all" in refusal(text, encoding=named)
    assert "it is not utf-16 text" in refusal(TEXT.encode("utf-16")[:-1], encoding="utf-16")


def _workbook(*members: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in members:
            archive.writestr(member, "<x/>" * 50)
    return data.getvalue()


def _saved(write: object) -> bytes:
    data = io.BytesIO()
    write(data)  # type: ignore[operator]
    return data.getvalue()


OLE = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(500)
KINDS = {
    "an Excel workbook: give it a name that ends in .xlsx": _workbook("[Content_Types].xml", "xl/workbook.xml"),
    "an old Excel workbook, or one with a password: give it a name that ends in .xls": OLE,
    "an archive (zip or the like): unpack it": _workbook("a.csv"),
    "an archive of NumPy's: give it a name that ends in .npz": _saved(lambda file: np.savez(file, y_true=[1])),
    "a Parquet file: give it a name that ends in .parquet": _saved(
        lambda file: pq.write_table(pa.table({"y_true": [1]}), file)
    ),
    "a compressed file: unpack it, or use gzip": lzma.compress(TEXT.encode()),
    "a file compressed by gzip: decompress it": gzip.compress(TEXT.encode()),
    "an SQLite database: name it as sqlite:///FILE, with a --query": b"SQLite format 3\0" + bytes(84),
    "a document (PDF or RTF): save its rows as CSV": b"%PDF-1.7\n%\xe2\xe3",
    "a web page (HTML): where it shows the rows, and no log-in, save them as CSV": b"\n<!DOCTYPE html>\n<html>",
    "a pointer of Git LFS: fetch the file itself, by git lfs pull": b"version https://git-lfs.github.com/spec/v1\n",
    "JSON: JSON lines, an object each, need a name that ends in .jsonl": b'{"y_true": 1, "y_score": 0.5}\n',
    "a binary file: save its rows as CSV": bytes(4096),
}


@pytest.mark.parametrize(("told", "data"), KINDS.items(), ids=[told.split(":")[0] for told in KINDS])
def test_what_is_no_table_of_text_is_named_whatever_its_name(told: str, data: bytes) -> None:
    for name in ("a.csv", "a.tsv", "a.csv.gz"):
        if not told.startswith("a file compressed by gzip"):
            assert refusal(data, name) == f"file '{name}': it is {told}"
        assert refusal(gzip.compress(data), name) == f"file '{name}': it is {told}"
    if data.startswith(b"\n<"):
        assert refusal(data.decode().encode("utf-16"), encoding="utf-16") == f"file 'a.csv': it is {told}"


def test_zeros_behind_a_text_are_told_with_their_line() -> None:
    for zeros in (1, 3, 4096, 2**20):
        told = refusal(TEXT.encode() + bytes(zeros))
        if sys.version_info >= (3, 11):  # before, Python's csv reads no zeros
            assert told == "file 'a.csv': line 6: 1 column, and the header has 2"
        else:
            assert told == "file 'a.csv' cannot be read: line contains NUL"


def test_columns_may_be_called_as_files_begin() -> None:
    for name in ("PAR1", "ORC", "PK", "RDX3", "MATLAB", "GIF8", "FEA1", "Obj", "BZh"):
        assert rows_of(TEXT.replace("\n", ",1\n").replace("y_score,1", f"y_score,{name}")) == ROWS
        assert rows_of(f"{name}," + TEXT.replace("\n", "\n1,")[:-2]) == ROWS


def test_zeros_behind_gzip_are_padding_and_all_else_there_is_refused() -> None:
    packed = gzip.compress(TEXT.encode())
    more = gzip.compress(b"1,0.7\n")
    for name in ("a.csv.gz", "a.csv"):
        for zeros in (1, 512, 10_240, 300_000):
            assert rows_of(packed + bytes(zeros), name) == ROWS
        assert rows_of(packed + bytes(512) + more + bytes(3), name) == [*ROWS, (1, 0.7)]
        for damaged in (
            packed + b"garbage",
            packed + bytes(512) + b"x",
            packed[:-9],
            packed[:-1],
            packed[:8],
            packed[:5],
        ):
            assert refusal(damaged, name).startswith(f"file '{name}' cannot be read: ")
        broken = bytearray(packed)
        broken[-6] ^= 1
        assert "CRC check failed" in refusal(bytes(broken), name)


@pytest.mark.parametrize(
    "first", ["SEP=;\r\n", "Sep=;\n", "sep=;\r", '"sep=;"\n', "sep=;;;\r\n", "SEP=|\n", "sEp=\t\r\n", "sep=,\n"]
)
def test_excels_first_line_counts_in_any_capitals_and_is_kept_in_a_copy(first: str) -> None:
    delimiter = first.strip('"\r\n')[4]
    for mark in ("", "\ufeff"):
        text = mark + first + TEXT.replace(",", delimiter)
        assert rows_of(text) == ROWS
        add_column("a.csv", "b.csv", "more", np.arange(4, dtype=np.float64))
        with Path("b.csv").open(encoding="utf-8", newline="") as copy:
            assert copy.read(len(mark + first)) == mark + first
        with pytest.raises(InputError, match=r"a\.csv, line 7, column 'y_true': label is 'x'"):
            rows_of(text + f"x{delimiter}0.5\n")


@pytest.mark.parametrize("delimiter", ["\\t", "\t", "tab", "TAB"])
def test_a_tab_is_named_as_people_type_it(delimiter: str) -> None:
    assert rows_of(TEXT.replace(",", "\t"), delimiter=delimiter) == ROWS
    assert TextFormat(delimiter=delimiter) == TextFormat(delimiter="\t")


@pytest.mark.parametrize("delimiter", ["", "ab", '"', "\n", "\r", "\N{SECTION SIGN}", "\\n"])
def test_what_cannot_be_a_delimiter_is_refused_and_a_tab_proposed(delimiter: str) -> None:
    with pytest.raises(InputError, match="the delimiter is one ASCII character, no quote, or tab, got"):
        TextFormat(delimiter=delimiter)


def test_without_the_option_tables_are_read_whatever_their_suffix_says_and_columns_are_listed_one_by_one() -> None:
    for delimiter in ",;\t|":
        for name in ("a.csv", "a.tsv"):
            assert rows_of(TEXT.replace(",", delimiter), name) == ROWS
        told = refusal(TEXT.replace("y_score", "risk").replace(",", delimiter))
        assert "(there are: y_true, risk); --score-column names the right one" in told
        assert "(there are: died, risk);" in refusal(f"died{delimiter}risk\n1{delimiter}0.5\n")


@pytest.mark.parametrize(
    ("top", "line"),
    [
        ("Sepsis export\n\n", 3),
        ("# exported 2026-11-01\n", 2),
        ("Report: sepsis,\nDate: 2026,\n", 3),
        ("sep=,\nTitle\n", 3),
        ('"Title of\ntwo lines"\n', 3),
        ("y_true\n", 2),
        ("Titel;Größe\n" * 19, 20),
    ],
)
def test_titles_above_the_header_are_told_with_its_line_and_without_them_the_table_is_read(top: str, line: int) -> None:
    told = f"the header is taken from the first line; line {line} has these columns: remove all above it"
    for text in (top + TEXT, "\ufeff" + top + TEXT, top + TEXT.replace(",", ";"), top + TEXT.replace(",", "\t")):
        assert refusal(text) == f"file 'a.csv': {told}"
        assert rows_of("".join(text.splitlines(keepends=True)[line - 1 :])) == ROWS
    assert told in refusal((top + TEXT).encode("utf-16"), encoding="utf-16")
    assert told in refusal(top + TEXT, delimiter=",")


def test_a_header_that_a_quote_swallows_shows_no_rows_and_one_in_another_encoding_says_so() -> None:
    for text in ('"' + TEXT, TEXT.replace("y_score", '"y_score'), '"y_true;y_score\n1;0.9\n0;0.1\n'):
        told = refusal(text)
        assert told.startswith("file 'a.csv': line 1: a quote begins an entry there that does not end")
        assert "0.9" not in told
    Path("a.csv").write_bytes("größe,y_score\n1,0.5\n".encode("windows-1252"))
    with pytest.raises(InputError, match="not UTF-8 text; say its encoding, as in --encoding windows-1252"):
        read_parties(["a.csv"], label_column="größe")


def test_headers_and_rows_longer_than_a_block_are_read() -> None:
    for columns, quote, delimiter in ((620_000, "", ","), (150_000, '"', ";")):
        names = ["y_true", "y_score", *(f"c{i}" for i in range(columns))]
        lines = [delimiter.join(f"{quote}{name}{quote}" for name in names)]
        lines += [delimiter.join((str(y), str(score), *["1"] * columns)) for y, score in ROWS[:2]]
        assert rows_of("\n".join(lines)) == ROWS[:2]
    long = "x" * 9_000_000
    assert rows_of(f"y_true,y_score,{long}\n1,0.5,x\n") == [(1, 0.5)]
    assert rows_of(f"y_true,y_score,note\n1,0.5,{long}\n0,0.1,\n") == [(1, 0.5), (0, 0.1)]


def test_a_copy_has_notes_of_any_length_and_the_encoding_of_what_it_is_a_copy_of() -> None:
    note = "x" * 200_000 + '"ü"'
    for written, named, mark in (
        ("utf-8", "utf-8", ""),
        ("utf-8", "windows-1252", "\ufeff"),
        ("utf-16", "utf-16-le", ""),
        ("utf-16-be", "utf-16", ""),
        ("utf-32", "utf-32", ""),
        ("cp1252", "windows-1252", ""),
    ):
        lines = [f'0{i};"{note}";{y};{score}' for i, (y, score) in enumerate(ROWS)]
        text = "\r\n".join([f"{mark}id;note;y_true;y_score", *lines, ""]).replace('"ü"', '""ü""')
        assert rows_of(text.encode(written), encoding=named) == ROWS
        add_column("a.csv", "b.csv", "more", np.arange(4, dtype=np.float64), TextFormat(encoding=named), ["y_score"])
        assert csv.field_size_limit() == FIELD_LIMIT
        copy = Path("b.csv").read_bytes().decode(written)
        assert (copy[: len(mark)], copy.count("\r\n")) == (mark, 5)
        csv.field_size_limit(2**20)
        rows = [*csv.reader(io.StringIO(copy[len(mark) :], newline=""), delimiter=";")]
        csv.field_size_limit(FIELD_LIMIT)
        assert rows[0] == ["id", "note", "y_true", "y_score", "more"]
        assert [row[:2] + row[-1:] for row in rows[1:]] == [[f"0{i}", note, f"{i}.0"] for i in range(4)]


def test_a_copy_is_made_of_tsv_too_and_where_none_is_it_is_said_of_what() -> None:
    Path("a.tsv").write_text(TEXT.replace(",", "\t"))
    add_column("a.tsv", "b.tsv", "more", np.zeros(4), read=["y_score"])
    assert Path("b.tsv").read_text().splitlines()[:2] == ["y_true\ty_score\tmore", "1\t0.9\t0.0"]
    for name in ("a.csv.gz", "-"):
        with pytest.raises(InputError, match=f"^file '{name}': copies are made of .csv, .tsv, .parquet, .npz files$"):
            add_column(name, "b.csv", "more", np.zeros(4))


def test_any_minus_is_one_also_beside_a_decimal_comma_and_in_messages() -> None:
    for minus in "-\N{MINUS SIGN}":
        text = f"y_true;y_score\n1;0.9\n0;{minus}1.5\n"
        assert rows_of(text) == [(1, 0.9), (0, -1.5)]
        assert rows_of(text.replace(".", ","), decimal=",") == [(1, 0.9), (0, -1.5)]
        assert f"'{minus}1,5' has a decimal comma; say so" in refusal(f"y_true;y_score\n1;3\n0;{minus}1,5\n")
        assert f"'{minus}1,500' may be {minus}1500 or" in refusal(f"y_true;y_score\n1;3\n0;{minus}1,500\n")


@needs_limits
def test_a_temporary_folder_without_room_is_named() -> None:
    Path("a.csv.gz").write_bytes(gzip.compress(TEXT.encode() * 9999))
    with full_disk(), pytest.raises(InputError, match=r"\(TMPDIR\) has no room for its text: ") as caught:
        read_parties(["a.csv.gz"])
    assert tempfile.gettempdir() in str(caught.value)


def test_what_is_plain_is_read_from_where_it_is_and_all_else_is_decoded_once() -> None:
    for data, encoding, kept in (
        (TEXT.encode(), "utf-8", False),
        (MARK + TEXT.encode(), "utf-8", False),
        (gzip.compress(TEXT.encode()), "utf-8", True),
        (TEXT.encode("utf-16"), "utf-16", True),
        (TEXT.encode("cp1252"), "windows-1252", True),
    ):
        Path("a.csv").write_bytes(data)
        file = TextFile(Path("a.csv"), TextFormat(encoding=encoding))
        assert file.open_text().read() == TEXT.encode()
        assert (file.source[1] is not None) == kept
        Path("a.csv").write_bytes(b"")
        assert file.open_text().read() == (TEXT.encode() if kept else b"")
        if kept:
            rows = sum(len(piece.numbers["y_score"]) for piece in text_pieces(file, ["y_score"], ["y_true"]))
            assert (rows, file.open_text().read()) == (4, b"")  # and it is gone once they are read

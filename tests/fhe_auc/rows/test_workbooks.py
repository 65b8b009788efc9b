"""Workbooks: real ones, against other readers; sheets, headers, what is missing, and digits that are lost."""

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.rows.csv_files import TextFormat
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import FileEntries
from fhe_auc.rows.table_files import TableFile
from tests.support.tables import read_parties, write_table

FILES = Path(__file__).parent / "files"
HEADER = ["y_true", "y_score", "site"]
ROWS: list[list[Any]] = [[1, 0.9, "a"], [0, 0.1, "a"], [1, 0.3, "b"], [0, 0.5, "b"]]


def write(path: str, rows: list[list[Any]], *, more: dict[str, list[list[Any]]] | None = None, title: str = "x") -> str:
    """Write a workbook by openpyxl, or an old one by xlwt; `more` are further sheets."""
    sheets = {title: rows, **(more or {})}
    if path.endswith(".xls"):
        import xlwt

        book = xlwt.Workbook()
        for name, own in sheets.items():
            sheet = book.add_sheet(name)
            for at, row in enumerate(own):
                for column, entry in enumerate(row):
                    if entry is not None:
                        sheet.write(at, column, entry)
        book.save(path)
        return path
    made = openpyxl.Workbook()
    made.remove(made.worksheets[0])
    for name, own in sheets.items():
        sheet = made.create_sheet(name)
        for row in own:
            sheet.append(row)
    made.save(path)
    return path


def read(path: str | Path, sheet: str | None = None, **how: Any) -> list[PartyData]:
    return read_parties(path, entries=FileEntries(sheet=sheet, **how.pop("entries", {})), **how)


def scores(path: str, sheet: str | None = None) -> list[float]:
    (party,) = read(path, sheet)
    return party.y_score.tolist()


@pytest.mark.parametrize("suffix", ["xlsx", "xlsm", "xls"])
def test_a_sheet_is_a_table_with_its_numbers_texts_and_booleans(folder: Path, suffix: str) -> None:
    random = (np.random.default_rng(1).integers(0, 10**9, 200) / 10**9).tolist()  # openpyxl writes 16 digits
    rows = [[k % 3 == 0, score, f"site {k % 2}"] for k, score in enumerate(random)]
    parties = read(write(f"a.{suffix}", [HEADER, *rows]), site_column="site")
    assert [party.name for party in parties] == ["site 0", "site 1"]
    assert parties[0].y_score.tolist() + parties[1].y_score.tolist() == random[::2] + random[1::2]
    assert parties[0].y_true.tolist() == [k % 3 == 0 for k in range(0, 200, 2)]


@pytest.mark.parametrize("name", ["issues.xlsx", "issues.xls", "issues.xlsb", "issues.ods"])
def test_real_workbooks_of_every_kind_are_read(name: str, folder: Path) -> None:
    """One workbook, saved by its authors as all four."""
    file = TableFile(FILES / name, sheet="issue2")
    (piece,) = file.pieces(["1"], ["a"])
    assert piece.numbers["1"].tolist() == [2.0, 3.0]
    assert [piece.texts["a"].names[code] for code in piece.texts["a"].codes] == ["b", "c"]


def test_the_workbooks_that_come_with_statsmodels_are_read_as_by_pandas() -> None:
    import pandas as pd
    import statsmodels

    path = next(path for path in Path(statsmodels.__file__).parent.rglob("macrodata.xls") if path.is_file())
    with pytest.raises(InputError, match=r"it has 3 sheets, 'README', 'Monthly', 'Quarterly': say which with --sheet$"):
        next(TableFile(path).pieces(["CPIAUCSL"], []))
    frame = pd.read_excel(path, sheet_name="Monthly", engine="calamine")
    (piece,) = TableFile(path, sheet="Monthly").pieces(["CPIAUCSL", "TB3MS"], ["DATE"])
    for column in ("CPIAUCSL", "TB3MS"):
        np.testing.assert_array_equal(piece.numbers[column], frame[column].to_numpy())
    assert piece.texts["DATE"].names[piece.texts["DATE"].codes[0]] == "1934-01-01"


def test_one_sheet_is_read_unless_another_is_named(folder: Path) -> None:
    other = [HEADER, [1, 0.25, "a"], [0, 0.75, "a"]]
    file = write("a.xlsx", [HEADER, *ROWS], more={"Möller ": other, "notes": [["hello"]]}, title="rows")
    assert scores(file, "rows") == [0.9, 0.1, 0.3, 0.5]
    assert scores(file, "Mo\u0308ller") == [0.25, 0.75]
    told = r"^file 'a\.xlsx': it has 3 sheets, 'rows', 'Möller ', 'notes': say which with --sheet$"
    with pytest.raises(InputError, match=told):
        scores(file)
    with pytest.raises(InputError, match=r"there is no sheet 'Rows'; did you mean 'rows'\? \(there are: rows, Mö"):
        scores(file, "Rows")
    file = write("a.xlsx", [HEADER, *ROWS], more={"Sheet2": [], "Sheet3": []})
    assert scores(file) == [0.9, 0.1, 0.3, 0.5]
    book = openpyxl.load_workbook(write("a.xlsx", [HEADER, *ROWS], more={"lists": [["yes"], ["no"]]}))
    book["lists"].sheet_state = "hidden"
    book.save("a.xlsx")
    assert scores("a.xlsx") == [0.9, 0.1, 0.3, 0.5]


def test_a_sheet_without_a_workbook_is_refused(folder: Path) -> None:
    write_table("a.csv", y_true=[1, 0], y_score=[0.5, 0.25])
    with pytest.raises(InputError, match=r"^a sheet is one of a workbook, and no FILE is a workbook$"):
        read("a.csv", "x")
    with pytest.raises(InputError, match=r"^a query is for a database: FILE is to be its address"):
        read_parties("a.csv", entries=FileEntries(query="select 1"))


def test_rows_are_named_as_the_sheet_does_and_those_above_the_header_or_without_any_cell_below_are_none(
    folder: Path,
) -> None:
    empty: list[Any] = [None, None, None]
    rows = [empty, HEADER, [1, 0.9, "a"], [0, "high", "a"], [1, 0.5, "b"], empty]
    with pytest.raises(InputError, match=r"^party 'a', a\.xlsx, row 4, column 'y_score': score is 'high', which"):
        scores(write("a.xlsx", rows))
    rows[3][1] = 0.125
    assert scores(write("a.xlsx", rows)) == [0.9, 0.125, 0.5]
    book = openpyxl.load_workbook("a.xlsx")
    book["x"]["A900"].font = openpyxl.styles.Font(bold=True)  # formatted, without an entry
    book["x"]["F3"] = "a note beside the table"
    book.save("a.xlsx")
    assert scores("a.xlsx") == [0.9, 0.125, 0.5]
    with pytest.raises(InputError, match=r"^file 'a\.xlsx': there are no rows$"):
        scores(write("a.xlsx", [HEADER]))


@pytest.mark.parametrize("lost", [["#N/A", "#N/A", "#N/A"], ["=B2", "=B2", "=B2"], [None, None, None]])
def test_no_row_of_errors_alone_goes_without_a_word(folder: Path, lost: list[Any]) -> None:
    last = [lost] if lost[0] == "#N/A" else []  # of rows below all others the library knows errors alone
    file = write("a.xlsx", [HEADER, [1, 0.9, "a"], lost, [0, 0.5, "a"], *last])
    with pytest.raises(InputError, match=r"row 3, column 'y_true': label is missing; in a workbook an empty cell"):
        scores(file)
    (party,) = read(file, entries={"drop_missing": True})
    assert (party.rows, party.dropped) == (2, 1 + len(last))


def test_numbers_in_cells_of_text_are_numbers_with_the_decimal_mark_that_is_given(folder: Path) -> None:
    for mark in (".", ","):
        rows = [[text.replace(".", mark) for text in row] for row in (["1.00", "0.9", "a"], ["0.00", "1e-3", "a"])]
        (party,) = read(write("a.xlsx", [HEADER, *rows, [1, 0.5, "a"]]), entries={"form": TextFormat(decimal=mark)})
        assert (party.y_true.tolist(), party.y_score.tolist()) == ([True, False, True], [0.9, 0.001, 0.5])


def test_titles_above_the_header_are_told(folder: Path) -> None:
    with pytest.raises(InputError, match="row 3 has these columns: remove all above it"):
        scores(write("a.xlsx", [["Sepsis scores"], [], HEADER, *ROWS]))


@pytest.mark.parametrize("entry", [None, "#N/A", "=1/2", "#DIV/0!"])
def test_what_a_workbook_cannot_tell_apart_is_said(folder: Path, entry: object) -> None:
    """openpyxl writes formulas without their results: they were never calculated."""
    file = write("a.xlsx", [HEADER, [1, 0.9, "a"], [0, entry, "a"], [0, 0.5, "a"]])
    told = "in a workbook an empty cell, an error such as #N/A and a formula that was never calculated look alike"
    with pytest.raises(InputError, match=f"row 3, column 'y_score': score is missing; {told}; --drop-missing leaves"):
        read(file)
    (party,) = read(file, entries={"drop_missing": True})
    assert (party.y_score.tolist(), party.dropped) == ([0.9, 0.5], 1)
    assert any(told in note for note in party.notes)


@pytest.mark.parametrize("suffix", ["xlsx", "xls"])
def test_ids_that_have_lost_digits_are_refused(folder: Path, suffix: str) -> None:
    rows = [[*row, 123456789012345 + k] for k, row in enumerate(ROWS)]
    file = write(f"a.{suffix}", [[*HEADER, "id"], *rows])
    assert [party.name for party in read(file, site_column="id")] == [str(row[3]) for row in rows]
    rows[2][3] = 1234567890123456
    told = r"row 4, column 'id': of 1234567890123456 a workbook keeps 15 digits"
    with pytest.raises(InputError, match=told):
        read(write(f"a.{suffix}", [[*HEADER, "id"], *rows]), site_column="id")
    rows[2][3] = "1234567890123456"
    assert len(read(write(f"a.{suffix}", [[*HEADER, "id"], *rows]), site_column="id")) == 4


def test_dates_are_text_in_iso_form(folder: Path) -> None:
    days = [datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3, 4, 5), datetime.time(3, 4), "2024"]
    file = write("a.xlsx", [HEADER, *([*row[:2], day] for row, day in zip(ROWS, days, strict=True))])
    assert [party.name for party in read(file, site_column="site")] == [
        *("2024-01-02", "2024-01-02T03:04:05", "03:04:00", "2024")
    ]


def test_a_workbook_with_a_password_damaged_or_of_another_name_is_told(folder: Path) -> None:
    with pytest.raises(InputError, match=r"it cannot be opened: it is damaged, or is to be saved without its pass"):
        read(FILES / "pass_protected.xlsx")
    whole = Path(write("a.xlsx", [HEADER, *ROWS])).read_bytes()
    Path("a.xls").write_bytes(whole)
    with pytest.raises(InputError, match=r"^file 'a\.xls': it is an Excel workbook: give it a name that ends"):
        read("a.xls")
    refusals = []
    for seed in range(30):
        damaged, generator = bytearray(whole), np.random.default_rng(seed)
        for place in generator.integers(0, len(damaged), 8):
            damaged[place] ^= 1 << generator.integers(8)
        Path("a.xlsx").write_bytes(damaged)
        try:
            read("a.xlsx")
        except InputError as error:
            refusals.append(str(error))
    assert len(refusals) > 20
    assert all("a.xlsx" in message and "\n" not in message for message in refusals)


def test_missing_numbers_are_nan_and_whole_ones_exact(folder: Path) -> None:
    file = write("a.xlsx", [["s", "n"], [2**53 - 1, 1], [None, 2], [1e-300, 3]])
    (piece,) = TableFile(Path(file)).pieces(["s"], ["n"])
    assert piece.numbers["s"][0] == 2**53 - 1
    assert math.isnan(piece.numbers["s"][1])
    assert piece.numbers["s"][2] == 1e-300

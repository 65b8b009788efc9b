"""Workbooks of Excel and LibreOffice, by python-calamine: one sheet, whose first row that is not empty has the names.

An empty cell, an error such as #N/A and a formula that was never calculated are all the same to it.
"""

from collections.abc import Iterator, Sequence
from datetime import date, time
from itertools import islice
from typing import Any

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.base.names import known_names
from fhe_auc.rows.arrow_columns import piece_of
from fhe_auc.rows.csv_files import TextFile
from fhe_auc.rows.entries import site_name
from fhe_auc.rows.pieces import OPTIONS, Piece, column_names, find_columns

_ALIKE = "in a workbook an empty cell, an error such as #N/A and a formula that was never calculated look alike"
_DIGITS = 15  # of a number that a workbook keeps
_TITLES = 20  # rows that may stand above the header
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
WORDS = OPTIONS._replace(drop=f"{_ALIKE}; {OPTIONS.drop}", left_out=_ALIKE)


def workbook_pieces(file: TextFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield all rows of these columns; raise `InputError`, or what calamine raises on what it cannot read."""
    rows, top = _rows(file), islice(_rows(file), _TITLES)
    header = _names(next(rows, (0, []))[1])
    found = find_columns((*texts, *numbers), header, below=((f"row {row}", _names(cells)) for row, cells in top))
    places = {name: header.index(own) for name, own in found.items()}
    columns: dict[str, list[object]] = {name: [] for name in found}
    for row, cells in rows:
        for name, place in places.items():
            cell = cells[place]
            if name in texts and isinstance(cell, (int, float)) and abs(cell) >= 10**_DIGITS:
                told = f"of {cell:.0f} a workbook keeps {_DIGITS} digits, and other ids may have become the same: have"
                raise InputError(f"row {row}, column {name!r}: {told} the ids as text, from their source", column=name)
            if isinstance(cell, (date, time)):
                cell = cell.isoformat().removesuffix("T00:00:00")
            columns[name].append(None if cell == "" else cell)
    yield piece_of(columns, numbers, texts)


def sheet_row(file: TextFile, row: int, _: Sequence[str]) -> int:
    """Return the row of the sheet, from 1, in which a row of entries, from 0, stands."""
    return next(islice((number for number, _ in _rows(file)), row + 1, None))


def _names(cells: Sequence[object]) -> list[str]:
    return [site_name(cell) or "" for cell in cells]


def _rows(file: TextFile) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows that are not empty, and their numbers in the sheet, from 1."""
    require("files", "python_calamine")
    from python_calamine import CalamineWorkbook  # an extra's

    with file.path.open("rb") as opened:
        try:
            book = CalamineWorkbook.from_filelike(opened)
            sheet = book.get_sheet_by_name(_sheet(book, file.sheet))
        except (InputError, KeyboardInterrupt):
            raise
        except BaseException:  # a panic of Rust's is no Exception
            raise InputError("it cannot be opened: it is damaged, or is to be saved without its password") from None
        yield from (each for each in enumerate(sheet.iter_rows(), start=1) if any(cell != "" for cell in each[1]))


def _sheet(book: Any, wanted: str | None) -> str:
    """Return the sheet that is wanted, or the only one that is shown and not empty."""
    from python_calamine import SheetVisibleEnum

    if wanted is not None:
        found = [name for name in book.sheet_names if column_names([name]) == column_names([wanted])]
        if not found:
            raise InputError(f"there is no sheet {wanted!r}{known_names(wanted, book.sheet_names)}")
        return str(found[0])
    shown = [each.name for each in book.sheets_metadata if each.visible == SheetVisibleEnum.Visible]
    found = [name for name in shown if book.get_sheet_by_name(name).height]
    if len(found) > 1:
        raise InputError(f"it has {len(found)} sheets, {', '.join(map(repr, found))}: say which with --sheet")
    return str([*found, *shown, *book.sheet_names][0])

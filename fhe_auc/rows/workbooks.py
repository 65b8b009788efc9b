"""Workbooks of Excel and LibreOffice, by python-calamine: one sheet, its first row that is not empty has the names.

An empty cell, an error such as #N/A and a formula that was never calculated are all the same to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, time
from typing import TYPE_CHECKING, Any

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.base.names import known_names
from fhe_auc.rows.arrow_columns import piece_of
from fhe_auc.rows.entries import site_name
from fhe_auc.rows.pieces import OPTIONS, Piece, find_columns

if TYPE_CHECKING:
    from fhe_auc.rows.table_files import TableFile

_ALIKE = "in a workbook an empty cell, an error such as #N/A and a formula that was never calculated look alike"
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
WORDS = OPTIONS._replace(drop=f"{_ALIKE}; {OPTIONS.drop}", left_out=_ALIKE)


def workbook_pieces(file: TableFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield all rows of these columns; raise `InputError`, or what calamine raises on what it cannot read."""
    rows = _rows(file)
    header = [site_name(cell) or "" for cell in next(rows, (0, []))[1]]
    names = find_columns((*texts, *numbers), header)
    places = {name: header.index(own) for name, own in names.items()}
    columns: dict[str, list[object]] = {name: [] for name in names}
    for row, cells in rows:
        for name, place in places.items():
            cell = cells[place]
            if name in texts and isinstance(cell, (int, float)) and abs(cell) >= 10**15:
                raise InputError(
                    f"row {row}, column {name!r}: of {cell:.0f} a workbook keeps 15 digits, and others have become 0: "
                    "ids so long need cells of text, and the numbers that they were",
                    column=name,
                )
            if isinstance(cell, (date, time)):
                cell = cell.isoformat().removesuffix("T00:00:00")
            columns[name].append(None if cell == "" else cell)
    yield piece_of(columns, numbers, texts)


def sheet_row(file: TableFile, row: int, _: Sequence[str]) -> int:
    """Return the row of the sheet, from 1, in which a row of entries, from 0, stands."""
    return next(number for at, (number, _) in enumerate(_rows(file), start=-1) if at == row)


def _rows(file: TableFile) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows that are not empty, and their numbers in the sheet, from 1."""
    require("files")
    from python_calamine import CalamineError, CalamineWorkbook  # an extra's

    with file.path.open("rb") as opened:
        try:
            book = CalamineWorkbook.from_filelike(opened)
        except CalamineError:
            raise InputError("it cannot be opened: it is damaged, or is to be saved without its password") from None
        for number, cells in enumerate(book.get_sheet_by_name(_sheet(book, file.sheet)).iter_rows(), start=1):
            if any(cell != "" for cell in cells):
                yield number, cells


def _sheet(book: Any, wanted: str | None) -> str:
    """Return the sheet that is wanted, or the only one that is shown and not empty."""
    from python_calamine import SheetVisibleEnum

    if wanted is not None:
        own = [name for name in book.sheet_names if site_name(name) == site_name(wanted)]
        if not own:
            raise InputError(f"there is no sheet {wanted!r}{known_names(wanted, book.sheet_names)}")
        return str(own[0])
    shown = [each.name for each in book.sheets_metadata if each.visible == SheetVisibleEnum.Visible]
    found = [name for name in shown if book.get_sheet_by_name(name).height]
    if not found:
        raise InputError("it is empty")
    if len(found) > 1:
        raise InputError(f"it has {len(found)} sheets, {', '.join(map(repr, found))}: say which with --sheet")
    return str(found[0])

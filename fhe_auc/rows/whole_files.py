"""Files that the libraries of the extra `files` read whole: of SAS, SPSS and Stata, and workbooks.

Of the former entries are as they are stored, dates too; labels name codes that have different ones; what SPSS has
declared as missing is missing, and so are special values such as .A. pyreadstat's pieces would end at an empty one.
"""

import mmap
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from itertools import dropwhile, islice
from typing import Any

import pyarrow as pa

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.base.names import alike, known_names
from fhe_auc.rows.arrow_columns import piece_of
from fhe_auc.rows.csv_files import TextFile
from fhe_auc.rows.entries import Coded, site_name
from fhe_auc.rows.pieces import OPTIONS, Piece, column_names, find_columns

PACKAGES = {".sas7bdat": "sas7bdat", ".xpt": "xport", ".sav": "sav", ".zsav": "sav", ".dta": "dta"}
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_ALIKE = "in a workbook an empty cell, an error such as #N/A and a formula that was never calculated look alike"
WORDS = OPTIONS._replace(drop=f"{_ALIKE}; {OPTIONS.drop}", left_out=_ALIKE)  # of workbooks
_DIGITS = 15  # of a number that a workbook keeps
_MOST = 1000  # rows for each byte of a file, in any compression
_CARD = 80  # bytes of a record of a transport file
_TITLES = 20  # rows that may stand above the header


def statistics_pieces(file: TextFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield all rows of these columns; raise `InputError`, or what pyreadstat raises on what it cannot read."""
    require("files", "pyreadstat")
    import pyreadstat  # an extra's

    path, kind = file.path.absolute(), PACKAGES[file.path.suffix.lower()]  # a first ~ would be a home
    read, how = getattr(pyreadstat, f"read_{kind}"), {"output_format": "dict", "disable_datetime_conversion": True}
    _, about = read(path, metadataonly=True, **({"user_missing": True} if kind == "sav" else {}), **how)
    with path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if (about.number_rows or 0) > _MOST * len(data):  # it would make room for them
            raise InputError(f"it is damaged: so short a file does not have {about.number_rows:,} rows")
        if kind == "xport":
            start = data.find(b"HEADER RECORD*******OBS") + _CARD
            if data.find(b"HEADER RECORD*******MEMB", start) >= 0:  # it would be read as rows
                raise InputError("it holds several tables: save each into a file of its own")
            beyond = (len(data) - start) % sum(about.variable_storage_width.values())
            if len(data) % _CARD or data[len(data) - beyond :].strip(b" "):
                raise InputError("it ends within a row: it was cut off")
    names = find_columns((*texts, *numbers), about.column_names)
    columns, _ = read(path, usecols=[*names.values()], **how)
    types = {name: about.readstat_variable_types[own] for name, own in names.items()}
    found = {
        name: pa.array(columns[own], pa.float32()) if types[name] == "float" else columns[own]  # 0.1 is 0.1 then
        for name, own in names.items()
    }
    piece = piece_of(found, numbers, texts, file.form.decimal)
    for name, coded in piece.texts.items():
        missing = about.missing_ranges.get(names[name], ())
        labels = {
            code: label
            for code, label in about.variable_value_labels.get(names[name], {}).items()
            if isinstance(code, str) == (types[name] == "string")  # the others are special values
            and not any(each["lo"] <= code <= each["hi"] for each in missing)
        }
        piece.texts[name] = _labelled(coded, labels)
    yield piece


def _labelled(coded: Coded, labels: Mapping[Any, str]) -> Coded:
    """Return a column whose codes have labels as names; with codes, where two of them would have one name."""
    codes = {code: str(site_name(code)) for code in sorted(labels)}
    named = {text: site_name(labels[code]) or text for code, text in codes.items()}
    shown = [named.get(code, code) for code in dict.fromkeys((*coded.names, *named)) if code is not None]
    swapped = any(named.get(label, label) != label for label in named.values())  # a label that is another one's code
    if not named or swapped or len(set(map(alike, shown))) < len(shown):
        return coded
    names = [None if code is None else named.get(code, code) for code in coded.names]
    stored = {label: code for code, label in named.items()}
    return Coded(coded.codes, names, tuple(stored), stored)


def workbook_pieces(file: TextFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield all rows of these columns, which the first row that is not empty names; errors as `statistics_pieces`."""
    rows, top = _rows(file), islice(_rows(file), _TITLES)
    header = _names(next(rows, (0, []))[1])
    found = find_columns((*texts, *numbers), header, below=((f"row {row}", _names(cells)) for row, cells in top))
    places = {name: header.index(own) for name, own in found.items()}
    columns: dict[str, list[object]] = {name: [] for name in places}
    for row, cells in rows:
        for name, place in places.items():
            cell = cells[place]
            if name in texts and isinstance(cell, (int, float)) and abs(cell) >= 10**_DIGITS:
                told = f"of {cell:.0f} a workbook keeps {_DIGITS} digits, and other ids may have become the same: have"
                raise InputError(f"row {row}, column {name!r}: {told} the ids as text, from their source", column=name)
            if isinstance(cell, (date, time)):
                cell = cell.isoformat().removesuffix("T00:00:00")
            columns[name].append(None if cell == "" else cell)
    yield piece_of(columns, numbers, texts, file.form.decimal)


def sheet_row(file: TextFile, row: int, _: Sequence[str]) -> int:
    """Return the row of the sheet, from 1, in which a row of entries, from 0, stands."""
    return next(islice((number for number, _ in _rows(file)), row + 1, None))


def _names(cells: Sequence[object]) -> list[str]:
    return [site_name(cell) or "" for cell in cells]


def _rows(file: TextFile) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows from the first on that is not empty, and their numbers in the sheet, from 1."""
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
        rows = enumerate(sheet.iter_rows(), start=1)
        yield from dropwhile(lambda each: not any(cell != "" for cell in each[1]), rows)  # others may be errors


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

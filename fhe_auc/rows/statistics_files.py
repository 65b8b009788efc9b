"""Files of SAS, SPSS and Stata, by pyreadstat: entries as they are stored; labels name codes that have different ones.

They are read whole, since pyreadstat's pieces end at one without rows. What SPSS has declared as missing is missing,
and so are special values such as .A; dates are numbers.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.base.names import alike
from fhe_auc.rows.arrow_columns import piece_of
from fhe_auc.rows.entries import Coded, site_name
from fhe_auc.rows.pieces import Piece, find_columns

if TYPE_CHECKING:
    from fhe_auc.rows.table_files import TableFile

PACKAGES = {
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".dta": "read_dta",
}
"""By suffix: the function that reads it."""
_CARD = 80  # bytes of a record of a transport file


def statistics_pieces(file: TableFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield all rows of these columns; raise `InputError`, or what pyreadstat raises on what it cannot read."""
    require("files")
    import pyreadstat  # an extra's

    path, read = file.path.absolute(), getattr(pyreadstat, PACKAGES[file.suffix])  # it takes a first ~ for a home
    how = {"output_format": "dict", "disable_datetime_conversion": True}
    declaring = {"user_missing": True} if file.suffix in (".sav", ".zsav") else {}
    _, about = read(path, metadataonly=True, **declaring, **how)
    if file.suffix == ".xpt":
        _refuse_other_rows(path, sum(about.variable_storage_width.values()))
    names = find_columns((*texts, *numbers), about.column_names)
    columns, _ = read(path, usecols=[*names.values()], **how)
    kinds = {name: about.readstat_variable_types[own] for name, own in names.items()}
    found = {
        name: pa.array(columns[own], pa.float32()) if kinds[name] == "float" else columns[own]  # 0.1 is 0.1 then
        for name, own in names.items()
    }

    def labels(name: str) -> dict[Any, str]:
        missing = about.missing_ranges.get(names[name], ())
        return {
            code: label
            for code, label in about.variable_value_labels.get(names[name], {}).items()
            if isinstance(code, str) == (kinds[name] == "string")  # the others are special values
            and not any(each["lo"] <= code <= each["hi"] for each in missing)
        }

    piece = piece_of(found, numbers, texts)
    yield piece._replace(texts={name: _named(coded, labels(name)) for name, coded in piece.texts.items()})


def _named(coded: Coded, labels: Mapping[Any, str]) -> Coded:
    """Return a column whose codes have labels as names; with codes, where two of them would have one name."""
    codes = {code: str(site_name(code)) for code in sorted(labels)}
    named = {text: site_name(labels[code]) or text for code, text in codes.items()}
    shown = [named.get(code, code) for code in dict.fromkeys((*coded.names, *named)) if code is not None]
    if not named or len(set(map(alike, shown))) < len(shown):
        return coded
    names = [None if code is None else named.get(code, code) for code in coded.names]
    stored = {label: code for code, label in named.items()}
    return Coded(coded.codes, names, tuple(stored), stored)


def _refuse_other_rows(path: Path, width: int) -> None:
    """Raise `InputError` for a transport file that ends within a row, or has a second table, which would be rows."""
    with path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(b"HEADER RECORD*******OBS") + _CARD
        if data.find(b"HEADER RECORD*******MEMB", start) >= 0:
            raise InputError("it holds several tables: save each into a file of its own")
        if data[len(data) - (len(data) - start) % width :].strip(b" \0"):
            raise InputError("it ends within a row: it was cut off")

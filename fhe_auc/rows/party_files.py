"""Files to parties: tables with a label and a score column, one party a file or a site column; and back."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET, structs
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import is_database
from fhe_auc.question.analysis import PLAIN, Analysis, Questions
from fhe_auc.rows.at_horizon import at_horizon
from fhe_auc.rows.csv_files import TextFormat
from fhe_auc.rows.databases import Query
from fhe_auc.rows.entries import finite_numbers
from fhe_auc.rows.party_data import Entries, PartyData
from fhe_auc.rows.party_rows import parties_in
from fhe_auc.rows.side_by_side import compared
from fhe_auc.rows.table_files import SUFFIXES, TableFile
from fhe_auc.rows.whole_files import WORDS


@dataclass(frozen=True, kw_only=True)
class FileEntries(Entries):
    """What entries mean, how text files are written, and what is read of a workbook or a database.

    `sheet` is the workbook's, `query` one SELECT; a database's password is in `password_file`, or where
    `fhe_auc.rows.databases.Query` says.
    """

    form: TextFormat = field(default_factory=TextFormat)
    sheet: str | None = None
    query: str | None = None
    password_file: Path | None = None

    @property
    def decimal(self) -> str:
        """The decimal mark of numbers in text."""
        return self.form.decimal


def read_for(
    questions: Questions,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    site_column: str | None = None,
    label_column: str = "y_true",
    entries: FileEntries | None = None,
) -> tuple[list[PartyData], Analysis]:
    """Read the parties' test rows for questions, and what these are now that all levels are known.

    Files are of `fhe_auc.rows.table_files.SUFFIXES`; a folder of Parquet files, or a pattern, is one party and has the
    folder's name. ``-`` is standard input, CSV; without a site column its party is called "stdin". A database's address
    is one of `fhe_auc.rows.databases.Query`.

    Without `site_column` every file is one party, named by the file name without its suffix, or by its folder where
    files of several folders have one name. With it the rows of all files are grouped by the text in this column, which
    names the party (``007`` stays ``007``), in order of first appearance. Columns that rows are grouped by hold text,
    or whole numbers that stand for something. In an ``.npz`` file that has an array ``<column>_names`` such a column
    holds indices into it, and so does that of sites.

    Raises `InputError` for a file that is missing, given twice, no plain file, unreadable or of an unknown kind; lacks
    a column (the message lists its columns); names the same party as another, or has all of its rows; or holds an entry
    that is missing or no label, score or site (the message names file, line, column and value), or one label in two
    spellings.
    """
    entries = entries or FileEntries()
    tables = _distinct([paths] if isinstance(paths, (str, os.PathLike)) else paths, entries)
    if site_column is None:
        tables = _with_party_names(tables)
    parties, analysis = parties_in(tables, questions, site=site_column, label=label_column, entries=entries)
    return compared(parties, analysis, entries.score_scale, refuse=True), analysis


def write_rows(path: Path, data: PartyData, analysis: Analysis) -> None:
    """Write a party's rows to an ``.npz`` file, for `read_for` with the same analysis."""
    data, follow_up = at_horizon(data, structs.replace(analysis, at=UNSET)), analysis.follow_up
    names = ("y_score",) if analysis.models == PLAIN.models else analysis.models
    columns: dict[str, Any] = dict(zip(names, data.scores, strict=True))
    for variable, codes in zip(analysis.by, data.groups, strict=True):
        columns[variable.name] = np.array(variable.levels)[codes]
    if analysis.cluster:
        columns[analysis.cluster] = data.clusters
    if analysis.weights and data.weights is not None:
        columns[analysis.weights.column] = data.weights / analysis.weights.per
    if follow_up:
        columns |= {follow_up.time: data.times, follow_up.event: np.array(follow_up.codes)[data.labels]}
    else:
        columns["y_true"] = np.array(analysis.classes)[data.labels] if analysis.classes else data.y_true
    np.savez(path, **columns)


def read_column(path: str | os.PathLike[str], column: str, form: TextFormat | None = None) -> NDArray[np.float64]:
    """Read a column of numbers, shape (n,).

    The file is as for `read_for`, and so are errors: the message names the file, the row, the column and the value.
    """
    (file,) = _distinct([path], FileEntries(form=form or TextFormat()))
    found: list[NDArray[np.float64]] = [np.empty(0)]
    for piece in file.pieces([column], ()):
        start = sum(map(len, found))

        def refuse(row: int, what: str, start: int = start) -> InputError:
            place = file.place(start + row, [column])
            return InputError(f"{place.text}: {what}", file=place.file, line=place.line)

        found.append(finite_numbers(piece.numbers[column], f"{column!r} value", refuse))
    return np.concatenate(found)


def table_at(path: str | os.PathLike[str], entries: FileEntries) -> TableFile | Query:
    """Return the table of a file, or of a database's address; `InputError` where this one is not as it must be."""
    if is_database(text := str(path)):
        return Query(text, entries.query, entries.password_file)
    return TableFile(Path(path), entries.form, sheet=entries.sheet)


def _distinct(paths: Sequence[str | os.PathLike[str]], entries: FileEntries) -> list[TableFile | Query]:
    if not paths:
        raise InputError(f"no files given; give at least one: {', '.join(SUFFIXES)}")
    tables = [table_at(path, entries) for path in paths]
    if entries.query is not None and not any(isinstance(table, Query) for table in tables):
        raise InputError(
            "a query is for a database: FILE is to be its address, as sqlite:///FILE or postgresql://HOST/NAME"
        )
    if entries.sheet is not None and not any(table.words is WORDS for table in tables):
        raise InputError("a sheet is one of a workbook, and no FILE is a workbook")
    seen: dict[object, TableFile | Query] = {}
    for table in [part for each in tables for part in getattr(each, "parts", ()) or (each,)]:
        itself: object = table.name
        with suppress(OSError):  # standard input, a server's, or what reading refuses
            status = os.stat(table.path)
            itself = (status.st_dev, status.st_ino)  # whatever its name: links to one file are that file
        if (other := seen.setdefault(itself, table)) is not table:
            also = "" if other.name == table.name else f", also as {other.name!r}"
            raise InputError(f"{table.title} is given twice{also}, which would count its rows twice", file=table.file)
    return tables


def _with_party_names(tables: Sequence[TableFile | Query]) -> list[TableFile | Query]:
    """Return the tables, each of which names a party: a file by its folder where files of several have one name.

    Raises `InputError` where a name cannot be that of a party, or is another's.
    """
    folders: dict[str, list[str]] = {}
    for file in tables:
        try:
            file.name.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"file {file.name!r}: its name is not UTF-8, and a party is to be called so; rename the file, or name "
                "the parties in a site column",
                file=file.name,
            ) from None
        folders.setdefault(file.party, []).append(Path(file.path).parent.name)
    named = list[TableFile | Query]()
    for file in tables:
        by_folder = len(own := folders[file.party]) > 1 and all(own)
        if isinstance(file, TableFile):
            file = replace(file, folder_names=by_folder)
        elif by_folder:
            file.party = Path(file.path).parent.name
        named.append(file)
    by_name: dict[str, TableFile | Query] = {}
    for file in named:
        other = by_name.setdefault(file.party, file)
        if other is not file:
            raise InputError(
                f"files {other.name!r} and {file.name!r} both name a party {file.party!r};"
                " rename one, or name the parties in a site column"
            )
    return named

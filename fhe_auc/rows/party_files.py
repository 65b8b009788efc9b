"""Files to parties: tables with a label and a score column, one party a file or a site column; and back."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import PLAIN, Analysis, Questions
from fhe_auc.rows.csv_files import TextFormat
from fhe_auc.rows.entries import finite_numbers
from fhe_auc.rows.party_data import Entries, PartyData
from fhe_auc.rows.party_rows import parties_in
from fhe_auc.rows.side_by_side import compared
from fhe_auc.rows.table_files import SUFFIXES, TableFile


@dataclass(frozen=True, kw_only=True)
class FileEntries(Entries):
    """What entries mean, and how text files are written."""

    form: TextFormat = field(default_factory=TextFormat)
    sheet: str | None = None

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

    Files are ``.csv``, ``.tsv`` (also ``.gz``), ``.parquet``, ``.feather`` or ``.npz``. ``-`` is standard input, CSV;
    without a site column its party is called "stdin".

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
    files = _distinct_files([paths] if isinstance(paths, (str, os.PathLike)) else paths, entries.form)
    if site_column is None:
        files = _with_party_names(files)
    parties, analysis = parties_in(files, questions, site=site_column, label=label_column, entries=entries)
    return compared(parties, analysis, entries.score_scale, refuse=True), analysis


def write_rows(path: Path, data: PartyData, analysis: Analysis) -> None:
    """Write a party's rows to an ``.npz`` file, for `read_for` with the same analysis."""
    names = ("y_score",) if analysis.models == PLAIN.models else analysis.models
    columns: dict[str, Any] = dict(zip(names, data.scores, strict=True))
    for variable, codes in zip(analysis.by, data.groups, strict=True):
        columns[variable.name] = np.array(variable.levels)[codes]
    if analysis.cluster:
        columns[analysis.cluster] = data.clusters
    labels = np.array(analysis.classes)[data.labels] if analysis.classes else data.y_true
    np.savez(path, y_true=labels, **columns)


def read_column(path: str | os.PathLike[str], column: str, form: TextFormat | None = None) -> NDArray[np.float64]:
    """Read a column of numbers, shape (n,).

    The file is as for `read_for`, and so are errors: the message names the file, the row, the column and the value.
    """
    (file,) = _distinct_files([path], form or TextFormat())
    found: list[NDArray[np.float64]] = [np.empty(0)]
    for piece in file.pieces([column], ()):
        start = sum(map(len, found))

        def refuse(row: int, what: str, start: int = start) -> InputError:
            place = file.place(start + row, [column])
            return InputError(f"{place.text}: {what}", file=place.file, line=place.line)

        found.append(finite_numbers(piece.numbers[column], f"{column!r} value", refuse))
    return np.concatenate(found)


def _distinct_files(paths: Sequence[str | os.PathLike[str]], form: TextFormat) -> list[TableFile]:
    files = [Path(path) for path in paths]
    if not files:
        raise InputError(f"no files given; give at least one: {', '.join(SUFFIXES)}")
    seen: dict[object, Path] = {}
    for file in files:
        try:
            status = file.stat()
            itself: object = (status.st_dev, status.st_ino)  # whatever its name: links to one file are that file
        except OSError:  # standard input, or what reading refuses
            itself = str(file)
        if (other := seen.setdefault(itself, file)) is not file:
            name, also = str(file), "" if other == file else f", also as {str(other)!r}"
            raise InputError(f"file {name!r} is given twice{also}, which would count its rows twice", file=name)
    return [TableFile(file, form) for file in files]


def _with_party_names(files: Sequence[TableFile]) -> list[TableFile]:
    """Return the files, each of which names a party: by its folder where files of several folders have one name.

    Raises `InputError` where a name cannot be that of a party, or is another's.
    """
    for file in files:
        try:
            file.name.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"file {file.name!r}: its name is not UTF-8, and a party is to be called so; rename the file, or name "
                "the parties in a site column",
                file=file.name,
            ) from None
    folders: dict[str, list[str]] = {}
    for file in files:
        folders.setdefault(file.party, []).append(file.path.parent.name)
    named = [replace(file, folder_names=len(own := folders[file.party]) > 1 and all(own)) for file in files]
    by_name: dict[str, TableFile] = {}
    for file in named:
        other = by_name.setdefault(file.party, file)
        if other is not file:
            raise InputError(
                f"files {other.name!r} and {file.name!r} both name a party {file.party!r};"
                " rename one, or name the parties in a site column"
            )
    return named

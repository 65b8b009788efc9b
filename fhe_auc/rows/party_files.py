"""Files to parties: tables with a label and a score column, one party a file or a site column.

Files are read once, some rows at a time, and every piece is checked as it comes (`PartyData.from_columns`). What is
kept of many rows is in an unnamed temporary file (`fhe_auc.rows.row_store`).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.question.analysis import PLAIN, Analysis, Questions
from fhe_auc.rows.arrow_columns import Piece
from fhe_auc.rows.csv_files import STDIN, TextFormat
from fhe_auc.rows.entries import Coded, finite_numbers, incomplete_rows, level_text, require_one_spelling
from fhe_auc.rows.party_data import Entries, PartyData, checked_name, left_out_beside, noted, rescaled
from fhe_auc.rows.row_store import Column, parted
from fhe_auc.rows.table_files import SUFFIXES, TableFile

_DROP = "--drop-missing leaves such rows out"


@dataclass(frozen=True, kw_only=True)
class FileEntries(Entries):
    """What entries mean, and how text files are written."""

    form: TextFormat = field(default_factory=TextFormat)


class _Columns(NamedTuple):
    label: str
    scores: tuple[str, ...]
    groups: tuple[str, ...]
    cluster: str | None
    site: str | None

    @property
    def names(self) -> list[str]:
        return [*self.texts, *self.scores]

    @property
    def texts(self) -> list[str]:
        return [self.label, *self.groups, *(name for name in (self.cluster, self.site) if name is not None)]


class _Part(NamedTuple):
    """Rows of one file: the party of each by its code, and the place of each row."""

    file: TableFile
    piece: Piece
    sites: Coded
    rows: Sequence[int] | NDArray[np.int64]  # the number of each in the file

    @property
    def missing(self) -> NDArray[np.bool_]:
        """In which rows an entry is missing."""
        return incomplete_rows([*self.piece.texts.values(), *self.piece.numbers.values()])

    def chosen(self, which: NDArray[np.bool_]) -> _Part:
        """Return some of the rows."""
        return _Part(self.file, self.piece.chosen(which), self.sites.chosen(which), np.array(self.rows)[which])


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

    Without `site_column` every file is one party, named by the file name without its suffix, or by its folder where all
    files are called alike. With it the rows of all
    files are grouped by the text in this column, which names the party (``007`` stays ``007``), in order of first
    appearance. Columns that rows are grouped by hold text, or whole numbers that stand for something. In an ``.npz``
    file that has an array ``<column>_names`` such a column holds indices into it, and so does that of sites.

    Raises `InputError` for a file that is missing, given twice, no plain file, unreadable or of an unknown kind; lacks
    a column (the message lists its columns); names the same party as another; or holds an entry that is missing or no
    label, score or site (the message names file, line, column and value), or one label in two spellings.
    """
    entries = entries or FileEntries()
    files = _distinct_files([paths] if isinstance(paths, (str, os.PathLike)) else paths, entries.form)
    columns = _Columns(
        label_column, questions.score_columns, tuple(questions.by), questions.cluster or None, site_column
    )
    if twice := [name for name, n in Counter(columns.names).items() if n > 1]:
        raise InputError(f"label, score, site, group and patient columns must differ, but {twice[0]!r} is there twice")
    if site_column is None:
        _refuse_names(files)
    found: dict[str, set[str | None]] = {name: set() for name, levels in questions.by.items() if not levels}
    if found:  # they name the groups, whose codes the rows are to hold: so they are looked for first
        for part in _parts(files, columns._replace(scores=(), cluster=None), entries):
            for name, seen in found.items():
                coded = part.piece.texts[name]
                seen.update(coded.names[code] for code in coded.present())
    analysis = questions.analysis(found)
    kept = _Kept(columns, analysis, entries)
    for part in _parts(files, columns, entries):
        kept.add(part)
    return kept.parties(files), analysis


def _parts(files: Sequence[TableFile], columns: _Columns, entries: FileEntries) -> Iterator[_Part]:
    for file, party in _party_names(files).items():
        start = 0
        for piece in file.pieces(columns.scores, columns.texts):
            size = len(piece.texts[columns.label].codes)
            texts = {
                name: coded if name == columns.site else Coded(coded.codes, [level_text(text) for text in coded.names])
                for name, coded in piece.texts.items()
            }
            one_site = Coded(np.zeros(size, np.int32), [party])
            sites = one_site if columns.site is None else piece.texts[columns.site]
            yield _Part(file, Piece(piece.numbers, texts), sites, range(start, start + size))
            start += size


class _Kept:
    """The checked rows of all parties, as they arrive."""

    def __init__(self, columns: _Columns, analysis: Analysis, entries: FileEntries) -> None:
        self._columns, self._analysis, self._entries = columns, analysis, entries
        self._codes: dict[str, int] = {}  # of a party, in the order of first appearance
        self._patients: dict[str, int] = {}  # those of two parties are different ones, whatever their ids
        self._dropped: Counter[str | None] = Counter()  # None: of rows without a site
        self._with_rows: set[TableFile] = set()
        self._labels_seen = dict.fromkeys([name for name in [level_text(entries.positive_label)] if name is not None])
        self._sites = Column(np.int32)
        self._rows: list[Column] = []  # as of `PartyData.arrays`

    def add(self, part: _Part) -> None:
        part = self._complete(part)
        if not len(part.rows):
            return
        self._with_rows.add(part.file)
        names = self._named(part)
        (label, scores, groups, cluster, _), piece = self._columns, part.piece

        def refuse(row: int, what: str, column: str) -> InputError:
            place = part.file.place(int(part.rows[row]), self._columns.names)
            party = part.sites.names[int(part.sites.codes[row])]
            if re.match(r".* is missing\b", what):
                what += f"; {_DROP}"
            elif column == label and not self._analysis.classes:
                remedy = "; --positive-label names the label that counts as 1"
                what = re.sub(r"(is not a number|must be 0 or 1)", rf"\1{remedy}", what)
            elif column in scores and not part.file.is_text and isinstance(piece.numbers[column][row], str):
                what = what.replace("is not a number", "is text in the file, not a number")
            message = f"party {party!r}, {place.text}, column {column!r}: {what}"
            return InputError(message, party=party, file=place.file, line=place.line, column=column)

        of_scores: dict[str, ArrayLike] = {name: piece.numbers[name] for name in scores}
        data = PartyData.from_columns(
            "rows",
            self._label_values(part),
            of_scores,
            {name: piece.texts[name] for name in groups},
            self._analysis,
            clusters=None if cluster is None else piece.texts[cluster],
            known_clusters=self._patients,
            label_column=label,
            refuse=refuse,
        )
        data = rescaled(data, self._entries.score_scale, refuse=refuse)
        self._sites.append(names[part.sites.codes])
        self._rows = self._rows or [Column(array.dtype) for array in data.arrays]
        for kept, array in zip(self._rows, data.arrays, strict=True):
            kept.append(array)

    def _complete(self, part: _Part) -> _Part:
        """Return the rows without a missing entry, where others are to be dropped, and count these."""
        if not self._entries.drop_missing or not (missing := part.missing).any():
            return part
        for code, times in zip(*np.unique(part.sites.codes[missing], return_counts=True), strict=True):
            self._dropped[part.sites.names[code]] += int(times)
        return part.chosen(~missing)

    def _named(self, part: _Part) -> NDArray[np.int32]:
        names = np.zeros(len(part.sites.names), np.int32)
        first = {int(np.argmax(part.sites.codes == code)): int(code) for code in part.sites.present()}
        for row, code in sorted(first.items()):
            name = part.sites.names[code]
            if name is None:
                place = part.file.place(int(part.rows[row]), self._columns.names)
                column = self._columns.site
                message = f"{place.text}, column {column!r}: the site is missing; {_DROP}"
                raise InputError(message, file=place.file, line=place.line, column=column)
            names[code] = self._codes.setdefault(name, len(self._codes))
        return names

    def _label_values(self, part: _Part) -> Any:
        coded, wanted = part.piece.texts[self._columns.label], level_text(self._entries.positive_label)
        if self._analysis.classes:
            return coded
        if wanted is None:
            return coded.values(_label)
        self._labels_seen |= dict.fromkeys(sorted({coded.names[code] or wanted for code in coded.present()}))
        try:
            require_one_spelling(self._labels_seen, self._columns.label)
            if len(self._labels_seen) > 2:
                _, first, second, *_ = self._labels_seen
                two = f"there is one other label, and these are two: {first!r} and {second!r}"
                raise InputError(f"with the positive label {wanted!r} {two}", column=self._columns.label)
        except InputError as error:
            raise error.within(f"file {part.file.name!r}", file=part.file.name) from None
        return coded.values(lambda name: None if name is None else name == wanted)

    def parties(self, files: Sequence[TableFile]) -> list[PartyData]:
        """Return every party, its rows in the order of the files."""
        for file in files:
            if file not in self._with_rows:
                why = ": each of its rows has a missing entry and was left out" if self._dropped else ""
                raise InputError(f"file {file.name!r}: there are no rows{why}", file=file.name)
        of_party = parted(self._sites.finished(), len(self._codes), [column.finished() for column in self._rows])
        models, groups = len(self._columns.scores), len(self._columns.groups)
        lost = left_out_beside(self._codes, self._dropped)
        made = (
            PartyData(
                checked_name(name),
                labels,
                tuple(others[:models]),
                tuple(others[models : models + groups]),
                next(iter(others[models + groups :]), None),
                score_columns=self._columns.scores,
                dropped=self._dropped[name],
                lost=lost if code == 0 else (),
                place=partial(_place, tuple(files), self._columns, self._entries, name),
            )
            for (name, code), (labels, *others) in zip(self._codes.items(), of_party, strict=True)
        )
        return [noted(data, self._entries.score_scale) for data in made]


def _place(files: Sequence[TableFile], columns: _Columns, entries: FileEntries, party: str, row: int) -> Place:
    """Return where a party's row, from 0, comes from. Rows do not remember it: the files are read again."""
    for part in _parts(files, columns, entries):
        own = np.array([name == party for name in part.sites.names])[part.sites.codes]
        if entries.drop_missing:
            own &= ~part.missing
        if row < (rows := int(own.sum())):
            return part.file.place(int(np.array(part.rows)[own][row]), columns.names)
        row -= rows
    raise InputError(f"party {party!r}: its files have changed", party=party)


def _label(name: str | None) -> float | str | None:
    """Return a label as a number, where it is one; True and False are 1 and 0, as data frames save Booleans."""
    if name is None:
        return None
    known = {"true": 1.0, "false": 0.0}.get(name.lower())
    if known is not None:
        return known
    try:
        return name if "_" in name else float(name)
    except ValueError:
        return name


def _party_names(files: Sequence[TableFile]) -> dict[TableFile, str]:
    """Return each file's party, which the file names, or its folder where all files are called alike."""
    names = [
        "stdin" if file.path == STDIN else file.path.name[: len(file.path.name) - len(file.suffix)] for file in files
    ]
    folders = [file.path.parent.name for file in files]
    if len(files) > 1 and len(set(names)) == 1 and all(folders):
        names = folders
    return dict(zip(files, names, strict=True))


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


def _refuse_names(files: Sequence[TableFile]) -> None:
    """Raise `InputError` where the name of a file cannot be that of a party, or is another's."""
    by_name: dict[str, TableFile] = {}
    for file, party in _party_names(files).items():
        try:
            file.name.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"file {file.name!r}: its name is not UTF-8, and a party is to be called so; rename the file, or name "
                "the parties in a site column",
                file=file.name,
            ) from None
        other = by_name.setdefault(party, file)
        if other is not file:
            raise InputError(
                f"files {other.name!r} and {file.name!r} both name a party {party!r};"
                " rename one, or name the parties in a site column"
            )

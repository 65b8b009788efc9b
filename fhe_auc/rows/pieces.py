"""Pieces of columns: what any table gives, whether a file or columns in memory, before an entry is checked."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.base.names import known_names
from fhe_auc.rows.entries import WIDTHLESS, Coded
from fhe_auc.rows.row_store import BATCH, Column, release


class Piece(NamedTuple):
    """Some rows: columns of numbers as arrays, all others coded."""

    numbers: dict[str, NDArray[Any]]
    texts: dict[str, Coded]

    @property
    def rows(self) -> int:
        """Number of rows, of one column at least."""
        return max([*map(len, self.numbers.values()), *map(len, self.texts.values())])

    def chosen(self, rows: NDArray[Any] | slice) -> Piece:
        """Return some of the rows."""
        return Piece(
            {name: array[rows] for name, array in self.numbers.items()},
            {name: coded.chosen(rows) for name, coded in self.texts.items()},
        )


class Words(NamedTuple):
    """What messages say of arguments: as the command line has them, or Python."""

    drop: str
    positive: str  # before the label
    classes: str
    label: str  # what names another column of labels, and of scores
    score: str
    left_out: str = ""  # what is to be known where rows of a table with a missing entry were left out


OPTIONS = Words(
    "--drop-missing leaves such rows out", "--positive-label ", "--classes", "--label-column", "--score-column"
)
KEYWORDS = Words("drop the row, as drop_missing=True does", "positive_label=", "classes=", "label=", "score=")


class Table(Protocol):
    """A table whose rows come in pieces, each time that they are asked for the same ones."""

    @property
    def title(self) -> str:
        """How messages name it: "file 'a.csv'"."""

    @property
    def party(self) -> str:
        """Whose rows these are, where no column says so."""

    @property
    def file(self) -> str | None:
        """Its file."""

    @property
    def words(self) -> Words:
        """How messages to whoever has given it name arguments."""

    @property
    def names_columns(self) -> bool:
        """Whether its columns have names of their own, which messages tell."""

    def keep(self, numbers: Sequence[str], texts: Sequence[str]) -> None:
        """Read all that `pieces` will be asked for, where the table can be read once only; errors are those of it."""

    def pieces(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        """Yield the rows of these columns, in order; raise `InputError` where the table cannot be read or lacks one."""

    def place(self, row: int, wanted: Sequence[str]) -> Place:
        """Return where a row, from 0, is; `wanted` are the columns that were read."""


class KeptPieces:
    """The pieces of a table that is read once: in memory, or, where rows are many, in unnamed temporary files."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        numbers, codes = dict[str, Column](), dict[str, Column]()
        known = dict[str, dict[str | None, int]]()
        self._texts = dict[str, Coded]()  # of each column, without rows
        self._odd = dict[str, dict[int, object]]()  # entries by row, in columns of numbers, that are none
        self._rows = 0
        for piece in pieces:
            for name, entries in piece.numbers.items():
                own = numbers.setdefault(name, Column(np.float64))
                own.append(self._numbers(self._odd.setdefault(name, {}), entries))
            for name, coded in piece.texts.items():
                own_names, before = known.setdefault(name, {}), self._texts.get(name, coded)
                table = [own_names.setdefault(text, len(own_names)) for text in coded.names]
                codes.setdefault(name, Column(np.int32)).append(np.array(table or [0], np.int32)[coded.codes])
                self._texts[name] = replace(coded, names=(), stored={**before.stored, **coded.stored})
            self._rows += piece.rows
        self._texts = {name: replace(coded, names=[*known[name]]) for name, coded in self._texts.items()}
        self._columns = {name: column.finished() for name, column in (*numbers.items(), *codes.items())}

    def _numbers(self, odd: dict[int, object], entries: NDArray[Any]) -> NDArray[np.float64]:
        """Return entries as float64, NaN where one is missing, or is none or would change, which is written down."""
        if entries.dtype == np.float64:
            return entries
        found: NDArray[np.float64] = np.full(len(entries), np.nan)
        rows: NDArray[np.intp] = np.arange(len(entries))
        if entries.dtype.kind in "biuf":
            with np.errstate(invalid="ignore"):
                found = entries.astype(np.float64)
                rows = np.flatnonzero((found.astype(entries.dtype) != entries) & (entries == entries))
        for row, entry in zip(rows.tolist(), entries[rows].tolist(), strict=True):
            if type(entry) in (int, float) and float(entry) == entry:
                found[row] = entry
            elif entry is not None and entry == entry:
                odd[self._rows + row] = entry
        return found

    def pieces(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        """Yield the rows of some of the columns, in order."""
        for start in range(0, self._rows, BATCH):
            rows = slice(start, start + BATCH)
            found = {name: self._entries(name, rows) for name in numbers}
            yield Piece(
                found,
                {name: replace(self._texts[name], codes=np.asarray(self._columns[name][rows])) for name in texts},
            )
            for name in (*numbers, *texts):
                release(self._columns[name])

    def _entries(self, name: str, rows: slice) -> NDArray[Any]:
        found: NDArray[Any] = np.asarray(self._columns[name][rows])
        odd = {row - rows.start: entry for row, entry in self._odd[name].items() if rows.start <= row < rows.stop}
        if odd:
            found = found.astype(object)
            for row, entry in odd.items():
                found[row] = entry
        return found


def find_columns(
    wanted: Sequence[str],
    there: Sequence[str],
    words: Words = OPTIONS,
    below: Iterable[tuple[str, Sequence[str]]] = (),
) -> dict[str, str]:
    """Return how each column that is wanted is called in a table; raise `InputError` unless it is there once.

    Blanks around a name do not count, nor whether an accent is a character of its own (NFC). `below` are places, such
    as "line 3", with entries that may be the header: a title may stand above it.
    """
    usual = {"y_true": words.label, "y_score": words.score}  # who meets these names has not given any
    by_name = dict[str, list[str]]()
    for name in there:
        by_name.setdefault(_column_name(name), []).append(name)
    found = dict[str, str]()
    for name in wanted:
        own = by_name.get(_column_name(name), [])
        if not own:
            for place, entries in below:
                if column_names(entries) >= column_names(wanted):
                    told = f"the header is taken from the first line; {place} has these columns: remove all above it"
                    raise InputError(told, column=name)
            hint = f"; {usual[name]} names the right one" if name in usual else ""
            raise InputError(f"there is no column {name!r}{known_names(name, by_name)}{hint}", column=name)
        if len(own) > 1:
            raise InputError(f"column {name!r} is there {len(own)} times", column=name)
        found[name] = own[0]
    return found


def _column_name(name: str) -> str:
    return unicodedata.normalize("NFC", name.strip(WIDTHLESS).strip())


def column_names(names: Iterable[str]) -> set[str]:
    """Return names of columns in the form in which they are compared."""
    return {_column_name(name) for name in names}

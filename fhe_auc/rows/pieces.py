"""Pieces of columns: what any table gives, whether a file or columns in memory, before an entry is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.base.names import known_names
from fhe_auc.rows.entries import Coded


class Piece(NamedTuple):
    """Some rows: columns of numbers as arrays, all others coded."""

    numbers: dict[str, NDArray[Any]]
    texts: dict[str, Coded]

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

    def pieces(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        """Yield the rows of these columns, in order; raise `InputError` where the table cannot be read or lacks one."""

    def place(self, row: int, wanted: Sequence[str]) -> Place:
        """Return where a row, from 0, is; `wanted` are the columns that were read."""


def require_columns(wanted: Sequence[str], there: Sequence[str], words: Words = OPTIONS) -> None:
    """Raise `InputError` unless each column that is wanted is there once."""
    times = Counter(there)
    usual = {"y_true": words.label, "y_score": words.score}  # who meets these names has not given any
    for name in wanted:
        if times[name] == 0:
            hint = f"; {usual[name]} names the right one" if name in usual else ""
            raise InputError(f"there is no column {name!r}{known_names(name, there)}{hint}", column=name)
        if times[name] > 1:
            raise InputError(f"column {name!r} is there {times[name]} times", column=name)

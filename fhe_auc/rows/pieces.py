"""Pieces of columns: what any table gives, whether a file or columns in memory, before an entry is checked."""

from __future__ import annotations

import pickle
import tempfile
import unicodedata
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.base.files import naming
from fhe_auc.base.names import known_names
from fhe_auc.rows.entries import WIDTHLESS, Coded

_IN_MEMORY = 2**24  # bytes of columns that are kept in memory; more go to a file


class Piece(NamedTuple):
    """Some rows: columns of numbers as arrays, all others coded."""

    numbers: dict[str, NDArray[Any]]
    texts: dict[str, Coded]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return max((*map(len, self.numbers.values()), *map(len, self.texts.values())), default=0)

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
    follow_up: str  # what names the column of follow-up times
    events: str  # what gives codes of events
    left_out: str = ""  # what is to be known where rows of a table with a missing entry were left out


OPTIONS = Words(
    "--drop-missing leaves such rows out",
    *("--positive-label ", "--classes", "--label-column", "--score-column", "--time-column", "--event-column NAME="),
)
KEYWORDS = Words(
    "drop the row, as drop_missing=True does",
    *("positive_label=", "classes=", "label=", "score=", "time=", "event_codes="),
)


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
    """The pieces of a table that is read once: in memory, or, where rows are many, in an unnamed temporary file."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed with this object
        weakref.finalize(self, self._file.close)
        self._starts = list[dict[str, int]]()  # of each column of a piece
        with naming(tempfile.gettempdir()):
            for piece in pieces:
                self._starts.append({})
                for name, column in (*piece.numbers.items(), *piece.texts.items()):
                    self._starts[-1][name] = self._file.tell()
                    pickle.dump(column, self._file, pickle.HIGHEST_PROTOCOL)

    def pieces(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        """Yield the rows of some of the columns, in order."""
        for starts in self._starts:
            found = dict[str, Any]()
            for name in (*numbers, *texts):
                self._file.seek(starts[name])
                found[name] = pickle.load(self._file)  # noqa: S301 - our own
            yield Piece({name: found[name] for name in numbers}, {name: found[name] for name in texts})


def find_columns(
    wanted: Sequence[str], there: Sequence[str], words: Words = OPTIONS, below: Iterable[tuple[str, Sequence[str]]] = ()
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

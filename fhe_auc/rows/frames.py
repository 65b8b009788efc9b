"""Rows in memory: tables, which list columns and return one by name, and pairs of arrays, as tables of `pieces`."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.base.names import first_alike
from fhe_auc.question.analysis import Analysis, Questions
from fhe_auc.rows.entries import Coded, as_coded, one_dimensional, site_name
from fhe_auc.rows.party_data import AS_THEY_ARE, Entries, PartyData, noted, rescaled
from fhe_auc.rows.party_rows import parties_in
from fhe_auc.rows.pieces import KEYWORDS, Piece, Words, find_columns
from fhe_auc.rows.side_by_side import compared

Rows: TypeAlias = Any
"""A table with a column of sites; or an iterable of parties, or a mapping of their names to them.

A party is a pair (y_true, y_score), a table, or `PartyData`.
"""


@dataclass(frozen=True, eq=False)
class MemoryTable:
    """Columns in memory, by name: a `fhe_auc.rows.pieces.Table`. A pair's have names that nobody has given."""

    title: str  # "party 'north'", "the table"
    party: str
    columns: Any
    names_columns: bool = True

    _arrays: dict[str, NDArray[Any]] = field(default_factory=dict, init=False)  # what has been read
    _coded: dict[str, Coded] = field(default_factory=dict, init=False)

    file: ClassVar[None] = None
    words: ClassVar[Words] = KEYWORDS

    def place(self, row: int, wanted: Sequence[str]) -> Place:
        """Return the row by its number."""
        return Place(f"row {row}")

    def keep(self, numbers: Sequence[str], texts: Sequence[str]) -> None:
        """Do nothing: columns in memory are there."""

    def pieces(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        """Yield all rows at once; errors as of `fhe_auc.rows.pieces.Table`."""
        for name in (*texts, *numbers):
            if name not in self._arrays:
                self._arrays[name] = self._column(name)
        arrays = {name: self._arrays[name] for name in (*texts, *numbers)}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} {rows}" for name, rows in lengths.items())
            raise InputError(f"{self.title}: the columns differ in length: {told}; each row needs all")
        for name in (each for each in texts if each not in self._coded):
            order = tuple(text for text in map(site_name, _order_of(self._values(name))) if text is not None)
            self._coded[name] = replace(as_coded(arrays[name]), order=order)
        yield Piece({name: arrays[name] for name in numbers}, {name: self._coded[name] for name in texts})

    def _column(self, name: str) -> NDArray[Any]:
        """Return a column as an array, shape (n,), in which every entry is one value."""
        values = self._values(name)
        _refuse_lazy_or_grouped(values, f"{self.title}: {name}", "read all columns together, as one table")
        array = one_dimensional(values, self.title, name)
        entries = array.tolist() if array.dtype == object else []
        if odd := set(map(type, entries)) & {list, tuple, dict, set, np.ndarray}:
            row, got = next((row, type(entry).__name__) for row, entry in enumerate(entries) if type(entry) in odd)
            raise InputError(f"{self.title}, row {row}: {name} must be one value for each row, got a {got}")
        return array

    def _values(self, name: str) -> Any:
        try:
            return self.columns[name]
        except Exception:  # each library has its own
            there = [each for each in _column_names(self.columns) or () if each != name]
            if "," in name and set(several := [part.strip() for part in name.split(",")]) <= set(there):
                raise InputError(f"{self.title}: {name!r} is no column: score={several!r} names several") from None
            try:
                return self.columns[find_columns([name], there, self.words)[name]]
            except InputError as error:
                raise error.within(self.title) from None


def _order_of(values: Any) -> Iterable[object]:
    """Return the levels of an ordered categorical of pandas, polars or Arrow, in their order; none otherwise."""
    kind: Any = getattr(values, "dtype", getattr(values, "type", None))
    if type(kind).__name__ == "Enum" or (getattr(kind, "ordered", False) and hasattr(kind, "categories")):
        return list(kind.categories)
    if getattr(kind, "ordered", False) and values.num_chunks:  # of an Arrow table
        return list(values.chunk(0).dictionary.to_pylist())
    return ()


def parties_of(
    rows: Rows, questions: Questions, *, site: str | None = None, label: str = "y_true", entries: Entries = AS_THEY_ARE
) -> tuple[list[PartyData], Analysis]:
    """Return every party's checked rows, with probabilities for scores, and what is asked of them.

    Parties without a name are "party 1" and so on; those of a column of sites come in order of first appearance.
    Raises `InputError` where there are no parties, or rows are no table; and as `fhe_auc.rows.party_rows.parties_in`.
    """
    _refuse_lazy_or_grouped(rows, "rows")
    if site is not None:
        read, analysis = parties_in([_one_table(rows, site)], questions, site=site, label=label, entries=entries)
        return compared(read, analysis, entries.score_scale), analysis
    given = list(_several_parties(rows, label, questions, entries))
    if not given:
        raise InputError("there are no parties")
    if (pair := first_alike(each.name if isinstance(each, PartyData) else each.party for each in given)) is not None:
        raise InputError(f"party {pair[1]!r} is there twice, also as {pair[0]!r}; every party needs its own name")
    tables, scale = [each for each in given if not isinstance(each, PartyData)], entries.score_scale
    read, analysis = parties_in(tables, questions, site=None, label=label, entries=entries)
    parties = iter(read)
    every = [noted(rescaled(each, scale), scale) if isinstance(each, PartyData) else next(parties) for each in given]
    return compared(every, analysis, scale), analysis


def _several_parties(
    rows: Rows, label: str, questions: Questions, entries: Entries
) -> Iterator[MemoryTable | PartyData]:
    if isinstance(rows, Mapping):
        for name, own in rows.items():
            if not isinstance(name, str):
                raise InputError(f"party {name!r}: the name of a party must be text, as {str(name)!r}")
            yield _party(name, own, label, questions, entries)
    elif _column_names(rows) is not None:
        raise InputError("this is one table: say which column names each row's party, as in site='hospital'")
    elif isinstance(rows, Iterable) and not isinstance(rows, str):
        for number, own in enumerate(rows, start=1):
            yield _party(f"party {number}", own, label, questions, entries)
    else:
        kind = type(rows).__name__
        raise InputError(f"parties must be a list of pairs (y_true, y_score) or of tables, got {kind}{_remedy(rows)}")


def _party(name: str, rows: Any, label: str, questions: Questions, entries: Entries) -> MemoryTable | PartyData:
    title, weighed = f"party {name!r}", questions.weights or questions.follow_up
    _refuse_lazy_or_grouped(rows, title)
    if isinstance(rows, PartyData):
        if questions.several or weighed or entries.positive_label is not None:
            raise InputError(f"party {rows.name!r} is PartyData, of one model and no groups: give a table instead")
        return rows
    if isinstance(rows, (tuple, list)) and len(rows) == 2:
        if questions.several or questions.cluster or weighed:
            raise InputError(
                f"{title} is a pair (y_true, y_score), and several models, groups, patients, weights or times are "
                "asked for: give a table, as {'y_true': labels, 'y_score': scores, ...}"
            )
        if _column_names(rows[1]) is not None and isinstance(rows[0], (str, tuple)):
            raise InputError(
                f"{name} is a name with a table, as groups and items() give them: give the mapping itself, dict(rows), "
                "or one table of all rows with site=COLUMN"
            )
        return MemoryTable(title, name, {label: rows[0], questions.score_columns[0]: rows[1]}, names_columns=False)
    if _column_names(rows) is None:
        raise InputError(
            f"{title}: expected a pair (y_true, y_score) or a table, got {type(rows).__name__}{_remedy(rows)}; "
            "weights are a column of a table (weight=COLUMN), and one table of all parties takes site=COLUMN"
        )
    return MemoryTable(title, name, rows)


def _remedy(rows: Any) -> str:
    """Return the end of a message about what is no rows, where it is often given."""
    if isinstance(rows, (str, os.PathLike)):
        return " (read files first)"
    return " (of an array give two columns, as (rows[:, 0], rows[:, 1]))" if isinstance(rows, np.ndarray) else ""


def _one_table(table: Any, site: str) -> MemoryTable:
    if _column_names(table) is None:
        raise InputError(f"site={site!r} is for one table with all parties' rows, got {type(table).__name__}")
    if isinstance(table, Mapping) and any(_column_names(each) is not None for each in table.values()):
        raise InputError(f"site={site!r} is for one table with all parties' rows; these are several: leave it out")
    return MemoryTable("the table", "", table)


def _column_names(table: Any) -> list[str] | None:
    """Return the names of a table's columns, None for what is no table."""
    if isinstance(table, Mapping):
        return [str(name) for name in table]
    names = getattr(table, "column_names", None)  # Arrow's; its columns are the columns themselves
    if names is None:
        names = getattr(table, "columns", None)
    return None if names is None or isinstance(names, str) else [str(name) for name in names]


_NOT_READ = (
    "toPandas",  # Spark
    "to_arrow_table",  # DuckDB, which has columns by name, but not as arrays
    "to_table",  # a dataset or a scanner of Arrow
    "read_all",  # a reader of batches of Arrow
    "collect",  # polars
    "compute",  # dask
    "execute",  # Ibis
)
"""Methods that read the rows of a query or a source of rows; tables in memory have none of them."""


def _refuse_lazy_or_grouped(rows: Any, what: str, remedy: str = "give what .{}() returns") -> None:
    """Raise `InputError` for rows that are still to be read or computed, and for a table that is cut up."""
    if "groupby" in type(rows).__name__.lower():
        raise InputError(
            f"{what}: the table is grouped: give it as it was, and the column that it was grouped by as site=COLUMN"
        )
    of_ray = ("to_pandas",) * callable(getattr(type(rows), "columns", None))
    for name in (*_NOT_READ, *of_ray):
        # Of its type: an object may have columns of any name. An array of xarray may be computed.
        if hasattr(type(rows), name) and getattr(rows, "__dask_graph__", bool)() is not None:
            told = f"{type(rows).__name__} holds no rows before they are read: {remedy.format(name)}"
            raise InputError(f"{what}: {told}")

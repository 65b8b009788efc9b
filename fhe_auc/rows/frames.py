"""Rows in memory to parties: tables, which list columns and return one by name, and pairs of arrays."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.base.names import first_alike, known_names
from fhe_auc.question.analysis import DEFAULT_MIN_CELL, Analysis, Questions
from fhe_auc.rows.entries import (
    as_coded,
    incomplete_rows,
    level_text,
    name_text,
    one_dimensional,
    plain_entry,
    require_one_spelling,
    shown_entry,
)
from fhe_auc.rows.party_data import AS_THEY_ARE, Entries, Label, PartyData, left_out_beside, noted, rescaled

Rows: TypeAlias = Any
"""A table with a column of sites; or an iterable of parties, or a mapping of their names to them.

A party is a pair (y_true, y_score), a table, or `PartyData`.
"""


def questions_of(
    *,
    score: str | Sequence[str],
    by: str | Sequence[str] | Mapping[str, Sequence[Label]] | None = None,
    cluster: str | None = None,
    classes: Sequence[Label] | None = None,
    cross_groups: bool = False,
    heterogeneity: bool = False,
    each_pair: bool = False,
    min_cell: int = DEFAULT_MIN_CELL,
) -> Questions:
    """Return what is asked by the keywords of `fhe_auc.federated_auc`, with names, levels and classes as text.

    Raises `InputError` where the name of a column is no text, levels or classes are no list, or one of these stands for
    a missing entry.
    """
    columns = [score] if isinstance(score, str) else _several(score, "score must be a column, or a list")
    return Questions(
        score_columns=tuple(map(_column_name, columns)),
        by=_levels_of(() if by is None else by),
        classes=_texts(() if classes is None else classes, "classes must be a list of labels"),
        cross_groups=cross_groups,
        heterogeneity=heterogeneity,
        min_cell=min_cell,
        cluster="" if cluster is None else _column_name(cluster),
        each_pair=each_pair,
    )


def _column_name(name: object) -> str:
    if not isinstance(name, str):
        raise InputError(f"the name of a column must be text, got {name!r}: rename such columns")
    return name


def _levels_of(by: str | Sequence[str] | Mapping[str, Sequence[Label]]) -> dict[str, tuple[str, ...]]:
    if isinstance(by, Mapping):
        return {name: _texts(levels, f"by: the levels of {name!r} must be a list") for name, levels in by.items()}
    named = [by] if isinstance(by, str) else by
    return dict.fromkeys(_several(named, "by must be a column, a list, or a mapping of columns to their levels"), ())


def _texts(labels: Sequence[Label], what: str) -> tuple[str, ...]:
    """Return levels or classes as rows have them, as text (`level_text`)."""
    texts = [level_text(label) for label in _several(labels, what)]
    if None in texts:
        raise InputError(f"{what}, and none may stand for a missing entry, got {labels!r}")
    return tuple(map(str, texts))


def _several(values: Any, what: str) -> Sequence[Any]:
    """Return values as a list; raise `InputError` for what is none, a text too, which is a sequence of letters."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"{what}, got {values!r}")
    return list(values)


def _read(label: str, questions: Questions) -> list[str]:
    """Return every column that is read of a party's table."""
    return [label, *questions.score_columns, *questions.by, *([questions.cluster] if questions.cluster else [])]


_NO_SITE = ""  # stands for the name of a party, where rows that are to be dropped have none


@dataclass(frozen=True)
class _Party:
    """A party's columns, by name; a pair's scores have no column."""

    name: str
    columns: Mapping[str, Any]
    is_pair: bool = False
    rows: NDArray[np.intp] | None = None
    """Of each row, where it is in the table that it comes from; None: where it is here."""
    dropped: int = 0

    def place(self, row: int) -> Place:
        return Place(f"row {row if self.rows is None else self.rows[row]}")

    def checked(self, label: str, questions: Questions, analysis: Analysis) -> PartyData:
        data = PartyData.from_columns(
            self.name,
            self.columns[label],
            {"" if self.is_pair else name: self.columns[name] for name in questions.score_columns},
            {name: self.columns[name] for name in questions.by},
            analysis,
            clusters=self.columns[questions.cluster] if questions.cluster else None,
            label_column="" if self.is_pair else label,
            place=self.place,
        )
        return replace(data, dropped=self.dropped)


def parties_of(
    rows: Rows, questions: Questions, *, site: str | None = None, label: str = "y_true", entries: Entries = AS_THEY_ARE
) -> tuple[list[PartyData], Analysis]:
    """Return every party's checked rows, with probabilities for scores, and what is asked of them.

    Parties without a name are "party 1" and so on; those of a column of sites come in order of first appearance.

    Raises `InputError` where a column is missing (the message lists those there are) or has two meanings, there are no
    parties, or two of one name; and as `PartyData.from_columns`, `Questions.analysis` and
    `fhe_auc.rows.party_data.rescaled`.
    """
    wanted = [*_read(_column_name(label), questions), *([] if site is None else [_column_name(site)])]
    if twice := next((name for name in wanted if wanted.count(name) > 1), None):
        raise InputError(f"label, score, site, group and patient columns must differ, but {twice!r} is there twice")
    _refuse_lazy_or_grouped(rows, "rows")
    if site is None:
        parties = list(_several_parties(rows, label, questions, entries))
    else:
        parties = list(_split(rows, site, label, questions, entries))
    lost: tuple[str, ...] = ()
    if entries.drop_missing:
        parties, lost = _complete(parties, of_sites=site is not None)
    if not parties:
        raise InputError("; ".join(["there are no parties" if site is None else "there are no rows", *lost]))
    if (pair := first_alike(party.name for party in parties)) is not None:
        raise InputError(f"party {pair[1]!r} is there twice, also as {pair[0]!r}; every party needs its own name")
    tables = [party for party in parties if isinstance(party, _Party)]
    levels = {
        name: {level_text(entry) for table in tables for entry in set(table.columns[name].tolist())}
        for name, named in questions.by.items()
        if not named
    }
    analysis = questions.analysis(levels)
    if entries.positive_label is not None:
        parties = list(_with_binary_labels(tables, label, entries.positive_label))  # `PartyData` has been refused
    elif not questions.classes:
        _require_zero_and_one(tables, label)
    of_rows = (p if isinstance(p, PartyData) else p.checked(label, questions, analysis) for p in parties)
    data = [noted(rescaled(party, entries.score_scale), entries.score_scale) for party in of_rows]
    return [replace(data[0], lost=tuple(dict.fromkeys((*lost, *data[0].lost)))), *data[1:]], analysis


def _complete(
    parties: Sequence[_Party | PartyData], *, of_sites: bool
) -> tuple[list[_Party | PartyData], tuple[str, ...]]:
    """Return the parties without their rows in which an entry is missing, and what to say of those without others."""
    kept: list[_Party | PartyData] = []
    dropped: dict[str | None, int] = {}
    for party in parties:
        if isinstance(party, PartyData) or len({*map(len, party.columns.values())}) > 1:  # which is refused later
            kept.append(party)
            continue
        gaps = incomplete_rows(party.columns.values())
        if party.name == _NO_SITE:
            dropped[None] = len(gaps)
            continue
        dropped[party.name] = int(gaps.sum())
        if not len(gaps) or not gaps.all():
            own = {name: values[~gaps] for name, values in party.columns.items()}
            numbers = np.arange(len(gaps)) if party.rows is None else party.rows
            kept.append(replace(party, columns=own, rows=numbers[~gaps], dropped=dropped[party.name]))
        elif not of_sites:
            raise InputError(f"party {party.name!r}: there are no rows: each has a missing entry and was left out")
    return kept, left_out_beside({party.name for party in kept}, dropped)


def _several_parties(rows: Rows, label: str, questions: Questions, entries: Entries) -> Iterable[_Party | PartyData]:
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


def _party(name: str, rows: Any, label: str, questions: Questions, entries: Entries) -> _Party | PartyData:
    _refuse_lazy_or_grouped(rows, f"party {name!r}")
    if isinstance(rows, PartyData):
        if questions.several or entries.positive_label is not None:
            raise InputError(f"party {rows.name!r} is PartyData, of one model and no groups: give a table instead")
        return rows
    if isinstance(rows, (tuple, list)) and len(rows) == 2:
        if questions.several or questions.cluster:
            raise InputError(f"party {name!r} is a pair (y_true, y_score): give a table for models, groups or patients")
        if _column_names(rows[1]) is not None and isinstance(rows[0], (str, tuple)):
            raise InputError(
                f"{name} is a name with a table, as groups and items() give them: give the mapping itself, dict(rows), "
                "or one table of all rows with site=COLUMN"
            )
        pair = zip((label, *questions.score_columns), rows, ("labels", "scores"), strict=False)
        return _Party(name, {column: _entries(values, name, what) for column, values, what in pair}, is_pair=True)
    if _column_names(rows) is None:
        raise InputError(
            f"party {name!r}: expected a pair (y_true, y_score) or a table, got {type(rows).__name__}{_remedy(rows)}; "
            "weights are not supported, and one table of all parties takes site=COLUMN"
        )
    return _Party(name, {column: _column(rows, column, f"party {name!r}", name) for column in _read(label, questions)})


def _remedy(rows: Any) -> str:
    """Return the end of a message about what is no rows, where it is often given."""
    if isinstance(rows, (str, os.PathLike)):
        return " (read files first)"
    return " (of an array give two columns, as (rows[:, 0], rows[:, 1]))" if isinstance(rows, np.ndarray) else ""


def _split(table: Any, site: str, label: str, questions: Questions, entries: Entries) -> Iterable[_Party | PartyData]:
    if _column_names(table) is None:
        raise InputError(f"site={site!r} is for one table with all parties' rows, got {type(table).__name__}")
    if isinstance(table, Mapping) and any(_column_names(each) is not None for each in table.values()):
        raise InputError(f"site={site!r} is for one table with all parties' rows; these are several: leave it out")
    names = _read(label, questions)
    read = {name: _column(table, name, "the table", "table") for name in (*names, site)}
    sites = as_coded(read[site], name_text)
    if None in sites.names and not entries.drop_missing:
        row = int((sites.codes == sites.names.index(None)).argmax())
        where = f"the table, row {row}: the site is missing in column {site!r}"
        raise InputError(f"{where}; drop the row, as drop_missing=True does", column=site)
    for name, values in read.items():
        if len(values) != len(sites):
            raise InputError(f"the table: {len(sites)} entries in column {site!r} but {len(values)} in {name!r}")
    order = np.argsort(sites.codes, kind="stable")  # stable: a party's rows stay in the table's order
    places = np.split(order, np.bincount(sites.codes).cumsum()[:-1])
    return [
        _Party(name or _NO_SITE, {column: read[column][own] for column in names}, rows=own)
        for name, own in zip(sites.names, places, strict=False)  # of no rows there is one place
    ]


def _column_names(table: Any) -> list[str] | None:
    """Return the names of a table's columns, None for what is no table."""
    if isinstance(table, Mapping):
        return [str(name) for name in table]
    names = getattr(table, "column_names", None)  # Arrow's; its columns are the columns themselves
    if names is None:
        names = getattr(table, "columns", None)
    return None if names is None or isinstance(names, str) else [str(name) for name in names]


def _column(table: Any, name: str, where: str, party: str) -> NDArray[Any]:
    try:
        values = table[name]
    except Exception:  # each library has its own
        names = [each for each in _column_names(table) or () if each != name]
        hint = {"y_true": "; label= names the right one", "y_score": "; score= names the right one"}.get(name, "")
        raise InputError(f"{where}: there is no column {name!r}{known_names(name, names)}{hint}", column=name) from None
    return _entries(values, party, name)


def _entries(values: Any, party: str, what: str) -> NDArray[Any]:
    """Return a column as an array, shape (n,), in which every entry is one value."""
    array = one_dimensional(values, party, what)
    for row, entry in enumerate(array.tolist() if array.dtype == object else ()):
        if isinstance(entry, (list, tuple, dict, set, np.ndarray)):
            got = type(entry).__name__
            raise InputError(f"party {party!r}, row {row}: {what} must be one value for each row, got a {got}")
    return array


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


def _refuse_lazy_or_grouped(rows: Any, what: str) -> None:
    """Raise `InputError` for a table whose rows are still to be read or computed, and for one that is cut up."""
    if "groupby" in type(rows).__name__.lower():
        raise InputError(
            f"{what}: the table is grouped: give it as it was, and the column that it was grouped by as site=COLUMN"
        )
    for name in _NOT_READ:
        if hasattr(type(rows), name):  # of its type: an object may have columns of any name
            kind = type(rows).__name__
            raise InputError(f"{what}: {kind} holds no rows before they are read: give what .{name}() returns")


def _with_binary_labels(tables: Sequence[_Party], column: str, positive_label: Label) -> list[_Party]:
    """Return the parties with Booleans for labels: whether they are the positive one. All others must be one label."""
    wanted = str(level_text(positive_label))
    labels = [as_coded(table.columns[column], level_text) for table in tables]
    seen = sorted({label for coded in labels for label in coded.names if label is not None})
    require_one_spelling(sorted({wanted, *seen}), column)
    if wanted not in seen or len(seen) > 2:
        raise InputError(
            f"with positive_label={positive_label!r}, labels must be {wanted!r} and one other; they are {_some(seen)}"
        )
    booleans = [coded.values(lambda label: None if label is None else label == wanted) for coded in labels]
    return [replace(table, columns={**table.columns, column: own}) for table, own in zip(tables, booleans, strict=True)]


def _some(labels: Sequence[Any]) -> str:
    return f"{', '.join(map(repr, labels[:5]))}{' and others' if len(labels) > 5 else ''}"


def _require_zero_and_one(tables: Sequence[_Party], column: str) -> None:
    """Refuse labels other than 0 and 1, with the remedy; what is missing or not finite is for `PartyData` to refuse."""
    columns = (table.columns[column] for table in tables)
    distinct = (np.unique(each) if each.dtype.kind in "biuf" else each for each in columns)
    entries = [plain_entry(entry) for each in distinct for entry in set(each.tolist())]
    entries.sort(key=_is_zero_or_one, reverse=True)  # of 1 and "1", the text is the one that is shown
    labels = {text: entry for entry in entries if (text := level_text(entry)) is not None}
    others = {text for text, entry in labels.items() if not _is_zero_or_one(entry)}
    if not others:
        return
    shown = [labels[text] for text in sorted(labels)]
    odd, row, label = next(
        (table, row, entry)
        for table in tables
        for row, entry in enumerate(table.columns[column].tolist())
        if level_text(entry) in others
    )
    where = "" if odd.is_pair else f" in column {column!r}"
    if len(shown) == 1:
        what = f"all labels{where} are {shown[0]!r}; labels are 0 and 1"
    elif len(shown) == 2:
        what = (
            f"the labels{where} are {shown[0]!r} and {shown[1]!r}, not 0 and 1; say which one is positive: "
            f"positive_label={shown[0]!r} or positive_label={shown[1]!r}"
        )
    else:
        what = (
            f"party {odd.name!r}, {odd.place(row).text}: label is {shown_entry(label)}, and the {len(shown)} "
            f"labels{where} are {_some(shown)}; two labels are 0 and 1, or positive_label= says which one is positive; "
            "three classes or more are named with classes=; survival times are not supported: choose a horizon"
        )
    raise InputError(what, party=odd.name, column=column)


def _is_zero_or_one(entry: object) -> bool:
    """Say whether an entry is one of these numbers, or none that is a label at all."""
    return isinstance(entry, (bool, int, float)) and (entry in (0, 1) or not math.isfinite(entry))

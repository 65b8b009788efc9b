"""Rows of tables to parties: every piece of columns is checked as it comes (`PartyData.from_columns`), and kept.

What is kept of many rows of files is in an unnamed temporary file (`fhe_auc.rows.row_store`), for the several passes of
a session: memory grows with pieces, not with rows. It does grow with the patients of rows, whose names are kept, and
where their rows are compared; and up to four million scores that thresholds are made of (`default_thresholds`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.base.names import first_alike
from fhe_auc.question.analysis import Analysis, Questions
from fhe_auc.question.follow_up import CODES, FollowUp
from fhe_auc.rows.entries import (
    Coded,
    canonical,
    finite_numbers,
    known_codes,
    missing_entries,
    number_of,
    require_one_spelling,
)
from fhe_auc.rows.party_data import COARSE, Entries, PartyData, checked_name, noted, rescaled
from fhe_auc.rows.pieces import Piece, Table
from fhe_auc.rows.row_store import Column, cut, parted

_USUAL = CODES, (*CODES, "2"), ("2", "1"), ("True", "False")  # codes of events


class _Columns(NamedTuple):
    label: str
    scores: tuple[str, ...]
    groups: tuple[str, ...]
    cluster: str | None
    site: str | None
    weight: str | None = None
    time: str | None = None

    @property
    def names(self) -> list[str]:
        return [*self.texts, *self.numbers]

    @property
    def numbers(self) -> list[str]:
        return [*self.scores, *(name for name in (self.weight, self.time) if name is not None)]

    @property
    def texts(self) -> list[str]:
        return [self.label, *self.groups, *(name for name in (self.cluster, self.site) if name is not None)]


class _Part(NamedTuple):
    """Rows of one table: the party of each by its code, and the place of each row."""

    table: Table
    piece: Piece
    sites: Coded
    rows: Sequence[int] | NDArray[np.int64]  # the number of each in the table

    @property
    def missing(self) -> NDArray[np.bool_]:
        """In which rows an entry is missing."""
        columns: list[NDArray[Any] | Coded] = [*self.piece.texts.values(), *self.piece.numbers.values()]
        return np.asarray(np.logical_or.reduce([missing_entries(values) for values in columns]))

    def chosen(self, which: NDArray[np.bool_]) -> _Part:
        """Return some of the rows."""
        return _Part(self.table, self.piece.chosen(which), self.sites.chosen(which), np.array(self.rows)[which])


def parties_in(
    tables: Sequence[Table], questions: Questions, *, site: str | None, label: str, entries: Entries
) -> tuple[list[PartyData], Analysis]:
    """Return the parties of tables for questions, and what these are now that all levels are known.

    Without a column `site` each table is a party. With it the rows of all tables are grouped by its text, which names
    the party, in order of first appearance. Levels that are to be found come in the order of an ordered categorical,
    where all tables have the same, else in a natural one.

    Raises `InputError` for a column that has two meanings or is not there, a table without rows, two parties of one
    name, or an entry that is missing or no label, score or site: the message names party, row, column and value.
    """
    scores, by, cluster = questions.score_columns, tuple(questions.by), questions.cluster or None
    columns = _Columns(label, scores, by, cluster, site, questions.weights.column if questions.weights else None)
    if questions.follow_up:  # then no label is read
        columns = columns._replace(label=questions.follow_up.event, time=questions.follow_up.time)
    if twice := [name for name, times in Counter(columns.names).items() if times > 1]:
        kinds = ", group, patient, weight, time and event" if columns.weight or columns.time else ", group and patient"
        raise InputError(f"label, score, site{kinds} columns must differ, but {twice[0]!r} is there twice")
    for table in tables:
        table.keep(columns.numbers, columns.texts)
    found = {name: dict[str, None]() for name, levels in questions.by.items() if not levels}
    orders: dict[str, set[tuple[str, ...]]] = {name: set() for name in found}
    taken = dict[str, None]()
    if found:  # they name the groups, whose codes the rows are to hold: so they are looked for first
        for part in _parts(tables, _Columns(columns.label, (), columns.groups, None, site)):
            for name, seen in found.items():
                coded = part.piece.texts[name]
                seen |= dict.fromkeys(coded.named().values())
                orders[name].add(coded.order)
                taken |= _taken({name: coded})
    for name, seen in found.items():
        numbers = [level for level in seen if number_of(level) is not None]
        require_one_spelling(numbers, name, f"column {name!r}: level", ", or name all levels")
    try:
        analysis = questions.analysis(found, {name: own.pop() for name, own in orders.items() if len(own) == 1})
    except InputError as error:
        raise error.within("; ".join(taken)) if taken else error from None
    kept = _Kept(tables, columns, analysis, entries)
    for part in _parts(tables, columns):
        kept.add(part)
    return kept.parties(), analysis


def _parts(tables: Sequence[Table], columns: _Columns) -> Iterator[_Part]:
    for table in tables:
        start = 0
        for piece in table.pieces(columns.numbers, columns.texts):
            size = len(piece.texts[columns.label])
            texts = {name: coded if name == columns.site else coded.levels() for name, coded in piece.texts.items()}
            one_site = Coded(np.zeros(size, np.int32), [table.party])
            sites = one_site if columns.site is None else piece.texts[columns.site]
            yield _Part(table, Piece(piece.numbers, texts), sites, range(start, start + size))
            start += size


def _taken(texts: Mapping[str, Coded]) -> dict[str, None]:
    """Return a sentence for each word that was taken for missing."""
    words = [(name, text) for name, coded in texts.items() for text in coded.taken.values()]
    return {f"column {name!r}: {text!r} counts as missing": None for name, text in words if re.search("[a-zA-Z]", text)}


class _Kept:
    """The checked rows of all parties, as they arrive."""

    def __init__(self, tables: Sequence[Table], columns: _Columns, analysis: Analysis, entries: Entries) -> None:
        self._tables, self._columns, self._analysis, self._entries = tables, columns, analysis, entries
        self._codes: dict[str, int] = {}  # of a party, in the order of first appearance
        self._patients: dict[str, int] = {}  # those of two parties are different ones, whatever their ids
        self._dropped: Counter[str | None] = Counter()  # None: of rows without a site
        self._with_rows: set[Table] = set()
        self._shorter = dict[Table, None]()  # those that lost rows
        self._labels_seen = dict[str, str](), dict[str, str]()  # those that count as 0, and as 1, and their values
        self._stored = dict[str, str]()  # values of labels, in any table
        self._values = set[str]()  # of the positive label, in all tables; "" where one has values alone
        self._taken = dict[str, None]()
        self._rounded = dict[str, None]()
        self._weights = dict[int, tuple[float, int]]()  # sums of each party's, as they are, and in units
        self._optional = tuple[str, ...]()  # columns of `PartyData.optional`
        self._in_memory = all(table.file is None for table in tables)
        self._sites = Column(np.int32, in_memory=self._in_memory)  # of each row, where a column says so
        self._sizes: Counter[int] = Counter()  # rows of each party
        self._rows: list[Column] = []  # as of `PartyData.arrays`

    def add(self, part: _Part) -> None:
        part = self._complete(part)
        if not len(part.rows):
            return
        if self._columns.site is None and part.table.party in self._codes and part.table not in self._with_rows:
            raise InputError(f"party {part.table.party!r} is there twice; every party needs its own name")
        self._with_rows.add(part.table)
        (label, scores, groups, cluster, site, weight, time), piece, table = self._columns, part.piece, part.table

        def refuse(row: int, what: str, column: str) -> InputError:
            place = table.place(int(part.rows[row]), self._columns.names)
            party = part.sites.names[int(part.sites.codes[row])]
            if re.search(r" missing\b", what):
                what += f"; {table.words.drop}"
            where = f", column {column!r}" if table.names_columns else ""
            whose = "" if party is None else f"party {party!r}, "
            return InputError(
                f"{whose}{place.text}{where}: {what}", party=party, file=place.file, line=place.line, column=column
            )

        codes = known_codes(part.sites, "the site", lambda row, what: refuse(row, what, str(site)), self._codes)
        data = PartyData.from_columns(
            "rows",
            self._labels(part, partial(refuse, column=label)),
            {name: piece.numbers[name] for name in scores},
            {name: piece.texts[name] for name in groups},
            self._analysis,
            clusters=None if cluster is None else piece.texts[cluster],
            known_clusters=self._patients,
            weights=None if weight is None else piece.numbers[weight],
            times=None if time is None else piece.numbers[time],
            label_column=label,
            refuse=refuse,
        )
        self._rounded |= dict.fromkeys(data.notes)
        if weight is not None and data.weights is not None:
            exact = finite_numbers(piece.numbers[weight], "weight", partial(refuse, column=weight))
            of_sites = (np.bincount(codes, each).tolist() for each in (exact, data.weights))
            for code, (more, units) in enumerate(zip(*of_sites, strict=True)):
                before = self._weights.get(code, (0.0, 0))
                self._weights[code] = before[0] + more, before[1] + int(units)
        self._optional = tuple(data.optional)
        data = rescaled(data, self._entries.score_scale, refuse=refuse)
        if self._columns.site is None:
            self._sizes[int(codes[0])] += data.rows
        else:
            self._sites.append(codes)
        self._rows = self._rows or [Column(array.dtype, in_memory=self._in_memory) for array in data.arrays]
        for kept, array in zip(self._rows, data.arrays, strict=True):
            kept.append(array)

    def _complete(self, part: _Part) -> _Part:
        """Return the rows without a missing entry, where others are to be dropped, and count these."""
        if not self._entries.drop_missing or not (missing := part.missing).any():
            return part
        self._shorter[part.table] = None
        self._taken |= _taken(part.piece.texts)
        for code, times in zip(*np.unique(part.sites.codes[missing], return_counts=True), strict=True):
            self._dropped[part.sites.names[code]] += int(times)
        return part.chosen(~missing)

    def _labels(self, part: _Part, refuse: partial[InputError]) -> Coded:
        """Return labels as 0 and 1, or classes as they are; `InputError` for what is neither."""
        coded = part.piece.texts[self._columns.label]
        if self._analysis.classes:
            return coded
        labels = coded.named()
        if follow_up := self._analysis.follow_up:
            return self._events(part, follow_up, refuse)
        self._stored |= coded.stored
        ones = {code: self._counts_as_one(label, coded.stored) for code, label in labels.items()}
        if odd := [code for code, one in ones.items() if one is None]:
            row = int(np.isin(coded.codes, odd).argmax())
            raise refuse(row, f"label is {labels[int(coded.codes[row])]!r}; {self._of_labels(part)}")
        for code in sorted(labels, key=labels.__getitem__):
            self._labels_seen[bool(ones[code])][labels[code]] = _value(coded.stored.get(labels[code], labels[code]))
        (others, ones_too), wanted = self._labels_seen, self._entries.positive
        if wanted in coded.stored or wanted not in labels.values():
            self._values.add(coded.stored.get(str(wanted), ""))
        unlike = [each for each in ones_too if each in others]
        if "" in self._values and len(self._values) > 2:
            unlike.append(str(wanted))
        try:
            if unlike:
                told = f"label {unlike[0]!r} is of one value here and of another in other files: write it in one way"
                raise InputError(told, column=self._columns.label)
            if wanted is not None:
                require_one_spelling((wanted, *others), self._columns.label)
                if len(different := {value: label for label, value in others.items()}) > 1:
                    first, second, *_ = different.values()
                    two = f"there is one other label, and these are two: {first!r} and {second!r}"
                    raise InputError(f"with the positive label {wanted!r} {two}", column=self._columns.label)
        except InputError as error:
            raise error.within(part.table.title, file=part.table.file) from None
        return replace(coded, names=["1" if ones.get(code) else name and "0" for code, name in enumerate(coded.names)])

    def _counts_as_one(self, label: str, stored: Mapping[str, str]) -> bool | None:
        """Return whether a label counts as 1, None where it is neither 0 nor 1 and nobody has said which one does."""
        wanted = self._entries.positive
        if wanted is not None:
            value = _value(self._stored.get(wanted, wanted))
            return label == wanted or (wanted not in stored and _value(stored.get(label, label)) == value)
        coding = "" if _one_or_two(stored) else stored.get(label, "")
        found = (number_of(_value(text)) for text in (label, coding))
        return next((bool(number) for number in found if number in (0, 1)), None)

    def _of_labels(self, part: _Part) -> str:
        """Say which labels there are, in all tables, and what to do about them."""
        words, own = part.table.words, self._all_labels()
        if len(own) < 3:
            which = " or ".join(f"{words.positive}{name!r}" for name in own)
            listed = "the labels are" if len(own) > 1 else "all labels are"
            return f"{listed} {_listed(own)}, not 0 and 1; say which one is positive: {which}"
        listed = ", ".join(map(repr, own[:5])) + " and others" * (len(own) > 5)
        return (
            f"the {len(own)} labels are {listed}: three classes or more are named with {words.classes}, the positive "
            f"one of two labels with {words.positive.strip()}; follow-up times, censored or not, with {words.follow_up}"
        )

    def _all_labels(self) -> list[str]:
        """Return the labels, or codes of events, that there are in all tables."""
        parts = _parts(self._tables, _Columns(self._columns.label, (), (), None, self._columns.site))
        return sorted({label for each in parts for label in each.piece.texts[self._columns.label].named().values()})

    def _events(self, part: _Part, follow_up: FollowUp, refuse: partial[InputError]) -> Coded:
        """Return codes of events as the analysis has them; `InputError`, with all that there are, for another one."""
        coded = part.piece.texts[self._columns.label]
        codes = {_value(code): code for code in map(str, map(canonical, follow_up.codes))}
        stored = {} if _one_or_two(coded.stored) and follow_up.codes == CODES else coded.stored
        found = [name and codes.get(_value(name), codes.get(_value(stored.get(name, name)))) for name in coded.names]
        if odd := [code for code, name in coded.named().items() if found[code] is None]:
            row = int(np.isin(coded.codes, odd).argmax())
            there, named = self._all_labels(), ", ".join(map(repr, follow_up.codes))
            told = f"event is {coded.names[coded.codes[row]]!r}, and codes are {named}, while the column has "
            told += f"{', '.join(map(repr, there))}: "
            guess = next((own for own in _USUAL if sorted(own) == there), None)
            if guess is None:
                told += "write codes alike at all sites; name the event first, the censored next, then competing ones"
                raise refuse(row, f'{told}, as {part.table.words.events}"EVENT,CENSORED"')
            raise refuse(row, f'{told}where {guess[0]} is the event, {part.table.words.events}"{",".join(guess)}"')
        return replace(coded, names=found, stored={})

    def parties(self) -> list[PartyData]:
        """Return every party, its rows in the order of the tables."""
        site = self._columns.site
        for table in self._tables:
            if table not in self._with_rows:
                why = ": each of its rows has a missing entry and was left out" if self._dropped else ""
                raise InputError(f"{table.title}: there are no rows{why}", file=table.file)
        if (pair := first_alike(self._codes)) is not None:
            remedy = "every party needs its own name" if site is None else f"write one site in one way in {site!r}"
            raise InputError(f"party {pair[1]!r} is there twice, also as {pair[0]!r}; {remedy}", column=site)
        weights, names = self._analysis.weights or None, list(self._codes)
        for code, (exact, units) in self._weights.items():
            if weights and abs(units / weights.per - exact) > COARSE * exact:
                raise InputError(
                    f"party {names[code]!r}: rounded to multiples of {1 / weights.per:g}, its weights add up to other "
                    f"than before, by more than {COARSE:.0%}: take a finer step, or multiply all weights by one number",
                    party=names[code],
                    column=weights.column,
                )
        columns = [column.finished() for column in self._rows]
        if site is None:
            of_party = cut(columns, [self._sizes[code] for code in self._codes.values()])
        else:
            of_party = parted(self._sites.finished(), len(self._codes), columns)
        models, groups = len(self._columns.scores), len(self._columns.groups)
        notes, named = self._notes(), any(table.names_columns for table in self._tables)
        made = (
            PartyData(
                checked_name(name),
                labels,
                tuple(others[:models]),
                tuple(others[models : models + groups]),
                **dict(zip(self._optional, others[models + groups :], strict=True)),
                score_columns=self._columns.scores if named else (),
                dropped=self._dropped[name],
                notes=notes if code == 0 else (),
                place=partial(_place, tuple(self._tables), self._columns, self._entries, name),
            )
            for (name, code), (labels, *others) in zip(self._codes.items(), of_party, strict=True)
        )
        return [noted(data, self._entries.score_scale) for data in made]

    def _notes(self) -> tuple[str, ...]:
        """Say which rows and sites were left out, what was taken for missing, and which label counts as 0."""
        found = [
            f"site {site!r}: all of its rows ({rows:,}) have a missing entry and were left out, and the site with them"
            for site, rows in self._dropped.items()
            if rows and site is not None and site not in self._codes
        ]
        if without := self._dropped[None]:
            found.append(f"{without:,} rows were left out whose site is missing")
        found += [f"{table.title}: {table.words.left_out}" for table in self._shorter if table.words.left_out]
        found += (*self._taken, *self._rounded)
        (zeros, ones), wanted = self._labels_seen, self._entries.positive
        seen = zeros | ones
        if seen and (wanted is not None or any(value != _value(label) for label, value in seen.items())):
            more, absent = len(zeros or ones) > 1, "another" if ones or wanted is None else repr(wanted)
            rest = f"{_listed(ones)} as 1" if zeros and ones else f"and no row has {absent}"
            counted = f"label{'s' * more} {_listed(zeros or ones)} count{'s' * (not more)} as {int(not zeros)}"
            found.append(f"{counted}, {rest}")
        return tuple(found)


def _place(tables: Sequence[Table], columns: _Columns, entries: Entries, party: str, row: int) -> Place:
    """Return where a party's row, from 0, comes from. Rows do not remember it: the tables are read again."""
    for part in _parts(tables, columns):
        own = np.array([name == party for name in part.sites.names])[part.sites.codes]
        if entries.drop_missing:
            own &= ~part.missing
        if row < (rows := int(own.sum())):
            return part.table.place(int(np.array(part.rows)[own][row]), columns.names)
        row -= rows
    raise InputError(f"party {party!r}: its files have changed", party=party)


def _value(label: str) -> str:
    """Return True and False, as which data frames save Booleans, as 1 and 0, all else as it is."""
    return {"False": "0", "True": "1"}.get(label, label)


def _one_or_two(stored: Mapping[str, str]) -> bool:
    """Return whether labels are of 1 and 2, and not of 0: then nobody knows what 1 stands for."""
    return {*stored.values()} >= {"1", "2"} and "0" not in stored.values()


def _listed(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))

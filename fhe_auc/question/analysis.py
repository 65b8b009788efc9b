"""What a session estimates: of which models, over which groups of rows, for which classes. It is public and agreed.

An estimate is the area under one ROC curve: of one model's scores, between two sets of rows. A group of rows is all of
them, or those with one level of one variable ("sex: F"); there are no groups by two variables at once.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from fhe_auc.base.errors import InputError
from fhe_auc.base.names import first_alike, names_in, quoted
from fhe_auc.question.follow_up import AtHorizon, FollowUp
from fhe_auc.question.weights import Units, Weights, named_values

MOST_LEVELS_FOUND = 20
MOST_MODELS, MOST_GROUPS, MOST_CLASSES = 16, 100, 20
MOST_ESTIMATES = 2000
MOST_FINE_GROUPS = 26  # all rows among them: counts by label in 5,000 bins are 2^18 then
MOST_CHARACTERS = 40

DEFAULT_MIN_CELL, MOST_MIN_CELL = 10, 1000

ALL = ""  # name of the group of all rows

ACROSS = "positives of the one from negatives of the other"


class Variable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column that divides rows into groups: its name, and all levels that it may have, 2 or more."""

    name: str
    levels: tuple[str, ...]


class Group(NamedTuple):
    """All rows (no variable), or those whose `variable`, by index, has its level of this index."""

    name: str  # "sex: F"; `ALL` for all rows
    variable: int | None = None
    level: int = 0


class Cell(NamedTuple):
    """Which rows count, by indices into an analysis: those of a group that are of one of these classes."""

    group: int
    classes: tuple[int, ...]


class Contrast(NamedTuple):
    """One estimate: the AUC of a model's scores (by index), telling `positives` from `negatives`."""

    model: int
    positives: Cell
    negatives: Cell
    label: str
    """What the positives are told from, where that is not simply label 1 from label 0: "A from others", "A from B"."""
    interval: bool = True  # whether it may have a confidence interval


class Analysis(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """What is estimated, at most 2,000 AUCs; fields mean what they do in `fhe_auc.federated_auc`.

    Names differ: 1 to 40 printable characters without blanks at the ends. `InputError` for what cannot be.
    """

    models: tuple[str, ...] = ("model",)  # names, 1 to 16; where there are several, those of their columns of scores
    by: tuple[Variable, ...] = ()  # at most 100 levels in all
    classes: tuple[str, ...] = ()  # none for labels 0 and 1; otherwise 3 to 20, and the models' scores are of them
    cross_groups: bool = False  # xAUC: Kallus and Zhou, NeurIPS 2019
    heterogeneity: bool = False  # whether sums over parties, each taken as a site, are released
    min_cell: int = DEFAULT_MIN_CELL
    cluster: str | msgspec.UnsetType = msgspec.UNSET  # the column that names each row's patient; unset does not travel
    each_pair: bool | msgspec.UnsetType = msgspec.UNSET  # whether all models are compared, not with the first one alone
    weights: Weights | msgspec.UnsetType = msgspec.UNSET
    follow_up: FollowUp | msgspec.UnsetType = msgspec.UNSET
    at: AtHorizon | msgspec.UnsetType = msgspec.UNSET  # of which horizon; unset in the session of the censoring curve

    def __post_init__(self) -> None:
        _check_names("model", self.models, 1, MOST_MODELS)
        _check_names("variable", [each.name for each in self.by], 0, MOST_GROUPS)
        for variable in self.by:
            what, one = f"level of {variable.name!r}", len(variable.levels) == 1
            _check_names(what, variable.levels, 2 - one, MOST_GROUPS)
            if one:
                whole = shlex.quote(quoted(f"{variable.name}={variable.levels[0]}"))
                told = f"{what}: 2 to {MOST_GROUPS} names are possible, got 1 (one column: --by {whole}, within quotes)"
                raise InputError(told, column=variable.name)
        if repeated := [name for name, times in Counter(each.name for each in self.groups).items() if times > 1]:
            raise InputError(f"two groups would be called {repeated[0]!r}")
        if len(self.groups) > MOST_GROUPS + 1:
            raise InputError(f"there are at most {MOST_GROUPS} groups, got {len(self.groups) - 1}")
        if self.classes:
            _check_names("class", self.classes, 3, MOST_CLASSES)
            if len(self.classes) != len(self.models):
                raise InputError(
                    f"each of the {len(self.classes)} classes needs a column of scores, got {len(self.models)} columns"
                )
            if self.cross_groups:
                raise InputError("AUCs across groups are for labels 0 and 1, not for several classes")
            if self.heterogeneity:
                raise InputError("sums over sites are for labels 0 and 1, not for several classes")
        if self.cluster:
            _check_names("column of patients", (self.cluster,), 1, 1)
            if self.classes or self.cross_groups or self.heterogeneity:
                raise InputError("intervals by patients are of labels 0 and 1, not across groups, and not of sites")
        if self.weights or self.follow_up:
            if self.weights and self.follow_up:
                raise InputError("weights and follow-up times do not go together: times bring weights of their own")
            if self.classes or self.cross_groups or self.heterogeneity:
                raise InputError(
                    "with weights or follow-up times, AUCs are of labels 0 and 1, not across groups, and not of sites"
                )
        if self.at and not (self.follow_up and self.follow_up.has(self.at)):
            raise InputError(
                "a horizon is one of those of follow-up times, with a weight for each cell of time up to it"
            )
        if self.cross_groups and not self.by:
            raise InputError("AUCs across groups need a variable that rows are grouped by")
        if (number := self._estimates) > MOST_ESTIMATES:
            raise InputError(
                f"these would be {number:,} AUCs, and at most {MOST_ESTIMATES:,} come out of one session: take fewer "
                "models, groups or classes" + (", or leave out those across groups" if self.cross_groups else "")
            )
        if not 1 <= self.min_cell <= MOST_MIN_CELL:
            raise InputError(f"min_cell must lie between 1 and {MOST_MIN_CELL}, got {self.min_cell}")

    @property
    def units(self) -> Units | None:
        """The fixed point of rows' weights; None where every row counts once."""
        if self.at:
            return self.at.units
        return Units(self.weights.most, self.weights.per) if self.weights else None

    @property
    def is_plain(self) -> bool:
        """Whether one AUC is all that is asked for: one model's, over all rows, of labels 0 and 1."""
        return len(self.models) == 1 and not self.by and not self.classes

    @property
    def coarse(self) -> bool:
        """Whether thresholds are fewer where none are given: with several models or classes, or many groups."""
        return len(self.models) > 1 or len(self.groups) > MOST_FINE_GROUPS

    @property
    def compared(self) -> bool:
        """Whether models are compared, and all rows are the only group."""
        return len(self.models) > 1 and not self.classes and not self.by

    @property
    def classes_of_rows(self) -> int:
        """How many labels rows can have."""
        return len(self.classes) or 2

    @property
    def _estimates(self) -> int:
        """How many there are, without making them: a manifest may ask for very many."""
        if self.classes:
            return len(self.groups) * len(self.classes) ** 2
        across = sum(len(each.levels) * (len(each.levels) - 1) for each in self.by) if self.cross_groups else 0
        return len(self.models) * (len(self.groups) + across)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All rows first, then each variable's levels."""
        return (
            Group(ALL),
            *(
                Group(f"{variable.name}: {level}", index, which)
                for index, variable in enumerate(self.by)
                for which, level in enumerate(variable.levels)
            ),
        )

    @cached_property
    def contrasts(self) -> tuple[Contrast, ...]:
        """All estimates, model by model; with several classes, each class from the others, then pair by pair."""
        groups = range(len(self.groups))
        if self.classes:
            return tuple(each for group in groups for each in self._of_classes(group))
        own = [Contrast(m, Cell(g, (1,)), Cell(g, (0,)), "") for m in range(len(self.models)) for g in groups]
        return (*own, *(self._across() if self.cross_groups else ()))

    @property
    def comparisons(self) -> tuple[tuple[int, int], ...]:
        """Pairs of models, by index, whose AUCs over all rows are compared: the first with each other one, or all."""
        pairs = itertools.combinations(range(len(self.models)), 2)
        return () if self.classes else tuple(pair for pair in pairs if self.each_pair or pair[0] == 0)

    def group_name(self, contrast: Contrast) -> str:
        """Return "sex: F", or "sex: F, M" for positives of the one and negatives of the other."""
        own, other = self.groups[contrast.positives.group], self.groups[contrast.negatives.group]
        if own == other or other.variable is None:
            return own.name
        return f"{own.name}, {self.by[other.variable].levels[other.level]}"

    def _of_classes(self, group: int) -> list[Contrast]:
        every = range(len(self.classes))
        others = {i: tuple(j for j in every if j != i) for i in every}
        return [
            *(Contrast(i, Cell(group, (i,)), Cell(group, others[i]), f"{self.classes[i]} from others") for i in every),
            *(
                Contrast(i, Cell(group, (i,)), Cell(group, (j,)), f"{self.classes[i]} from {self.classes[j]}", False)
                for i in every
                for j in others[i]
            ),
        ]

    def _across(self) -> list[Contrast]:
        pairs = [
            (a, b)
            for a, of_positives in enumerate(self.groups)
            for b, of_negatives in enumerate(self.groups)
            if a != b and of_positives.variable is not None and of_positives.variable == of_negatives.variable
        ]
        return [Contrast(m, Cell(a, (1,)), Cell(b, (0,)), ACROSS) for m in range(len(self.models)) for a, b in pairs]


def _check_names(what: str, names: tuple[str, ...] | list[str], least: int, most: int) -> None:
    if not least <= len(names) <= most:
        raise InputError(f"{what}: {least} to {most} names are possible, got {len(names)}")
    for name in names:
        if not 1 <= len(name) <= MOST_CHARACTERS or not name.isprintable() or name != name.strip():
            raise InputError(
                f"{what} {name[:MOST_CHARACTERS]!a}: a name has 1 to {MOST_CHARACTERS} printable characters, and no "
                "blanks at its ends"
            )
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise InputError(f"{what} {repeated[0]!r} is there twice")


_SHARED = ("classes", "cross_groups", "heterogeneity", "min_cell")  # fields of both analyses and questions

PLAIN = Analysis()  # one AUC, of one model over all rows


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What somebody asks of tables of rows, before it is known which levels these have; fields as of `Analysis`."""

    score_columns: tuple[str, ...]  # the names of the models, where there are several
    by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # columns with their levels; none: those there are
    classes: tuple[str, ...] = ()
    cross_groups: bool = False
    heterogeneity: bool = False
    min_cell: int = DEFAULT_MIN_CELL
    cluster: str = ""  # the column that names each row's patient, where rows of one are not independent
    each_pair: bool = False
    weights: Weights | None = None
    follow_up: FollowUp | None = None
    at: AtHorizon | None = None

    @classmethod
    def of(cls, analysis: Analysis, score_column: str) -> Questions:
        """Return the questions of an analysis; `score_column` is that of its only model, where that has no name."""
        return cls(
            score_columns=(score_column,) if analysis.models == PLAIN.models else analysis.models,
            by={variable.name: variable.levels for variable in analysis.by},
            cluster=analysis.cluster or "",
            each_pair=bool(analysis.each_pair),
            weights=analysis.weights or None,
            follow_up=analysis.follow_up or None,
            at=analysis.at or None,
            **{name: getattr(analysis, name) for name in _SHARED},
        )

    @classmethod
    def asked(cls, score: Any, by: Any = None, cluster: str | None = None, classes: Any = (), **more: Any) -> Questions:
        """Return what is asked by keywords as `fhe_auc.api.OPTIONS` makes them; `InputError`: there is no score."""
        if not score:
            raise InputError("there is no column of scores: name one at least, as score='risk'")
        return cls(score_columns=tuple(score), by=by or {}, classes=tuple(classes or ()), cluster=cluster or "", **more)

    @property
    def several(self) -> bool:
        """Whether there is more than one AUC."""
        return len(self.score_columns) > 1 or bool(self.by) or bool(self.classes)

    @property
    def coarse(self) -> bool:
        """As of `Analysis`, as far as levels are known."""
        groups = 1 + sum(len(levels) for levels in self.by.values())
        return len(self.score_columns) > 1 or bool(self.classes) or groups > MOST_FINE_GROUPS

    @property
    def compared(self) -> bool:
        """As of `Analysis`."""
        return len(self.score_columns) > 1 and not self.classes and not self.by

    def analysis(
        self, found: Mapping[str, Iterable[str | None]], orders: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> Analysis:
        """Return the analysis; `found` are the levels that rows have, for each column whose levels are not given.

        Levels come as `orders` has them, by column, where it has all of them; otherwise in a natural order: by number,
        "<1" before "1-4" before "12-17" before "18+".

        Raises `InputError`: there is no column of scores; a column has one level only, or so many that it must hold
        something else, or nobody has looked which; else as `Analysis`.
        """
        if not self.score_columns:
            raise InputError("there is no column of scores: name one at least")
        if unknown := [name for name, levels in self.by.items() if not levels and name not in found]:
            raise InputError(
                f"which levels does {unknown[0]!r} have? Nobody sees the rows of all sites, so all are named: "
                + with_levels(unknown[0])
            )
        return Analysis(
            models=self.score_columns if len(self.score_columns) > 1 else PLAIN.models,
            by=tuple(
                Variable(name, levels or _levels(name, found[name], orders.get(name, ())))
                for name, levels in self.by.items()
            ),
            cluster=self.cluster or msgspec.UNSET,
            each_pair=self.each_pair or msgspec.UNSET,
            weights=self.weights or msgspec.UNSET,
            follow_up=self.follow_up or msgspec.UNSET,
            at=self.at or msgspec.UNSET,
            **{name: getattr(self, name) for name in _SHARED},
        )


def levels_of(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the levels of each column of "NAME=LEVEL,LEVEL", none where they are to be found: "NAME,NAME" or "NAME".

    What has a comma or an equals sign of its own is within quotes, as of `names_in`.
    Raises `InputError` for a column that is there twice.
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        column, levels = named_values(text)
        named = {column: levels} if levels else dict.fromkeys(names_in(text), levels)
        if twice := sorted(found.keys() & named.keys()):
            raise InputError(f"{twice[0]!r} is given twice")
        found.update(named)
    return found


def with_levels(name: str) -> str:
    """Return what asks for some levels of a column on the command line."""
    return f"--by {shlex.quote(f'{quoted(name)}=LEVEL,LEVEL')}"


def _levels(name: str, found: Iterable[str | None], order: Sequence[str]) -> tuple[str, ...]:
    there = {level for level in found if level is not None}
    levels = sorted(there, key=order.index if there <= set(order) else _natural)
    if len(levels) == 1:
        raise InputError(f"column {name!r} has one level, {levels[0]!r}: there is nothing to group by", column=name)
    if (pair := first_alike(levels)) is not None:
        raise InputError(
            f"column {name!r} has levels that differ in capitals only, such as {pair[0]!r} and {pair[1]!r}: write them "
            f"alike, or name all levels ({with_levels(name)}, in Python by={{{name!r}: [LEVEL, LEVEL]}})"
        )
    if len(levels) > MOST_LEVELS_FOUND:
        raise InputError(
            f"column {name!r} has {len(levels)} different values: rows are grouped by categories; cut numbers into "
            "bands first, or name the levels"
        )
    return tuple(levels)


def _natural(level: str) -> tuple[float, int, list[tuple[float, str]]]:
    """Sort numbers, and bands such as <1, 5-9 and 18+, by their first number; texts with numbers by these, too."""
    first = re.match(r"\s*([<≤])?([>≥])?=?\s*(-?\d+(?:\.\d+)?)", level)
    parts = [(float(part), "") if part.isdecimal() else (math.inf, part) for part in re.split(r"(\d+)", level)]
    return (float(first[3]), bool(first[2]) - bool(first[1]), parts) if first else (math.inf, 0, parts)

"""A study: what is asked, of whom, how often; one file asks for anything that `evaluate`, `report`, `calibrate` give.

A pooled AUC of different things is worth nothing: of two versions of a model, two outcomes, cohorts or periods. So
every session between machines carries its study, signed, and a site answers unasked what a study that it has agreed to
makes (`fhe_auc.report.studies`), and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_toml
from fhe_auc.base.names import all_printable, first_alike, known_names, problem_with, quoted
from fhe_auc.base.serialise import encode
from fhe_auc.question import score_bins
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import DEFAULT_MIN_CELL, PLAIN, Analysis, Variable, levels_of
from fhe_auc.question.follow_up import FollowUp, events_of, follow_up_of
from fhe_auc.question.weights import named_values, weights_of

MAX_CHARACTERS = 300
MOST_AWAY = 2**20
MOST_ROWS = 2**40  # more than any session has; msgpack and JSON hold it
MOST_DAYS = 31  # for which a session can be answered

_HOURS = {"hour": 1, "day": 24, "week": 168}
_MONDAY = 3  # days from one to the Thursday that 1970 began with


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, rename="kebab"):
    """What is evaluated; in files with hyphens (``row-caps``). What is not there is as the commands have it.

    Each party checks its own cap, which stops honest mistakes, such as a wrong file. A party that lies goes past its
    cap, unless parties prove theirs (`fhe_auc.input_proofs`).

    Attributes
    ----------
    model : str
        Name, and digest or version.
    outcome, cohort, period : str
        What is predicted, about whom, and when; like `model` 1 to 300 printable characters, without blanks at the ends.
    sites, maker, aggregator, helper : names of members
        Who takes part, two sites at least; the site that makes the sessions; who adds up; who has the key, if anybody.
    every : "hour", "day", "week", "month" or ""
        How often it is asked, at most once in each of these, by UTC; "" for once.
    until : date or None
        The last day (UTC) on which a session begins.
    days : int
        How long a session can be answered, 1 to 31.
    min_parties : int
        So many sites are enough for a result; 0 for all.
    most_away : int
        Sites that may count in one result and not in another one: the counts of so many, in sum, may be told, also of
        one alone. 0 for none; five or more may be away anyhow.
    protocol, options, epsilon
        As ``--protocol``, ``-o``, ``--epsilon``; epsilon 0 for none. With one a report's counts have noise.
    thresholds : str or numbers
        As ``--thresholds``; a file's name is replaced by its numbers when the study is read. "" for the protocol's own.
    score_values : str
        All scores that there are, where these are few: "0:9", "0:1:0.05" or "0,1.5,3". Thresholds are these values'
        own, and a party with another score is refused. Empty: any scores.
    interval : float
        Level of confidence intervals; 0 for none.
    label_column, score_columns, by, classes, cross_groups, heterogeneity, min_cell, cluster, each_pair, weight_column,
    time_column, event_column, horizon, time_grid
        As the options of these names; each of ``by`` is a column with all its levels, "sex=F,M"; what has a comma or an
        equals sign of its own stands within double quotes there, and in columns of weights and events.
    report : bool
        Whether the sessions of a report are asked for: its pooled score histogram is what a calibration map is made of.
    decisions, cost_ratio, alert_rate, title, bootstrap
        As ``report --threshold``, ``--cost-ratio``, ``--alert-rate``, ``--title``, ``--bootstrap``; 0 or "" for none.
    row_caps : dict of str to int
        Party to the most rows that it may put in, 1 to 2^40; who is not named has no cap.
    rows : dict of str to int
        Party to the rows that it has, exactly and in public, which epsilon takes. They are its caps too.
    proofs : bool
        Whether parties prove their caps, where they can.
    max_rows, min_rows : int
        As ``--max-rows``, ``--min-rows``; 0 for what the caps say, or the default.

    Raises `InputError` that names the field if one cannot be that.
    """

    model: str
    outcome: str
    cohort: str
    period: str
    sites: tuple[str, ...] = ()
    maker: str = ""
    aggregator: str = ""
    helper: str = ""
    every: str = ""
    until: date | None = None
    days: int = 7
    min_parties: int = 0
    most_away: int = 0
    protocol: str = "verified"
    options: dict[str, bool | int | float | str] = {}
    epsilon: float = 0.0
    thresholds: str | tuple[float, ...] = ""
    score_values: str = ""
    interval: float = 0.95
    label_column: str = ""
    score_columns: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    cross_groups: bool = False
    heterogeneity: bool = False
    min_cell: int = DEFAULT_MIN_CELL
    cluster: str = ""
    each_pair: bool = False
    weight_column: str = ""
    time_column: str = ""
    event_column: str = ""
    horizon: tuple[float, ...] = ()
    time_grid: str | float = ""
    report: bool = False
    decisions: tuple[float, ...] = ()
    cost_ratio: float = 0.0
    alert_rate: float = 0.0
    title: str = ""
    bootstrap: int = 0
    row_caps: dict[str, int] = {}
    rows: dict[str, int] = {}
    proofs: bool = True
    max_rows: int = 0
    min_rows: int = 0

    def __post_init__(self) -> None:
        for name in ("model", "outcome", "cohort", "period"):
            text = getattr(self, name)
            if not 1 <= len(text) <= MAX_CHARACTERS or text != text.strip() or not text.isprintable():
                raise InputError(
                    f"{name} must be 1 to {MAX_CHARACTERS} printable characters on one line, without blanks at its ends"
                )
        for name in self.__struct_fields__:
            if not all_printable(value := getattr(self, name)):
                raise InputError(f"{_kebab(name)} must be printable text on one line, got {value!a}")
        for name, least, most in (
            ("most_away", 0, MOST_AWAY),
            ("min_parties", 0, 2**20),
            ("days", 1, MOST_DAYS),
            ("max_rows", 0, MOST_ROWS),
            ("min_rows", 0, MOST_ROWS),
        ):
            if not least <= (value := getattr(self, name)) <= most:
                raise InputError(f"{_kebab(name)} must lie between {least} and {most:,}, got {value:,}")
        if self.every not in ("", "month", *_HOURS):
            raise InputError(
                f"every is {', '.join(_HOURS)} or month, not {self.every!r}{known_names(self.every, _HOURS)}"
            )
        if self.score_values and self.thresholds:
            raise InputError("score-values are the thresholds: leave thresholds out")
        _ = self.listed, weights_of(self.weight_column), self.follow_up
        for name in ("row_caps", "rows"):
            for party, number in getattr(self, name).items():
                if not 1 <= number <= MOST_ROWS:
                    what = "the cap" if name == "row_caps" else "the number"
                    raise InputError(
                        f"{_kebab(name)}: {what} of {party!a} must lie between 1 and {MOST_ROWS}, got {number}"
                    )
        if self.row_caps and self.rows:
            raise InputError("rows are row caps too: give one of row-caps and rows")
        self._check_names()

    def _check_names(self) -> None:
        """Check who takes part, as far as they are named; a fleet's study names nobody."""
        roles = {"maker": self.maker, "aggregator": self.aggregator, "helper": self.helper}
        named = [(f"site {name!a}", name) for name in self.sites]
        named += [(role, name) for role, name in roles.items() if name]
        for what, name in named:
            if problem := problem_with(name):
                raise InputError(f"{what}: the name of a member {problem}")
        own = (*self.sites, *filter(None, (self.aggregator, self.helper)))
        if (pair := first_alike(own)) is not None:
            raise InputError(f"{pair[0]!r} and {pair[1]!r} are one member, or names that people take for the same")
        if not self.sites:
            return
        if self.maker not in self.sites:
            raise InputError(f"maker is one of the sites ({', '.join(self.sites)}), not {self.maker!r}")
        if not self.aggregator:
            raise InputError("aggregator is not named")
        for name in ("row_caps", "rows"):
            caps = getattr(self, name)
            if caps and set(caps) != set(self.sites):
                odd = min(set(caps) ^ set(self.sites))
                wrong = "has none: give all sites one, or none" if odd in self.sites else "is no site of the study"
                raise InputError(f"{_kebab(name)}: {odd!r} {wrong}")

    @classmethod
    def read(cls, path: Path) -> Study:
        """Read a TOML file with the fields as keys; `InputError` names file and key, also a key that is no field.

        A file of thresholds that it names lies beside it.
        """
        found = read_toml(path, cls, "study")
        try:
            if isinstance(found.thresholds, str) and (beside := path.parent / found.thresholds).is_file():
                numbers = tuple(grids.parse(str(beside)).tolist())
                return msgspec.structs.replace(found, thresholds=numbers)
        except InputError as error:
            raise error.within(f"study file {str(path)!r}", file=str(path)) from None
        return found

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Study:
        """Return what `as_dict` has told."""
        return msgspec.convert({_kebab(name): value for name, value in told.items()}, cls)

    def differing(self, other: Study) -> list[str]:
        """Return the fields in which two differ."""
        return [
            said
            for name, said in zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
            if getattr(self, name) != getattr(other, name)
        ]

    @property
    def digest(self) -> bytes:
        """SHA-256 of the study, 32 bytes: what names it, word for word."""
        return hashlib.sha256(b"fhe-auc study\0" + encode(self)).digest()

    @property
    def question(self) -> tuple[str, str]:
        """What tells which results are compared: model and outcome, whatever cohort and period are called."""
        return self.model, self.outcome

    @property
    def series(self) -> tuple[str, ...]:
        """What a study and those that take its place have in common, however else they ask."""
        return self.maker, *self.question, self.cohort, self.period

    @property
    def listed(self) -> NDArray[np.float64] | None:
        """Thresholds of the listed score values, shape (m,); None where any scores may be."""
        return score_bins.thresholds_of(score_bins.parse_listed(self.score_values)) if self.score_values else None

    @property
    def caps(self) -> dict[str, int]:
        """The most rows of each party that has a cap."""
        return self.rows or self.row_caps

    def analysis(self) -> Analysis:
        """Return what is asked of rows; raise `InputError` for what cannot be, and where levels are not named."""
        by = levels_of(self.by)
        if unknown := next((name for name, levels in by.items() if not levels), ""):
            raise InputError(
                f"by: which levels does {unknown!r} have? Nobody sees the rows of all sites, so all are named: "
                f"{quoted(unknown) + '=LEVEL,LEVEL'!r}"
            )
        return Analysis(
            models=self.score_columns or PLAIN.models,
            by=tuple(Variable(name, levels) for name, levels in by.items()),
            classes=self.classes,
            cross_groups=self.cross_groups,
            heterogeneity=self.heterogeneity,
            min_cell=self.min_cell,
            cluster=self.cluster or msgspec.UNSET,
            each_pair=self.each_pair or msgspec.UNSET,
            weights=weights_of(self.weight_column) or msgspec.UNSET,
            follow_up=self.follow_up or msgspec.UNSET,
        )

    @property
    def follow_up(self) -> FollowUp | None:
        """What is asked of follow-up times."""
        event, codes = events_of(self.event_column)
        beside = "label-column" if self.label_column else ""
        return follow_up_of(self.time_column, event, self.horizon, self.time_grid, codes=codes, beside=beside)

    @property
    def number_columns(self) -> list[str]:
        """Columns of scores, weights and times that the study names."""
        weight, _ = named_values(self.weight_column)
        return [*self.score_columns, *filter(None, [weight, self.time_column])]

    @property
    def other_columns(self) -> list[str]:
        """Columns of groups, patients and events that the study names, besides that of labels."""
        event, _ = events_of(self.event_column)
        return [*levels_of(self.by), *filter(None, [self.cluster, event])]

    def turn(self, at: datetime) -> int:
        """Return the number of the hour, day, week or month of a time, which rises by one; 0 for what is asked once."""
        if not self.every:
            return 0
        at = at.astimezone(timezone.utc)
        if self.every == "month":
            return 12 * at.year + at.month
        hours = int(at.timestamp()) // 3600 + (24 * _MONDAY if self.every == "week" else 0)
        return hours // _HOURS[self.every]

    @property
    def pause(self) -> timedelta:
        """Half of the shortest turn: so much lies between two sessions of a step by anybody's clock."""
        return timedelta(hours=_HOURS.get(self.every, 28 * 24 if self.every else 0)) / 2

    def require_rows(self, party: str, rows: int, *, weighed: bool = False) -> None:
        """Raise `InputError` where a party has more rows than its cap, or counts as so many, if they are `weighed`."""
        cap = self.caps.get(party, rows)
        if rows > cap:
            has = "counts as" if weighed else "has"
            raise InputError(
                f"party {party!r} {has} {rows:,} rows, more than its cap in the session's study, {cap:,}", party=party
            )

    def lines(self) -> list[tuple[str, str, str]]:
        """Say for a table what is evaluated: label, nothing, text on one line; of what is as ever, nothing."""
        said = {name: value for name, value in msgspec.to_builtins(self).items() if value is not None}
        said |= {"row-caps": "none"} if not self.caps else {}
        return [(name.replace("-", " "), "", _said(name, value)) for name, value in said.items()]

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON; what is as ever is left out."""
        return {name.replace("-", "_"): value for name, value in msgspec.to_builtins(self).items()}


def _kebab(name: str) -> str:
    return name.replace("_", "-")


def _said(name: str, value: Any) -> str:
    if isinstance(value, dict):
        value = [f"{key} {each:,}" if isinstance(each, int) else f"{key} = {each}" for key, each in value.items()]
    text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    about = {
        "row-caps": "each party checks its own" if text != "none" else "",
        "most-away": "their counts may be told",
        "score-values": "others are refused",
    }.get(name, "")
    return f"{text}; {about}" if about else text

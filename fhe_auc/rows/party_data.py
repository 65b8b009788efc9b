"""One party's rows: `PartyData`; and the scales on which classifiers give scores.

An AUC needs no scale: scores may be any numbers. Calibration is about probabilities. The way to them is a rising
function, which changes no order: the AUC of the rows stays, but for scores that rounding makes equal. The logistic
function makes all logits beyond some 36 equal to 1 (and below -709 to 0), and close ones before; a division by 100 at
most makes numbers equal that differ in the last bit. All else that is said of a result, its binning error too, is about
the scores so converted.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.base.names import MAX_CHARACTERS, problem_with
from fhe_auc.base.special_functions import expit
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.weights import Units, Weights
from fhe_auc.rows.entries import Coded, canonical, coded_entries, finite_numbers, frozen, known_codes, one_dimensional
from fhe_auc.rows.row_store import BATCH, Column, release

DEFAULT_SCALE = "probability"
_LOGIT, _PERCENT = "logit", "percent"

SCALES = (DEFAULT_SCALE, _LOGIT, _PERCENT)  # names of the scales; scores on the first one stay as they are

Label: TypeAlias = str | int | float | bool  # one label of a row


@dataclass(frozen=True, kw_only=True)
class Entries:
    """What entries of columns mean.

    `positive_label` counts as 1; all other rows have one other label, which counts as 0. None: labels are 0 and 1. With
    `drop_missing`, rows in which an entry is missing are left out, and counted; otherwise they are refused. Scores are
    on `score_scale`, one of `SCALES`, and turned into probabilities. Raises `InputError` where the positive label
    stands for a missing entry.
    """

    positive_label: Label | None = None
    drop_missing: bool = False
    score_scale: str = DEFAULT_SCALE

    @property
    def decimal(self) -> str:
        """The decimal mark of numbers in text."""
        return "."

    @property
    def positive(self) -> str | None:
        """The positive label as rows have it, whichever decimal mark it is given with."""
        return None if self.positive_label is None else canonical(canonical(self.positive_label, decimal=self.decimal))

    def __post_init__(self) -> None:
        if self.positive_label is not None and self.positive is None:
            raise InputError(f"the positive label cannot be {self.positive_label!r}, which stands for a missing entry")


AS_THEY_ARE = Entries()
_TINY, COARSE = (
    1e-9,
    0.05,
)  # parts of a weight: by which float64 may be off; by which rounding is told, or of all refused
OPTIONAL = ("clusters", "weights", "times")  # fields of `PartyData`


def _numbered(row: int) -> Place:
    return Place(f"row {row}")


@dataclass(frozen=True, slots=True, eq=False)
class PartyData:
    """One party's test rows. Make it with `PartyData.from_arrays` or `from_columns`, which check them.

    >>> party = PartyData.from_arrays("north", [0, 1, 1], [0.2, 0.7, 0.4])
    >>> party, party.rows
    (PartyData(name='north'), 3)

    Attributes
    ----------
    name : str
        Name of the party; `fhe_auc.base.names` says what it may be.
    labels : ndarray of uint8, shape (n,)
        Labels, n >= 1: 0 and 1, or indices into an analysis's classes.
    scores : tuple of ndarray of float64, shape (n,) each
        Finite scores of each model, at least one; a higher score means label 1 (of several classes: the model's own) is
        likelier.
    groups : tuple of ndarray of uint8, shape (n,) each
        For each variable of an analysis, indices into its levels.
    clusters : ndarray of int32, shape (n,), or None
        For each row the index of its patient, where rows of one are not independent.
    weights : ndarray of int64, shape (n,), or None
        How much each row counts, in units of the analysis's `units`; None: each once. Rows of weight 0 do not count.
    times : ndarray of float64, shape (n,), or None
        How long each row was followed up; labels are then indices into the codes of events, until a session at a
        horizon makes 0, 1 and weights of both (`fhe_auc.rows.at_horizon`).
    score_columns : tuple of str
        Names of the columns of the scores, for messages; empty where there are no columns.
    dropped : int
        Rows that were left out, since an entry was missing.
    notes : tuple of str
        What is to be known of the rows, in words, as sites without a complete row, and which label counts as 0; the
        first of the parties that are read together has what is of them all.
    place : callable
        Returns the place of the row with a given index (from 0); by default "row 12".

    All arrays are read-only; those of many rows are in a file, and `batches` goes through them. Raises `InputError` for
    arrays that are not prepared so.
    """

    name: str
    # Kept out of the repr, and so out of logs: even the number of rows is the party's secret.
    labels: NDArray[np.uint8] = field(repr=False)
    scores: tuple[NDArray[np.float64], ...] = field(repr=False)
    groups: tuple[NDArray[np.uint8], ...] = field(repr=False, default=())
    clusters: NDArray[np.int32] | None = field(repr=False, default=None)
    weights: NDArray[np.int64] | None = field(repr=False, default=None)
    times: NDArray[np.float64] | None = field(repr=False, default=None)
    score_columns: tuple[str, ...] = field(repr=False, default=())
    dropped: int = field(repr=False, default=0)
    notes: tuple[str, ...] = field(repr=False, default=())
    place: Callable[[int], Place] = field(repr=False, default=_numbered)
    _spans: dict[int, tuple[float, float]] = field(repr=False, init=False, default_factory=dict)

    def __post_init__(self) -> None:
        kinds = (((self.labels,), np.uint8), (self.scores, np.float64), (self.groups, np.uint8))
        for array, dtype in ((array, dtype) for arrays, dtype in kinds for array in arrays):
            if np.asarray(array).dtype != dtype or np.asarray(array).flags.writeable:
                raise InputError(f"party {self.name!r}: make it with PartyData.from_arrays, which checks the rows")

    @classmethod
    def without_rows(cls, name: str, analysis: Analysis) -> PartyData:
        """Return a party whose rows are no longer there: it can read a result, and submit nothing."""
        none, numbers = frozen(np.empty(0, np.uint8)), frozen(np.empty(0, np.float64))
        weights = frozen(np.empty(0, np.int64)) if analysis.weights else None
        scores, groups = (numbers,) * len(analysis.models), (none,) * len(analysis.by)
        return cls(name, none, scores, groups, weights=weights, times=numbers if analysis.follow_up else None)

    @property
    def rows(self) -> int:
        """Number of rows n."""
        return len(self.labels)

    def weighing(self, units: Units | None) -> int:
        """Return how much the rows count: their number or, where that is more, the sum of their weights, rounded up."""
        total = 0 if self.weights is None or units is None else -(-int(self.weights.sum()) // units.per)
        return max(self.rows, total)

    @property
    def y_true(self) -> NDArray[np.bool_]:
        """Labels as Booleans, shape (n,); raise `InputError` where there are others than 0 and 1."""
        if int(self.labels.max(initial=0)) > 1:
            raise InputError(f"party {self.name!r}: the rows have several classes, not labels 0 and 1")
        return self.labels.view(np.bool_)

    @property
    def y_score(self) -> NDArray[np.float64]:
        """Scores of the first model, shape (n,)."""
        return self.scores[0]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All columns: labels, each model's scores, each variable's levels, and of `OPTIONAL` those that there are."""
        return self.labels, *self.scores, *self.groups, *self.optional.values()

    @property
    def optional(self) -> dict[str, NDArray[Any]]:
        """Columns that only some analyses have, by name, in the order of `OPTIONAL`."""
        return {name: array for name in OPTIONAL if (array := getattr(self, name)) is not None}

    def span(self, model: int) -> tuple[float, float]:
        """Return the least and the greatest of a model's scores, for which all are looked at once."""
        if model not in self._spans:
            scores = (batch.scores[model] for batch in self.batches())
            ends = [(own.min(initial=np.inf), own.max(initial=-np.inf)) for own in scores]
            self._spans[model] = float(min(low for low, _ in ends)), float(max(high for _, high in ends))
        return self._spans[model]

    def batches(self) -> Iterator[PartyData]:
        """Yield the rows in order, `BATCH` at a time; what has been read of a file is let go of."""
        if self.rows <= BATCH:
            yield self
            return
        for start in range(0, self.rows, BATCH):
            rows = slice(start, start + BATCH)
            optional: dict[str, Any] = {name: np.asarray(array)[rows] for name, array in self.optional.items()}
            yield replace(
                self,
                labels=np.asarray(self.labels)[rows],
                scores=tuple(np.asarray(each)[rows] for each in self.scores),
                groups=tuple(np.asarray(each)[rows] for each in self.groups),
                **optional,
            )
            for array in self.arrays:
                release(array)

    def with_scores(self, convert: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> PartyData:
        """Return the same rows with each model's scores converted; `convert` is given some rows at a time."""
        converted = [Column(np.float64) for _ in self.scores]
        for batch in self.batches():
            for column, scores in zip(converted, batch.scores, strict=True):
                column.append(convert(scores))
        return replace(self, scores=tuple(column.finished() for column in converted))

    def described(self, model: int, row: int | None = None) -> str:
        """Return the party, the place of a row, and the name of the column of this model's scores, for messages."""
        found = [f"party {self.name!r}"]
        if row is not None:
            found.append(self.place(row).text)
        if self.score_columns:
            found.append(f"column {self.score_columns[model]!r}")
        return ", ".join(found)

    @classmethod
    def from_arrays(cls, name: str, y_true: ArrayLike, y_score: ArrayLike, *, score_column: str = "") -> PartyData:
        """Check a party's rows of one model and take a read-only copy of them.

        Parameters
        ----------
        name : str
            Name of the party, as of `fhe_auc.base.names`.
        y_true : array-like, shape (n,)
            Labels: booleans, or numbers equal to 0 or 1.
        y_score : array-like, shape (n,)
            Finite numbers that float64 holds exactly (float32 and float16 always are). A session's thresholds limit
            their range (`fhe_auc.rows.own_checks.check_scores`).
        score_column : str, optional
            Name of the scores' column, for messages.

        Raises `InputError`, which names party, row and value: the name is blank, the arrays are empty, not
        one-dimensional or of different lengths, or an entry is missing, masked, no number, no label or not finite.
        """
        return cls.from_columns(name, y_true, {score_column: y_score}, {}, PLAIN)

    @classmethod
    def from_columns(
        cls,
        name: str,
        labels: ArrayLike | Coded,
        scores: Mapping[str, ArrayLike],
        groups: Mapping[str, ArrayLike] | Mapping[str, Coded],
        analysis: Analysis,
        *,
        clusters: ArrayLike | Coded | None = None,
        known_clusters: dict[str, int] | None = None,
        weights: ArrayLike | None = None,
        times: ArrayLike | None = None,
        label_column: str = "",
        refuse: Callable[[int, str, str], InputError] | None = None,
    ) -> PartyData:
        """Check a party's rows for an analysis and take a read-only copy of them.

        Labels, shape (n,), are as `y_true` of `from_arrays`; where the analysis has classes, these, as text or whole
        numbers. `scores` and `groups` hold, in the analysis's order, each model's scores, as `y_score` of
        `from_arrays`, and each variable's levels, as text or whole numbers; errors name them by their keys, and the
        labels by `label_column`. `clusters` are the rows' patients, in the analysis's column, and `known_clusters` the
        indices of those of other rows, which new ones are added to. `weights` are rounded, which a note says; with
        follow-up `times`, labels are codes of events. `refuse` makes the error from a row (from 0), what
        is wrong with it, and the column; by default it names party and row.

        Errors are those of `from_arrays`, and of levels that the analysis does not have.
        """
        name = checked_name(name)
        known = {} if known_clusters is None else known_clusters

        def column(what: str, column: str, values: Any) -> tuple[Any, str, Callable[[int, str], InputError]]:
            def refused(row: int, wrong: str) -> InputError:
                if refuse is not None:
                    return refuse(row, wrong, column)
                wrong += "; drop the row, as drop_missing=True does" * wrong.endswith(" missing")
                return InputError(f"party {name!r}, row {row}: {wrong}", party=name, column=column or None)

            coded = isinstance(values, Coded)
            return values if coded else one_dimensional(values, f"party {name!r}", f"{what}s"), what, refused

        follow_up, weighed = analysis.follow_up or None, analysis.weights or None
        rows = column("event" if follow_up else "label", label_column, labels)
        of_score = "score" if len(scores) == 1 else "{!r} score"
        of_models = [column(of_score.format(model), model, values) for model, values in scores.items()]
        of_groups = [column(f"{variable!r} level", variable, values) for variable, values in groups.items()]
        of_patients = [] if clusters is None else [column("the patient", analysis.cluster or "", clusters)]
        of_weights = [column("weight", weighed.column, weights)] if weighed else []
        of_times = [column("follow-up time", follow_up.time, times)] if follow_up else []
        for values, what, _ in (*of_models, *of_groups, *of_patients, *of_weights, *of_times):
            if (n := len(values)) != len(rows[0]):
                raise InputError(
                    f"party {name!r}: {len(rows[0])} {rows[1]}s but {n} {what.removeprefix('the ')}s; each row needs "
                    "both"
                )
        if not len(rows[0]):
            raise InputError(f"party {name!r}: there are no rows")
        units, notes = _units(weighed, *of_weights[0]) if weighed else (None, ())
        times = finite_numbers(*of_times[0], least=0) if of_times else None
        if follow_up and times is not None and follow_up.step == 1 and (times % 1).any():  # years, perhaps
            notes = (f"column {follow_up.time!r}: each time counts as the next whole one, unless a time grid is finer",)
        return cls(
            name,
            coded_entries(*rows, follow_up.codes) if follow_up else coded_entries(*rows, analysis.classes),
            tuple(finite_numbers(*each) for each in of_models),
            tuple(
                coded_entries(values, variable.name, refused, variable.levels)
                for variable, (values, _, refused) in zip(analysis.by, of_groups, strict=True)
            ),
            score_columns=tuple(each for each in scores if each),
            clusters=next((known_codes(*each, known) for each in of_patients), None),
            weights=units,
            times=times,
            notes=notes,
        )


def _units(
    weights: Weights, values: NDArray[Any], what: str, refuse: Callable[[int, str], InputError]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return weights in units, shape (n,), and what people are told where some were rounded; errors as they are read.

    One that is not 0 has a unit at least. The message on one above the public bound names its row, nothing else of it.
    """
    numbers, most = finite_numbers(values, what, refuse, least=0), weights.most / weights.per
    if (above := numbers > most).any():
        told = (
            f"{what} is above {most:.10g}, the most that one may be, which is public: all sites agree on a higher one"
        )
        raise refuse(int(above.argmax()), told)
    units = np.maximum(np.rint(exact := numbers * weights.per), numbers > 0)
    off = np.abs(exact - units)
    told = f"column {weights.column!r}: weights were rounded to multiples of {1 / weights.per:g}"
    if (off > COARSE * exact).any():
        told += f", some by more than {COARSE:.0%}: take a finer step, or multiply all by one number"
    return frozen(units.astype(np.int64)), (told,) if (off > _TINY * np.maximum(1, units)).any() else ()


def checked_name(name: object) -> str:
    """Return the name of a party as it is used; raise `InputError` where it is none."""
    if not isinstance(name, str):
        raise InputError(f"party {name!r}: the name of a party must be text")
    name = unicodedata.normalize("NFC", name)  # some systems keep file names in another form
    if problem := problem_with(name):
        raise InputError(f"party {name[:MAX_CHARACTERS]!a}: the name of a party {problem}")
    return name


def to_probabilities(scores: NDArray[np.float64], scale: str) -> NDArray[np.float64]:
    """Return scores, shape (n,), on one of `SCALES` as probabilities; raise `InputError` for an unknown scale."""
    if scale not in SCALES:
        raise InputError(f"score scale {scale!r} is unknown; known are {', '.join(SCALES)}")
    if scale == _LOGIT:
        return expit(scores)
    return scores / 100 if scale == _PERCENT else scores


def rescaled(data: PartyData, scale: str, *, refuse: Callable[[int, str, str], InputError] | None = None) -> PartyData:
    """Return a party's rows with `to_probabilities` of their scores; errors as there, and for no percentage.

    The message names party, column, row and value of one beyond 0 to 100; `refuse` is as of `PartyData.from_columns`.
    """
    if scale == DEFAULT_SCALE:
        return data
    for model, scores in enumerate(data.scores):
        outside = (scores < 0) | (scores > 100)
        if scale == _PERCENT and outside.any():
            row = int(outside.argmax())
            what = f"score is {float(scores[row])!r}, and percentages lie between 0 and 100"
            column = data.score_columns[model] if data.score_columns else ""
            if refuse is not None:
                raise refuse(row, what, column)
            raise InputError(f"{data.described(model, row)}: {what}", party=data.name, column=column or None)
    return data.with_scores(partial(to_probabilities, scale=scale))


def noted(data: PartyData, scale: str) -> PartyData:
    """Return a party's rows, whose scores were on this scale, with what its people are told where that seems wrong."""
    told = ""
    for model in range(len(data.scores)):
        if scale == _PERCENT and data.span(model)[1] <= 0.01:
            told = f"{data.described(model)}: read as percentages, no score is above 1: they may be fractions"
        if scale == _LOGIT and {0, 1} & {*data.span(model)}:
            told = f"{data.described(model)}: logits beyond 36 tie, as probabilities: an AUC of logits as they are "
            told += "needs no score scale"
    return replace(data, notes=(*data.notes, told)) if told else data

"""One party's rows, and their exact counts at each threshold, which add up to those of all parties.

    TP_k = #{label 1, score >= theta_k}      FP_k = #{label 0, score >= theta_k}      TP_{m+1} = FP_{m+1} = 0
    T_k = TP_k + TP_{k+1}      p_k = TP_k - TP_{k+1}      F_k = FP_k - FP_{k+1}       k = 1 ... m

What pooled counts make of it, the AUC: `fhe_auc.metrics.trapezoid`.
"""

from __future__ import annotations

import re
import reprlib
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError, Place
from fhe_auc.base.party_names import MAX_CHARACTERS, alike, problem_with
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.binning import bins_of
from fhe_auc.rows.row_store import BATCH, Column, release

_OTHER_LABELS = (
    ". Survival times, censored or not, are not supported: choose a horizon, label 1 who had the event by then and 0 "
    "who had not, and leave out who was censored before it. For several classes, name them (--classes)"
)


def _numbered(row: int) -> Place:
    return Place(f"row {row}")


# T_k = TP_k + TP_{k+1}, and the sum of two parties' counts, then stay below 2^63.
_MAX_ROWS = 2**62 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of text: the names that are there (None: missing), and for each row the index of its own."""

    codes: NDArray[np.int32]
    names: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.codes)

    def with_gaps(self) -> Coded:
        """Return the column with None for every name that stands for a missing entry (`level_text`)."""
        return Coded(self.codes, [level_text(name) for name in self.names])

    def chosen(self, rows: NDArray[Any] | slice) -> Coded:
        """Return the column at some rows."""
        return Coded(self.codes[rows], self.names)

    def present(self) -> NDArray[np.intp]:
        """Return the codes that occur, ascending."""
        return np.flatnonzero(np.bincount(self.codes, minlength=1))

    def values(self, value_of: Callable[[str | None], Any]) -> NDArray[Any]:
        """Return each row's value, as numbers where all that occur are numbers, else as objects."""
        present = self.present()
        values = [value_of(self.names[code]) for code in present]
        numeric = all(isinstance(value, (bool, int, float)) for value in values)
        kind = np.bool_ if numeric and set(values) <= {0, 1} else np.float64 if numeric else object
        table = np.empty(max(len(self.names), 1), kind)
        for code, value in zip(present, values, strict=True):
            table[code] = value
        return table[self.codes]


@dataclass(frozen=True, slots=True, eq=False)
class PartyData:
    """One party's test rows. Make it with `PartyData.from_arrays` or `from_columns`, which check them.

    Attributes
    ----------
    name : str
        Name of the party; `fhe_auc.base.party_names` says what it may be.
    labels : ndarray of uint8, shape (n,)
        Labels, n >= 1: 0 and 1, or indices into an analysis's classes.
    scores : tuple of ndarray of float64, shape (n,) each
        Finite scores of each model, at least one; a higher score means label 1 (of several classes: the model's own) is
        likelier.
    groups : tuple of ndarray of uint8, shape (n,) each
        For each variable of an analysis, indices into its levels.
    score_columns : tuple of str
        Names of the columns that the scores come from, for messages; none where they come from none.
    rows_above : tuple of int
        How many rows of all parties lie at or above each threshold, where a session before has told this party.
    dropped : int
        Rows that were left out, since an entry was missing.
    lost : tuple of str
        What was left out beside this party's rows, in words: sites without a complete row, rows without a site. The
        first of the parties that are read together has it.
    place : callable
        Where the row with a given index (from 0) comes from; by default "row 12".

    All arrays are read-only; those of many rows are in a file, and `batches` goes through them. Raises `InputError` if
    constructed with arrays that have not been prepared so.
    """

    name: str
    # Kept out of the repr, and so out of logs: even the number of rows is the party's secret.
    labels: NDArray[np.uint8] = field(repr=False)
    scores: tuple[NDArray[np.float64], ...] = field(repr=False)
    groups: tuple[NDArray[np.uint8], ...] = field(repr=False, default=())
    score_columns: tuple[str, ...] = field(repr=False, default=())
    rows_above: tuple[int, ...] = field(repr=False, default=())
    dropped: int = field(repr=False, default=0)
    lost: tuple[str, ...] = field(repr=False, default=())
    place: Callable[[int], Place] = field(repr=False, default=_numbered)

    def __post_init__(self) -> None:
        kinds = (((self.labels,), np.uint8), (self.scores, np.float64), (self.groups, np.uint8))
        for array, dtype in ((array, dtype) for arrays, dtype in kinds for array in arrays):
            if np.asarray(array).dtype != dtype or np.asarray(array).flags.writeable:
                raise InputError(f"party {self.name!r}: make it with PartyData.from_arrays, which checks the rows")

    @classmethod
    def without_rows(cls, name: str, analysis: Analysis, *, rows_above: tuple[int, ...] = ()) -> PartyData:
        """Return a party whose rows are no longer there: it can read a result, and submit nothing."""
        none = np.empty(0, np.uint8)
        none.flags.writeable = False
        scores = none.astype(np.float64)
        scores.flags.writeable = False
        return cls(name, none, (scores,) * len(analysis.models), (none,) * len(analysis.by), rows_above=rows_above)

    @property
    def rows(self) -> int:
        """Number of rows n."""
        return len(self.labels)

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

    def batches(self) -> Iterator[PartyData]:
        """Yield the rows in order, about a million at a time; what has been read of a file is let go of."""
        if self.rows <= BATCH:
            yield self
            return
        arrays: tuple[NDArray[Any], ...] = (self.labels, *self.scores, *self.groups)
        for start in range(0, self.rows, BATCH):
            rows = slice(start, start + BATCH)
            yield replace(
                self,
                labels=self.labels[rows],
                scores=tuple(each[rows] for each in self.scores),
                groups=tuple(each[rows] for each in self.groups),
            )
            for array in arrays:
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
    def from_arrays(
        cls,
        name: str,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        score_column: str = "",
    ) -> PartyData:
        """Check a party's rows of one model and take a read-only copy of them.

        Parameters
        ----------
        name : str
            Name of the party; `fhe_auc.base.party_names` says what it may be.
        y_true : array-like, shape (n,)
            Labels: booleans, or numbers equal to 0 or 1.
        y_score : array-like, shape (n,)
            Finite numbers that float64 holds exactly (float32 and float16 always are). Which range they need is up to
            a session's thresholds (`fhe_auc.rows.own_rows.check_scores`).
        score_column : str, optional
            As of the attribute.

        Raises
        ------
        InputError
            If the name is blank, the arrays are empty, not one-dimensional or of different lengths, or an entry is
            missing, masked, not a number, not a label or not finite. The message names party, row and value.

        Examples
        --------
        >>> PartyData.from_arrays("north", [0, 1, 1], [0.2, 0.7, 0.4])
        PartyData(name='north')
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
        place: Callable[[int], Place] = _numbered,
        refuse: Callable[[int, str, str], InputError] | None = None,
    ) -> PartyData:
        """Check a party's rows for an analysis and take a read-only copy of them.

        Parameters
        ----------
        labels : array-like or Coded, shape (n,)
            As `y_true` of `from_arrays`; where the analysis has classes, these, as text or whole numbers.
        scores : mapping of str to array-like, shape (n,)
            Each model's, in the analysis's order, as `y_score` of `from_arrays`; keys name them in errors.
        groups : mapping of str to array-like or Coded, shape (n,)
            Each variable's levels, in the analysis's order, as text or whole numbers.
        refuse : callable, optional
            Makes the error of a row (from 0), of what is wrong with it, and of the column (empty: labels); otherwise it
            names party and row, by `place`.
        place : callable, optional
            As of the attribute.

        `name` is as of `from_arrays`, and so are errors; a level that the analysis does not have is
        one too.
        """
        name = checked_name(name)
        of_scores = ["score"] if len(scores) == 1 else [f"{model!r} score" for model in scores]
        of_levels = [f"{variable!r} level" for variable in groups]
        named = [
            ("label", labels),
            *zip(of_scores, scores.values(), strict=True),
            *zip(of_levels, groups.values(), strict=True),
        ]
        arrays = [_one_dimensional(values, name, f"{what}s") for what, values in named]
        of_rows, of_models, of_groups = arrays[0], arrays[1 : 1 + len(scores)], arrays[1 + len(scores) :]
        for (what, _), values in zip(named, arrays, strict=True):
            if len(values) != len(of_rows):
                raise InputError(
                    f"party {name!r}: {len(of_rows)} labels but {len(values)} {what}s; each row needs both"
                )
        if len(of_rows) == 0:
            raise InputError(f"party {name!r}: there are no rows")

        def refusing(column: str) -> Callable[[int, str], InputError]:
            def refused(row: int, what: str) -> InputError:
                if refuse is not None:
                    return refuse(row, what, column)
                if what.endswith(" is missing"):
                    what += "; drop the row, as drop_missing=True does"
                return InputError(f"party {name!r}, {place(row).text}: {what}", party=name, column=column or None)

            return refused

        if analysis.classes:
            checked = _codes(of_rows, "label", analysis.classes, refusing(""))
        else:
            checked = _checked_labels(of_rows, refusing(""))
        return cls(
            name,
            checked,
            tuple(
                finite_numbers(values, what, refusing(column))
                for what, column, values in zip(of_scores, scores, of_models, strict=True)
            ),
            tuple(
                _codes(values, variable.name, variable.levels, refusing(variable.name))
                for variable, values in zip(analysis.by, of_groups, strict=True)
            ),
            tuple(each for each in scores if each),
            place=place,
        )


def checked_name(name: object) -> str:
    """Return the name of a party as it is used; raise `InputError` where it is none."""
    if not isinstance(name, str):
        raise InputError(f"party {name!r}: the name of a party must be text")
    name = unicodedata.normalize("NFC", name)  # some systems keep file names in another form
    if problem := problem_with(name):
        raise InputError(f"party {name[:MAX_CHARACTERS]!a}: the name of a party {problem}")
    return name


def _one_dimensional(values: ArrayLike | Coded, party: str, what: str) -> Any:
    if isinstance(values, Coded):
        return values
    if isinstance(values, np.ndarray):
        return _require_one_dimensional(values, party, what)
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":  # numpy may have turned numbers beside a text into text: keep each as it was
            array = np.asarray(values, dtype=object)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"party {party!r}: the {what} must be one-dimensional numbers ({error})") from None
    return _require_one_dimensional(array, party, what)


def _require_one_dimensional(array: NDArray[Any], party: str, what: str) -> NDArray[Any]:
    if array.ndim != 1:
        raise InputError(f"party {party!r}: the {what} must be one-dimensional, but have shape {array.shape}")
    return array


def _checked_labels(values: NDArray[Any], refuse: Callable[[int, str], InputError]) -> NDArray[np.uint8]:
    numbers = _real_numbers(values, "label", refuse)
    row = _first(~((numbers == 0) | (numbers == 1)))
    if row is not None:
        advice = _OTHER_LABELS if np.isfinite(numbers[row]) else ""
        raise refuse(row, f"label is {_show(numbers[row])}; labels must be 0 or 1{advice}")
    return _frozen((numbers == 1).view(np.uint8))


def _codes(
    values: NDArray[Any] | Coded, what: str, names: Sequence[str], refuse: Callable[[int, str], InputError]
) -> NDArray[np.uint8]:
    """Return each entry's index in `names`, or refuse the first that is none of them."""
    known = _Known(names)
    if isinstance(values, Coded):
        found = np.array([known[str, name] for name in values.names] or [0], np.int16)[values.codes]
    else:
        found = np.fromiter((known[type(entry), entry] for entry in values.tolist()), np.int16, len(values))
    row = _first(found < 0)
    if row is not None:
        entry = values.names[values.codes[row]] if isinstance(values, Coded) else values[row]
        if found[row] == _MISSING:
            raise refuse(
                row,
                f"{what} is missing (empty, NA, None or the like); give such rows a level of their own, or drop them",
            )
        raise refuse(row, f"{what} is {_show(entry)}, and can only be {', '.join(map(repr, names))}")
    return _frozen(found.astype(np.uint8))


_UNKNOWN, _MISSING = -1, -2
_MISSING_TEXTS = frozenset(
    (
        "",
        *("na", "n/a", "#n/a", "#na", "#n/a n/a", "<na>", "nat", "null", "none", "nan", "-nan"),  # R, Excel, pandas
        *("1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),  # NaN, as Windows has written it
        *(".", "?", r"\n"),  # SAS and Stata; ARFF; Hive and MySQL
    )
)
"""What stands for a missing entry in any column but that of sites, in any case of letters."""
_NO_NAMES = ("", "nan", "<na>", "nat")  # as numpy and pandas write what is missing


class _Known(dict[tuple[type, Any], int]):
    """The index of each entry seen so far, as text, in some names; with its type, as True is 1 to a dict."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._index = {level_text(name): index for index, name in enumerate(names)}

    def __missing__(self, key: tuple[type, Any]) -> int:
        text = level_text(key[1])
        self[key] = found = _MISSING if text is None else self._index.get(text, _UNKNOWN)
        return found


def level_text(entry: object) -> str | None:
    """Return a label, a level or a class as text; None where it is missing: empty, NA, None, "." or the like.

    1.0 is "1", like 1, and so is "1.0": pandas writes whole numbers so where one of the column is missing. Bytes are
    text in UTF-8, as older writers of Parquet leave it; what is none keeps its bytes as escapes, and so apart.
    """
    text = name_text(entry)
    return None if text is None or text.lower() in _MISSING_TEXTS else text


def name_text(entry: object) -> str | None:
    """Return the name of a site as text, as `level_text`; but NA and the like are names, which no row is lost by."""
    if isinstance(entry, float):
        if entry != entry:
            return None
        if entry.is_integer():
            entry = int(entry)
    if isinstance(entry, bytes):
        entry = entry.decode(errors="backslashreplace")
    text = "" if entry is None else str(entry).strip()
    if text.endswith(".0") and re.fullmatch(r"(0|-?[1-9][0-9]*)\.0", text):
        text = text[:-2]
    return text if text.lower() not in _NO_NAMES else None


def missing_entries(values: NDArray[Any] | Coded) -> NDArray[np.bool_]:
    """Return which entries of a column, shape (n,), are missing or masked."""
    if isinstance(values, Coded):
        return np.array([name is None for name in values.names] or [False])[values.codes]
    if getattr(values, "mask", None) is not None:  # a masked array; its class would load numpy.ma
        masked: NDArray[np.bool_] = np.ma.getmaskarray(values)  # type: ignore[no-untyped-call, unused-ignore]
        return masked | missing_entries(np.asarray(values))
    if values.dtype.kind == "f":
        nans: NDArray[np.bool_] = np.isnan(values)
        return nans
    if values.dtype.kind in "biu":
        return np.zeros(len(values), np.bool_)
    return np.fromiter((level_text(entry) is None for entry in values.tolist()), np.bool_, len(values))


def left_out_beside(parties: Collection[str], dropped: Mapping[str | None, int]) -> tuple[str, ...]:
    """Say of which sites no row is left, and that rows had no site; `dropped` counts rows by site, None: of none."""
    found = [
        f"site {site!r}: all of its rows ({rows:,}) have a missing entry and were left out, and the site with them"
        for site, rows in dropped.items()
        if rows and site is not None and site not in parties
    ]
    if without := dropped.get(None, 0):
        found.append(f"{without:,} rows were left out whose site is missing")
    return tuple(found)


def label_spellings(names: Iterable[str]) -> tuple[str, str] | None:
    """Return two labels that are one, spelt in two ways: they differ in case, blanks, or how a number is written.

    None where there are none. Which one somebody means who names one of them, only they know.
    """
    seen: dict[object, str] = {}
    for name in names:
        try:
            looks: object = float(name)
        except ValueError:
            looks = "".join(alike(name).split())
        if seen.setdefault(looks, name) != name:
            return seen[looks], name
    return None


def finite_numbers(values: NDArray[Any], what: str, refuse: Callable[[int, str], InputError]) -> NDArray[np.float64]:
    """Return the entries as read-only float64, each exactly, or raise what `refuse` makes of the first that is not one.

    Shape (n,), like `values`. `what` is what an entry is, for the message; `refuse` takes the row (from 0) and what is
    wrong with it.
    """
    numbers = _real_numbers(values, what, refuse)
    row = _first(~np.isfinite(numbers))
    if row is not None:
        raise refuse(row, f"{what} is {_show(numbers[row])}; {what}s must be finite")
    if numbers.dtype == np.float64:
        return _frozen(numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        scores = numbers.astype(np.float64)
        # Rounding could make ties or reach infinity: integers beyond 2^53 and long doubles.
        row = _first(scores.astype(numbers.dtype) != numbers)
    if row is not None:
        raise refuse(row, f"{what} is {_show(numbers[row])}, which float64 cannot hold exactly")
    return _frozen(scores)


def _real_numbers(values: NDArray[Any], what: str, refuse: Callable[[int, str], InputError]) -> NDArray[Any]:
    """Return the values with a boolean, integer or floating dtype, or refuse the first that is no number."""
    if getattr(values, "mask", None) is not None:  # a masked array; its class would load numpy.ma
        row = _first(np.ma.getmaskarray(values))  # type: ignore[no-untyped-call, unused-ignore]
        if row is not None:
            raise refuse(row, f"{what} is masked; drop the row or fill in its value")
        values = np.asarray(values)
    if values.dtype.kind in "biuf":
        row = _first(missing_entries(values))
        if row is not None:
            raise refuse(row, f"{what} is missing")
        return values
    numbers = np.empty(len(values), dtype=np.float64)
    for row, entry in enumerate(values):
        if level_text(entry) is None:
            raise refuse(row, f"{what} is missing")
        number = _plain(entry)
        if not isinstance(number, (bool, int, float)):
            raise refuse(row, f"{what} is {_show(number)}, which is not a number")
        if isinstance(number, int) and abs(number) > 2**53:  # float64 no longer tells neighbours apart
            raise refuse(row, f"{what} is {_show(number)}, which is too large")
        numbers[row] = number
    return numbers


def _first(flags: NDArray[np.bool_]) -> int | None:
    return int(flags.argmax()) if flags.any() else None


def _plain(entry: object) -> object:
    """Return numpy's numbers and texts as Python's own, but no dates, which would turn into integers."""
    return entry.item() if isinstance(entry, np.generic) and entry.dtype.kind in "biufcUS" else entry


def _show(value: object) -> str:
    """Write one entry on one line, shortened."""
    return reprlib.repr(_plain(value))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    copy = np.array(array)  # subclasses are not kept
    copy.flags.writeable = False
    return copy


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counts:
    """True and false positives at each of m thresholds, of one party or pooled.

    ``repr`` shows the number of thresholds only: the counts are the party's secret. ``==`` is identity; compare values
    with `equals`.

    Attributes
    ----------
    tp, fp : ndarray of int64, shape (m,)
        TP_k and FP_k for ascending thresholds: never negative, never increasing, read-only. The first counts every row.

    Raises `InputError` if the arrays cannot be such counts, or exceed 2^62 - 1 rows.
    """

    tp: NDArray[np.int64]
    fp: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("tp", "fp"):
            array = np.asarray(getattr(self, name))
            if array.ndim != 1 or array.size == 0 or array.dtype != np.int64:
                raise InputError(f"counts: {name} must be a one-dimensional int64 array of at least one threshold")
            if array[-1] < 0 or array[0] > _MAX_ROWS or (array[1:] > array[:-1]).any():
                raise InputError(f"counts: {name} must fall from at most 2^62 - 1 to at least 0 as the threshold rises")
            object.__setattr__(self, name, _frozen(array))
        if self.tp.shape != self.fp.shape:
            raise InputError(f"counts: {len(self.tp)} true-positive but {len(self.fp)} false-positive counts")

    def __repr__(self) -> str:
        return f"Counts(thresholds={self.thresholds})"

    @property
    def thresholds(self) -> int:
        """Number of thresholds m, which is the number of bins as well."""
        return len(self.tp)

    @property
    def positives(self) -> int:
        """Rows with label 1: P = TP_1."""
        return int(self.tp[0])

    @property
    def negatives(self) -> int:
        """Rows with label 0: N = FP_1."""
        return int(self.fp[0])

    @property
    def bin_positives(self) -> NDArray[np.int64]:
        """Rows with label 1 in each bin: p_k = TP_k - TP_{k+1}, shape (m,)."""
        return -np.diff(self.tp, append=0)

    @property
    def bin_negatives(self) -> NDArray[np.int64]:
        """Rows with label 0 in each bin: F_k = FP_k - FP_{k+1}, shape (m,)."""
        return -np.diff(self.fp, append=0)

    @property
    def trapezoid_heights(self) -> NDArray[np.int64]:
        """Twice the mean height of each trapezoid: T_k = TP_k + TP_{k+1}, shape (m,)."""
        return 2 * self.tp - self.bin_positives

    def __add__(self, other: Counts) -> Counts:
        """Pool with the counts of other rows at the same thresholds.

        Raises `InputError` if the numbers of thresholds differ, or the sum exceeds 2^62 - 1 rows.
        """
        if not isinstance(other, Counts):
            return NotImplemented
        if self.thresholds != other.thresholds:
            raise InputError(f"counts at {self.thresholds} and at {other.thresholds} thresholds do not add up")
        return Counts(self.tp + other.tp, self.fp + other.fp)

    def equals(self, other: Counts) -> bool:
        """Tell whether both hold the same counts at the same number of thresholds."""
        return np.array_equal(self.tp, other.tp) and np.array_equal(self.fp, other.fp)


def count(data: PartyData, thresholds: ArrayLike) -> Counts:
    """Count a party's true and false positives at each threshold, in O(n) time but for grids that are very uneven.

    A row is predicted positive when its score is at or above the threshold. Rows below the first threshold are still
    counted in the first bin (it acts as minus infinity), so that the ROC curve has both its ends.

    Parameters
    ----------
    data : PartyData
        The party's n rows.
    thresholds : array-like, shape (m,)
        Finite and strictly ascending decision points; `InputError` is raised for others.
    """
    grid = grids.explicit(thresholds)
    per_bin = np.zeros((2, len(grid)), np.int64)
    for batch in data.batches():
        of_both = bins_of(batch.y_score, grid) + len(grid) * batch.y_true.astype(np.int32)
        per_bin += np.bincount(of_both, minlength=per_bin.size).reshape(per_bin.shape)
    negatives, positives = per_bin[:, ::-1].cumsum(axis=1)[:, ::-1]
    return Counts(positives, negatives)

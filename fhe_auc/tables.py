"""Files to parties: CSV, Parquet and NPZ tables with a label and a score column, one party a file or a site column.

Rows are named in errors as they stand in their file, from 0, without the header. What the rows must be is checked in
one place, `PartyData.from_arrays`; this module finds the columns and hands over what it read, missing entries as None.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fhe_auc.analysis import Analysis, Questions
from fhe_auc.counts import PartyData, finite_numbers, level_text
from fhe_auc.errors import InputError
from fhe_auc.score_scale import DEFAULT_SCALE, rescaled

__all__ = ["READERS", "read_columns", "read_for", "read_parties", "write_rows"]


@dataclass(frozen=True, slots=True)
class _Columns:
    """Names of the columns to read."""

    label: str
    scores: tuple[str, ...]
    site: str | None = None
    groups: tuple[str, ...] = ()
    boolean_labels: bool = True
    """Whether True and False are labels, where a file is text; otherwise they are no numbers."""
    classes: bool = False
    """Whether labels are names of classes."""

    @property
    def names(self) -> list[str]:
        return [self.label, *self.scores, *self.groups, *([] if self.site is None else [self.site])]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What one file holds, unchecked; a missing entry is None (or NaN, where the file says NaN)."""

    labels: NDArray[Any]
    scores: list[NDArray[Any]]
    groups: list[NDArray[Any]]
    sites: list[str | None] | None

    def taken(self, rows: NDArray[np.intp]) -> _Rows:
        """Return some of the rows, without sites."""
        return _Rows(
            self.labels[rows], [each[rows] for each in self.scores], [each[rows] for each in self.groups], None
        )


def read_parties(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    site_column: str | None = None,
    label_column: str = "y_true",
    score_column: str = "y_score",
    score_scale: str = DEFAULT_SCALE,
) -> list[PartyData]:
    """Read the parties' test rows of one model from files.

    Parameters
    ----------
    paths : sequence of paths
        ``.csv`` (UTF-8, commas, a header line), ``.parquet`` or ``.npz`` files; a single path will do.
    site_column : str, optional
        Without it every file is one party, named by the file name without its suffix. With it the rows of all files
        are grouped by the text in this column, which names the party (``007`` stays ``007``), in order of first
        appearance. In an ``.npz`` file that has an array ``<site_column>_names`` the column holds indices into it.
    label_column, score_column : str, optional
        Names of the other two columns.
    score_scale : str
        What scores are, one of `fhe_auc.score_scale.SCALES`; they are turned into probabilities.

    Raises
    ------
    InputError
        If a file is missing, given twice, unreadable or of an unknown kind; lacks a column (the message lists those
        it has); names the same party as another file; or holds an entry that is missing or no label, score or site
        (the message names the party, the row and the value); as `fhe_auc.score_scale.rescaled`.
    """
    questions = Questions(score_columns=(score_column,))
    columns = {"label_column": label_column, "score_scale": score_scale}
    return read_for(questions, paths, site_column=site_column, **columns)[0]


def read_for(
    questions: Questions,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    site_column: str | None = None,
    label_column: str = "y_true",
    score_scale: str = DEFAULT_SCALE,
) -> tuple[list[PartyData], Analysis]:
    """Read the parties' test rows for questions, and what these are now that all levels are known.

    Files, sites and errors are as of `read_parties`. Columns that rows are grouped by hold text, or whole numbers that
    stand for something; in an ``.npz`` file indices into ``<column>_names``, if there are such.
    """
    files = _distinct_files([paths] if isinstance(paths, (str, os.PathLike)) else paths)
    columns = _Columns(
        label_column, questions.score_columns, site_column, tuple(questions.by), classes=bool(questions.classes)
    )
    if twice := [name for name, times in Counter(columns.names).items() if times > 1]:
        raise InputError(f"label, score, site and group columns must differ, but {twice[0]!r} is there twice")
    if site_column is None:
        _refuse_same_names(files)
    tables = [_read(file, columns) for file in files]
    levels = {
        name: {level_text(entry) for table in tables for entry in _distinct(table.groups[at])}
        for at, name in enumerate(columns.groups)
    }
    analysis = questions.analysis(levels)

    def party(name: str, rows: _Rows, describe: Callable[[int], str]) -> PartyData:
        scores, groups = (
            dict(zip(names, found, strict=True))
            for names, found in ((columns.scores, rows.scores), (columns.groups, rows.groups))
        )
        data = PartyData.from_columns(name, rows.labels, scores, groups, analysis, describe_row=describe)
        return rescaled(data, score_scale)

    if site_column is None:
        return [party(file.stem, rows, _row_of(file)) for file, rows in zip(files, tables, strict=True)], analysis
    return _group_by_site(files, tables, party), analysis


def write_rows(path: Path, data: PartyData, analysis: Analysis) -> None:
    """Write a party's rows to an ``.npz`` file, for `read_for` with the same analysis."""
    names = analysis.models if len(analysis.models) > 1 else ("y_score",)
    columns: dict[str, Any] = dict(zip(names, data.scores, strict=True))
    for variable, codes in zip(analysis.by, data.groups, strict=True):
        columns[variable.name] = np.array(variable.levels)[codes]
    labels = np.array(analysis.classes)[data.labels] if analysis.classes else data.y_true
    np.savez(path, y_true=labels, **columns)


def _distinct(entries: NDArray[Any]) -> Iterable[Any]:
    return set(entries.tolist()) if entries.dtype == object else np.unique(entries).tolist()


def read_columns(paths: Sequence[str | os.PathLike[str]], columns: Sequence[str]) -> NDArray[np.float64]:
    """Read one or two columns of numbers, shape (n, columns); the rows of all files follow one another.

    Files are as for `read_parties`. Raises `InputError` as there, labels and sites apart; the message names the file,
    the row, the column and the value.
    """
    if len(columns) not in (1, 2) or len(set(columns)) != len(columns):
        raise InputError(f"one column is needed, or two that differ, not {', '.join(map(repr, columns)) or 'none'}")
    found = []
    for file in _distinct_files(paths):
        rows = _read(file, _Columns(columns[0], tuple(columns[1:]), boolean_labels=False))

        def refuse(row: int, what: str, file: Path = file) -> InputError:
            return InputError(f"{_row_of(file)(row)}: {what}")

        values = [rows.labels, *rows.scores]
        found.append(
            np.stack([finite_numbers(v, f"{n!r} value", refuse) for v, n in zip(values, columns, strict=True)], axis=1)
        )
    return np.concatenate(found)


def _distinct_files(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    files = [Path(path) for path in paths]
    if not files:
        raise InputError("no files given; give at least one .csv, .parquet or .npz file")
    seen: set[Path] = set()
    for file in files:
        resolved = file.resolve()
        if resolved in seen:
            raise InputError(f"file {str(file)!r} is given twice, which would count its rows twice")
        seen.add(resolved)
    return files


def _refuse_same_names(files: Sequence[Path]) -> None:
    by_name: dict[str, Path] = {}
    for file in files:
        other = by_name.setdefault(file.stem, file)
        if other is not file:
            raise InputError(
                f"files {str(other)!r} and {str(file)!r} both name a party {file.stem!r};"
                " rename one, or name the parties in a site column"
            )


def _row_of(file: Path) -> Callable[[int], str]:
    return lambda row: f"row {row} of file {str(file)!r}"


def _group_by_site(
    files: Sequence[Path],
    tables: Sequence[_Rows],
    party: Callable[[str, _Rows, Callable[[int], str]], PartyData],
) -> list[PartyData]:
    """Pool the rows of all files and split them again by site; `party` makes one of name, rows and what names a row."""
    codes: dict[str, int] = {}  # site -> its place in the order of first appearance
    site_of_row: list[int] = []
    for file, table in zip(files, tables, strict=True):
        if not table.sites:
            raise InputError(f"file {str(file)!r}: there are no rows")
        for row, site in enumerate(table.sites):
            name = "" if site is None else site.strip()
            if name.lower() in ("", "nan"):  # a missing number, in Parquet and NPZ, is written nan
                raise InputError(f"file {str(file)!r}, row {row}: the site is missing")
            site_of_row.append(codes.setdefault(name, len(codes)))

    starts = [0, *accumulate(len(table.labels) for table in tables)]
    pooled = _Rows(
        np.concatenate([table.labels for table in tables]),
        [np.concatenate(each) for each in zip(*(table.scores for table in tables), strict=True)],
        [np.concatenate(each) for each in zip(*(table.groups for table in tables), strict=True)],
        None,
    )
    order = np.argsort(site_of_row, kind="stable")  # stable: a party's rows stay in the order of the files
    ends = np.bincount(site_of_row).cumsum()

    def describe(rows: NDArray[np.intp], row: int) -> str:
        at = int(rows[row])
        file = bisect_right(starts, at) - 1
        return _row_of(files[file])(at - starts[file])

    return [
        party(name, pooled.taken(rows), partial(describe, rows))
        for name, rows in zip(codes, np.split(order, ends[:-1]), strict=True)
    ]


def _read(file: Path, columns: _Columns) -> _Rows:
    reader = READERS.get(file.suffix.lower())
    if reader is None:
        raise InputError(f"file {str(file)!r}: unknown suffix {file.suffix!r}; known are {', '.join(READERS)}")
    try:
        return reader(file, columns)
    except InputError as error:
        raise error.within(f"file {str(file)!r}", file=str(file)) from None
    except FileNotFoundError:
        raise InputError(f"file {str(file)!r} does not exist", file=str(file)) from None
    except Exception as error:  # what the libraries raise on damaged files has no end
        raise InputError(f"file {str(file)!r} cannot be read: {_reason(error)}", file=str(file)) from None


def _reason(error: Exception) -> str:
    """Return the first line of an error, but for the row that Arrow's CSV reader quotes: it is somebody's data."""
    text = (str(error) or type(error).__name__).splitlines()[0]
    if isinstance(error, pa.ArrowException) and text.startswith("CSV"):
        counts = re.search(r"Row #\d+: Expected \d+ columns, got \d+", text)
        return counts[0] if counts else "it is no well-formed CSV"
    return text


def _require(columns: _Columns, there: Sequence[str]) -> None:
    times = Counter(there)
    for name in columns.names:
        if times[name] == 0:
            raise InputError(
                f"there is no column {name!r}; there are {', '.join(map(repr, there)) or 'none'}", column=name
            )
        if times[name] > 1:
            raise InputError(f"column {name!r} is there {times[name]} times", column=name)


# CSV ------------------------------------------------------------------------------------------------------------------


def _read_csv(file: Path, columns: _Columns) -> _Rows:
    # Every column is read as text: guessed types would turn site 007 into 7, and lose the row of what is no number.
    parsing = pa_csv.ParseOptions(newlines_in_values=True)
    with pa_csv.open_csv(file, parse_options=parsing) as head:
        raw_names = {name: name.strip() for name in head.schema.names}
        _require(columns, [name.strip() for name in head.schema.names])
    wanted = [raw for raw, name in raw_names.items() if name in columns.names]
    converting = pa_csv.ConvertOptions(
        include_columns=wanted, column_types={raw: pa.large_string() for raw in wanted}, strings_can_be_null=False
    )
    table = pa_csv.read_csv(file, parse_options=parsing, convert_options=converting)
    table = table.rename_columns([raw_names[raw] for raw in wanted])
    labels = table[columns.label]
    return _Rows(
        labels=_texts(labels)
        if columns.classes
        else _parse_numbers(_booleans_as_digits(labels) if columns.boolean_labels else labels),
        scores=[_parse_numbers(table[each]) for each in columns.scores],
        groups=[_texts(table[each]) for each in columns.groups],
        sites=None if columns.site is None else table[columns.site].to_pylist(),
    )


def _texts(column: Any) -> NDArray[Any]:
    return _as_objects(column.to_pylist())


def _booleans_as_digits(text: Any) -> Any:
    """Write 1 for True and 0 for False, which is how data frames save Boolean labels."""
    word = pc.utf8_lower(pc.utf8_trim_whitespace(text))
    return pc.if_else(pc.equal(word, "true"), "1", pc.if_else(pc.equal(word, "false"), "0", text))


def _parse_numbers(text: Any) -> NDArray[Any]:
    try:
        numbers: NDArray[Any] = pc.cast(pc.utf8_trim_whitespace(text), pa.float64()).to_numpy()
        return numbers
    except pa.ArrowInvalid:  # something is no number: parse one by one, so that its row can be named
        return _as_objects([_number_or_text(entry) for entry in text.to_pylist()])


def _number_or_text(text: str) -> float | str | None:
    if not text.strip():
        return None
    try:
        return text if "_" in text else float(text)  # Python reads 1_000 as a number, other readers of the file do not
    except ValueError:
        return text


# Parquet --------------------------------------------------------------------------------------------------------------


def _read_parquet(file: Path, columns: _Columns) -> _Rows:
    with pq.ParquetFile(file) as source:
        _require(columns, source.schema_arrow.names)
        table = source.read(columns=columns.names)
    sites = None
    if columns.site is not None:
        sites = pc.cast(table[columns.site], pa.large_string()).to_pylist()
    return _Rows(
        labels=_texts(table[columns.label]) if columns.classes else _arrow_values(table[columns.label]),
        scores=[_arrow_values(table[each]) for each in columns.scores],
        groups=[_texts(table[each]) for each in columns.groups],
        sites=sites,
    )


def _arrow_values(column: Any) -> NDArray[Any]:
    if pa.types.is_decimal(column.type):
        column = pc.cast(column, pa.float64())
    plain = pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
    if plain and column.null_count == 0:
        values: NDArray[Any] = column.to_numpy()
        return values
    return _as_objects(column.to_pylist())


# NPZ ------------------------------------------------------------------------------------------------------------------


def _read_npz(file: Path, columns: _Columns) -> _Rows:
    with file.open("rb") as opened:  # numpy leaves files open that it cannot read
        archive = np.load(opened, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise InputError("holds one array, not named columns; save it with numpy.savez")
        _require(columns, archive.files)
        arrays = {name: _load_column(archive, name) for name in columns.names}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the columns differ in length: {', '.join(f'{name} {n}' for name, n in lengths.items())}")

        def texts(column: str) -> list[str | None]:
            names = f"{column}_names"
            known = _load_column(archive, names) if names in archive.files else None
            return _named_entries(column, arrays[column], known)

        return _Rows(
            labels=_as_objects(texts(columns.label)) if columns.classes else _npz_values(arrays[columns.label]),
            scores=[_npz_values(arrays[each]) for each in columns.scores],
            groups=[_as_objects(texts(each)) for each in columns.groups],
            sites=None if columns.site is None else texts(columns.site),
        )


def _load_column(archive: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    try:
        array = archive[name]
    except ValueError as error:  # an object array would be unpickled, which could run code
        raise InputError(f"column {name!r} cannot be read: {error}") from None
    if array.ndim != 1:
        raise InputError(f"column {name!r} must be one-dimensional, but has shape {array.shape}")
    return array


def _npz_values(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.dtype.kind in "biuf" else _as_objects(array.tolist())


def _named_entries(column: str, entries: NDArray[Any], names: NDArray[Any] | None) -> list[str | None]:
    if names is None:
        return [level_text(entry) for entry in entries.tolist()]
    if entries.dtype.kind not in "iu":
        raise InputError(f"column {column!r} must hold indices into its names, but is of type {entries.dtype}")
    outside = (entries < 0) | (entries >= len(names))
    if outside.any():
        row = int(outside.argmax())
        raise InputError(f"row {row}: column {column!r} is {entries[row]}, but there are {len(names)} names")
    return list(names.astype(str)[entries].tolist())


def _as_objects(entries: list[Any]) -> NDArray[Any]:
    """Keep each entry as it is, so that an error can show it; numpy.array would turn a mixture into text."""
    return np.fromiter(entries, dtype=object, count=len(entries))


READERS: Mapping[str, Callable[[Path, _Columns], _Rows]] = MappingProxyType(
    {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}
)
"""Reader of each kind of file, by its suffix."""

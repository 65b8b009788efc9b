"""Files to parties: CSV, Parquet and NPZ tables with a label and a score column, one party a file or a site column.

Rows are named in errors as they stand in their file, from 0, without the header. What the rows must be is checked in
one place, `PartyData.from_arrays`; this module finds the columns and hands over what it read, missing entries as None.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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

from fhe_auc.counts import PartyData, finite_numbers
from fhe_auc.errors import InputError
from fhe_auc.score_scale import DEFAULT_SCALE, rescaled

__all__ = ["READERS", "read_columns", "read_parties"]


@dataclass(frozen=True, slots=True)
class _Columns:
    """Names of the columns to read."""

    label: str
    score: str
    site: str | None
    boolean_labels: bool = True
    """Whether True and False are labels, where a file is text; otherwise they are no numbers."""

    @property
    def names(self) -> list[str]:
        return [name for name in (self.label, self.score, self.site) if name is not None]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What one file holds, unchecked; a missing entry is None (or NaN, where the file says NaN)."""

    labels: NDArray[Any]
    scores: NDArray[Any]
    sites: list[str | None] | None


def read_parties(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    site_column: str | None = None,
    label_column: str = "y_true",
    score_column: str = "y_score",
    score_scale: str = DEFAULT_SCALE,
) -> list[PartyData]:
    """Read the parties' test rows from files.

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
    files = _distinct_files([paths] if isinstance(paths, (str, os.PathLike)) else paths)
    columns = _Columns(label_column, score_column, site_column)
    if len(set(columns.names)) != len(columns.names):
        raise InputError(f"the label, score and site columns must differ, not {', '.join(map(repr, columns.names))}")
    if site_column is not None:
        parties = _group_by_site(files, [_read(file, columns) for file in files], columns.score)
    else:
        _refuse_same_names(files)
        parties = [_file_as_party(file, columns) for file in files]
    return [rescaled(data, score_scale) for data in parties]


def read_columns(paths: Sequence[str | os.PathLike[str]], columns: Sequence[str]) -> NDArray[np.float64]:
    """Read one or two columns of numbers, shape (n, columns); the rows of all files follow one another.

    Files are as for `read_parties`. Raises `InputError` as there, labels and sites apart; the message names the file,
    the row, the column and the value.
    """
    if len(columns) not in (1, 2) or len(set(columns)) != len(columns):
        raise InputError(f"one column is needed, or two that differ, not {', '.join(map(repr, columns)) or 'none'}")
    found = []
    for file in _distinct_files(paths):
        rows = _read(file, _Columns(columns[0], columns[-1], None, boolean_labels=False))

        def refuse(row: int, what: str, file: Path = file) -> InputError:
            return InputError(f"{_row_of(file)(row)}: {what}")

        values = [rows.labels, rows.scores][: len(columns)]
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


def _file_as_party(file: Path, columns: _Columns) -> PartyData:
    rows = _read(file, columns)
    return PartyData.from_arrays(
        file.stem, rows.labels, rows.scores, describe_row=_row_of(file), score_column=columns.score
    )


def _row_of(file: Path) -> Callable[[int], str]:
    return lambda row: f"row {row} of file {str(file)!r}"


def _group_by_site(files: Sequence[Path], tables: Sequence[_Rows], score_column: str) -> list[PartyData]:
    """Pool the rows of all files and split them again by site."""
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
    labels = np.concatenate([table.labels for table in tables])
    scores = np.concatenate([table.scores for table in tables])
    order = np.argsort(site_of_row, kind="stable")  # stable: a party's rows stay in the order of the files
    ends = np.bincount(site_of_row).cumsum()

    def describe(rows: NDArray[np.intp], row: int) -> str:
        pooled = int(rows[row])
        file = bisect_right(starts, pooled) - 1
        return _row_of(files[file])(pooled - starts[file])

    return [
        PartyData.from_arrays(
            name, labels[rows], scores[rows], describe_row=partial(describe, rows), score_column=score_column
        )
        for name, rows in zip(codes, np.split(order, ends[:-1]), strict=True)
    ]


def _read(file: Path, columns: _Columns) -> _Rows:
    reader = READERS.get(file.suffix.lower())
    if reader is None:
        raise InputError(f"file {str(file)!r}: unknown suffix {file.suffix!r}; known are {', '.join(READERS)}")
    try:
        return reader(file, columns)
    except InputError as error:
        raise InputError(f"file {str(file)!r}: {error}") from None
    except FileNotFoundError:
        raise InputError(f"file {str(file)!r} does not exist") from None
    except Exception as error:  # what the libraries raise on damaged files has no end
        raise InputError(f"file {str(file)!r} cannot be read: {_reason(error)}") from None


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
            raise InputError(f"there is no column {name!r}; there are {', '.join(map(repr, there)) or 'none'}")
        if times[name] > 1:
            raise InputError(f"column {name!r} is there {times[name]} times")


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
        labels=_parse_numbers(_booleans_as_digits(labels) if columns.boolean_labels else labels),
        scores=_parse_numbers(table[columns.score]),
        sites=None if columns.site is None else table[columns.site].to_pylist(),
    )


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
    return _Rows(_arrow_values(table[columns.label]), _arrow_values(table[columns.score]), sites)


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
        sites = None
        if columns.site is not None:
            names = f"{columns.site}_names"
            site_names = _load_column(archive, names) if names in archive.files else None
            sites = _site_texts(arrays[columns.site], site_names)
    return _Rows(_npz_values(arrays[columns.label]), _npz_values(arrays[columns.score]), sites)


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


def _site_texts(sites: NDArray[Any], names: NDArray[Any] | None) -> list[str | None]:
    if names is None:
        return list(sites.astype(str).tolist())
    if sites.dtype.kind not in "iu":
        raise InputError(f"the site column must hold indices into the names of the sites, but is of type {sites.dtype}")
    outside = (sites < 0) | (sites >= len(names))
    if outside.any():
        row = int(outside.argmax())
        raise InputError(f"row {row}: the site is {sites[row]}, but there are {len(names)} names of sites")
    return list(names.astype(str)[sites].tolist())


def _as_objects(entries: list[Any]) -> NDArray[Any]:
    """Keep each entry as it is, so that an error can show it; numpy.array would turn a mixture into text."""
    return np.fromiter(entries, dtype=object, count=len(entries))


READERS: Mapping[str, Callable[[Path, _Columns], _Rows]] = MappingProxyType(
    {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}
)
"""Reader of each kind of file, by its suffix."""

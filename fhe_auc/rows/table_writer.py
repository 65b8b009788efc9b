"""A copy of a table with one column more: CSV, Parquet and NPZ; what the table held stays as it was."""

import csv
import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import replacing
from fhe_auc.rows.csv_files import CSV, TextFormat
from fhe_auc.rows.table_files import OBJECTS, TableFile, native

_Column = NDArray[np.float64]
_SAMPLE = 2**16  # characters, in which a line ends


def add_column(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    name: str,
    values: NDArray[np.float64],
    form: TextFormat | None = None,
    read: Sequence[str] = (),
) -> None:
    """Write a table, which `fhe_auc.rows.party_files.read_column` has read, again with one more column at its end.

    `target`, with the suffix of `source`, is overwritten; `values` have shape (n,). `form` is that of a text file and
    its copy; by the columns `read` its delimiter is found. Raises `InputError` where the suffixes differ or are
    unknown, the column `name` is there already, or a column cannot be copied; `OSError` where the file cannot be
    written.
    """
    given, wanted = Path(source), Path(target)
    writer = _WRITERS.get(given.suffix.lower())
    if writer is None:
        raise InputError(f"file {str(given)!r}: copies are made of {', '.join(_WRITERS)} files", file=str(given))
    if wanted.suffix.lower() != given.suffix.lower():
        raise InputError(
            f"file {str(wanted)!r}: its name must end in {given.suffix}, as that of {str(given)!r} does",
            file=str(wanted),
        )
    try:
        with replacing(wanted) as file:
            writer(TableFile(given, form or TextFormat()), read, file, name, values)
    except InputError as error:
        raise error.within(f"file {str(given)!r}", file=str(given)) from None


def _refuse_same(name: str, there: list[str]) -> None:
    if name in there:
        raise InputError(f"there is a column {name!r} already")


def _add_to_csv(source: TableFile, read: Sequence[str], target: BinaryIO, name: str, values: _Column) -> None:
    delimiter = source.delimiter(read)
    with source.decoded(errors="ignore") as opened:
        first = re.match(r"[^\r\n]*(\r\n|\r|\n)", opened.read(_SAMPLE))
    line = first[1] if first else "\n"
    text = TextIOWrapper(target, encoding=source.source[0], newline="")  # with a mark, as Excel needs it
    if first and source.stated_delimiter() is not None:
        text.write(first[0])
    writer = csv.writer(text, delimiter=delimiter, lineterminator=line)
    records = source.records(delimiter, errors="strict")
    try:
        _, names = next(records)
        _refuse_same(name, [there.strip() for there in names])
        writer.writerow([*names, name])
        for (_, row), value in zip(records, values.tolist(), strict=True):
            writer.writerow([*row, str(value).replace(".", source.form.decimal)])
        text.detach()
    except UnicodeEncodeError:
        raise InputError(f"column {name!r} cannot be written in its encoding, {source.source[0]}") from None
    except UnicodeDecodeError:
        raise InputError(source.wrong_encoding) from None
    except CSV.Error as error:
        raise InputError(f"it is no well-formed CSV: {error}") from None


def _add_to_parquet(source: TableFile, _: Sequence[str], target: BinaryIO, name: str, values: _Column) -> None:
    with native(source.path) as opened, pq.ParquetFile(opened) as file:
        table = file.read()
    _refuse_same(name, table.column_names)
    pq.write_table(table.append_column(name, pa.array(values)), target)


def _add_to_npz(source: TableFile, _: Sequence[str], target: BinaryIO, name: str, values: _Column) -> None:
    with np.load(source.path, allow_pickle=False) as archive:
        _refuse_same(name, archive.files)
        arrays = {}
        for there in archive.files:
            try:
                arrays[there] = archive[there]
            except ValueError:  # an object array would be unpickled
                raise InputError(f"array {there!r} cannot be read: {OBJECTS}") from None
    # Not numpy.savez: it cannot write an array called "file".
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for column, array in {**arrays, name: values}.items():
            with archive.open(f"{column}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)  # type: ignore[no-untyped-call, unused-ignore]


_WRITERS: Mapping[str, Callable[[TableFile, Sequence[str], BinaryIO, str, _Column], None]] = MappingProxyType(
    {".csv": _add_to_csv, ".tsv": _add_to_csv, ".parquet": _add_to_parquet, ".npz": _add_to_npz}
)

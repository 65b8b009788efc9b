"""JSON lines: an object for each row, on a line of its own."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from fhe_auc.base.errors import InputError
from fhe_auc.rows.arrow_columns import piece_of
from fhe_auc.rows.csv_files import TextFile
from fhe_auc.rows.pieces import Piece, find_columns
from fhe_auc.rows.row_store import BATCH


def json_pieces(file: TextFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield the rows of these columns; what an object lacks is missing. Raise `InputError` for other lines."""
    names, lines = dict[str, str](), _lines(file)
    while some := list(islice(lines, BATCH)):
        names = names or find_columns((*texts, *numbers), [*dict.fromkeys(name for _, row in some for name in row)])
        columns = {name: [row.get(there) for _, row in some] for name, there in names.items()}
        for name, entries in columns.items():
            if odd := {dict, list, tuple} & set(map(type, entries)):
                line = next(line for (line, _), entry in zip(some, entries, strict=True) if type(entry) in odd)
                what = f"line {line}, column {name!r}: there is more than one text or number"
                raise InputError(what, line=line, column=name)
        yield piece_of(columns, numbers, texts, file.form.decimal)


def json_line(file: TextFile, row: int, _: Sequence[str]) -> int | None:
    """Return the line of a row, from 0."""
    return next((line for line, _ in islice(_lines(file), row, None)), None)


def _lines(file: TextFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each line, from 1, that is not blank, and its object."""
    with file.decoded("strict") as text:
        yield from ((number, _object(line, number)) for number, line in enumerate(text, start=1) if line.strip())


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        row = msgspec.json.decode(line)
    except msgspec.DecodeError:
        row = None
    if isinstance(row, dict) and line.count(":") == len(row):
        return row
    try:  # slowly: there may be NaN, which Python writes, or a name twice
        pairs = json.loads(line, object_pairs_hook=tuple)
    except ValueError:
        pairs = None
    if not isinstance(pairs, tuple):
        whole = "; of an array such lines are made by: jq -c '.[]'" if line.lstrip()[0] == "[" else ""
        raise InputError(f"line {number}: it is not one JSON object, as each line is to be{whole}", line=number)
    if len(row := dict(pairs)) < len(pairs):
        raise InputError(f"line {number}: the object has one name twice", line=number)
    return row

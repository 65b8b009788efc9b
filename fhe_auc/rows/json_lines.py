"""JSON lines: an object for each row, on a line of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from fhe_auc.base.errors import InputError
from fhe_auc.rows.arrow_columns import piece_of
from fhe_auc.rows.pieces import Piece, find_columns
from fhe_auc.rows.row_store import BATCH

if TYPE_CHECKING:
    from fhe_auc.rows.csv_files import TextFile


def json_pieces(file: TextFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
    """Yield the rows of these columns; what an object lacks is missing. Raise `InputError` for other lines."""
    wanted, names, lines = (*texts, *numbers), dict[str, str](), _lines(file)
    while some := list(islice(lines, BATCH)):
        names = names or find_columns(wanted, [*dict.fromkeys(name for _, row in some for name in row)])
        columns = {name: [row.get(there) for _, row in some] for name, there in names.items()}
        for name, entries in columns.items():
            if odd := {dict, list} & set(map(type, entries)):
                line = next(line for (line, _), entry in zip(some, entries, strict=True) if type(entry) in odd)
                what = f"line {line}, column {name!r}: there is more than one text or number"
                raise InputError(what, line=line, column=name)
        yield piece_of(columns, numbers, texts)


def json_line(file: TextFile, row: int, _: Sequence[str]) -> int | None:
    """Return the line of a row, from 0."""
    return next((line for line, _ in islice(_lines(file), row, None)), None)


def _lines(file: TextFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each line, from 1, that is not blank, and its object."""
    with file.decoded("strict") as text:
        for number, line in enumerate(text, start=1):
            if not line.strip():
                continue
            try:
                row = msgspec.json.decode(line)
            except msgspec.DecodeError:
                row = None
            if not isinstance(row, dict) or line.count(":") != len(row):
                row = _looked_at(line, number)
            yield number, row


def _looked_at(line: str, number: int) -> dict[str, Any]:
    """Return the object of a line in which there may be NaN, which Python writes, or a name twice."""
    try:
        row = json.loads(line, object_pairs_hook=_object)
    except InputError as error:
        raise InputError(f"line {number}: {error}", line=number) from None
    except ValueError:
        row = None
    if not isinstance(row, dict):
        whole = "; of an array such lines are made by: jq -c '.[]'" if line.lstrip()[0] == "[" else ""
        raise InputError(f"line {number}: it is not one JSON object, as each line is to be{whole}", line=number)
    return row


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError("the object has one name twice")
    return found

"""Columns of Arrow as numpy has them: what readers of all kinds of files yield."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.rows.entries import Coded, canonical
from fhe_auc.rows.pieces import Piece

_FEW = 256  # neighbouring integers, which are codes as they are


def coded(column: Any, decimal: str = ".") -> Coded:
    """Return a column of Arrow's, of any type that it can encode, as text; `decimal` is the mark of numbers in it."""
    if pa.types.is_integer(column.type) and len(column) and not column.null_count:
        numbers = _array(column)
        least, most = int(numbers.min()), int(numbers.max())
        if most - least < _FEW and least >= -(2**31) and most < 2**31:
            return Coded(numbers.astype(np.int32) - np.int32(least), list(map(str, range(least, most + 1))))
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    entries = [canonical(entry, decimal=decimal, site=True) for entry in column.dictionary.to_pylist()]
    order = tuple(name for name in entries if name is not None) if column.type.ordered else ()
    index = {name: code for code, name in enumerate(dict.fromkeys(entries))}
    lookup = np.array([index[entry] for entry in entries] or [0], np.int32)
    if not column.indices.null_count:
        return Coded(lookup[_array(column.indices)], list(index), order)
    missing = _array(column.indices.is_null())
    codes = lookup[np.where(missing, 0, _array(column.indices))]
    return Coded(np.where(missing, index.setdefault(None, len(index)), codes), list(index), order)


def arrow_values(column: Any) -> NDArray[Any]:
    """Return a column of Arrow's as numbers; as objects, with None for what is missing, where not all are numbers."""
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    plain = pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
    if plain and column.null_count == 0:
        return _array(column)
    return as_objects(column.to_pylist())


def _array(column: Any) -> NDArray[Any]:
    """Return numbers or Booleans as numpy has them, anything where one is missing, without importing pandas."""
    if pa.types.is_boolean(column.type):
        return _array(column.cast(pa.uint8())).view(np.bool_)
    letter = "f" if pa.types.is_floating(column.type) else "i" if pa.types.is_signed_integer(column.type) else "u"
    kind = np.dtype(f"{letter}{column.type.bit_width // 8}")
    _, values = column.buffers()
    if values is None:  # of no rows
        return np.empty(0, kind)
    return np.frombuffer(values, kind, len(column), column.offset * kind.itemsize)


def as_objects(entries: list[Any]) -> NDArray[Any]:
    """Keep each entry, bytes as text, so that an error can show it; numpy.array would turn a mixture into text."""
    texts = (canonical(entry, site=True) if isinstance(entry, bytes) else entry for entry in entries)
    return np.fromiter(texts, dtype=object, count=len(entries))


def arrow_piece(batch: Any, names: Mapping[str, Any], numbers: Sequence[str], texts: Sequence[str]) -> Piece:
    """Return the rows of a batch of Arrow's, whose columns have these `names`; `InputError` for what is no column."""
    return Piece(
        {name: arrow_values(batch.column(names[name])) for name in numbers},
        {name: _coded_column(name, batch.column(names[name])) for name in texts},
    )


def _coded_column(name: str, column: Any) -> Coded:
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    try:
        return coded(column)
    except pa.ArrowNotImplementedError:
        kind = column.type
        raise InputError(f"column {name!r} holds {kind} entries, and not one text or number for each row") from None

"""Columns of Arrow, of numpy and of Python as pieces: what readers of all kinds of files yield."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.rows.entries import Coded, as_coded, canonical, number_of, site_names
from fhe_auc.rows.pieces import Piece

_EXACT = 2**53  # below it, float64 tells whole numbers apart
_FEW = 256  # neighbouring integers, which are codes as they are


def piece_of(columns: Mapping[str, Any], numbers: Sequence[str], texts: Sequence[str], decimal: str = ".") -> Piece:
    """Return columns, each one of Arrow's, an array or a list, as a piece; `decimal` is the mark of numbers in text.

    Raises `InputError` for nested columns, and for numbers in text that are not to be read.
    """
    return Piece(
        {name: _values(columns[name], decimal) for name in numbers},
        {name: _texts(name, columns[name], decimal) for name in texts},
    )


def _values(column: Any, decimal: str) -> NDArray[Any]:
    """Return a column as numbers, NaN for what is missing; or as objects, with None, where some are no numbers."""
    if isinstance(column, pa.Array):
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.string()).cast(pa.float64())  # Arrow's own way is wrong in the last bit
        kind = column.type
        if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            values = _array(column)
            if not column.null_count:
                return values
            if values.dtype.kind not in "iu" or (values.max() <= _EXACT and values.min() >= -_EXACT):
                return np.where(_array(column.is_null()), np.nan, values)
        column = column.to_pylist()
    elif isinstance(column, np.ndarray):
        if column.dtype.kind in "biuf":
            return column
        column = [*column]
    if any(issubclass(kind, (str, bytes)) for kind in set(map(type, column))):
        column = _plain(column, decimal)
    if (kinds := set(map(type, column))) <= {int, float, Decimal, type(None)}:
        values = np.array(column, np.float64)
        if int not in kinds or not (np.abs(values) >= _EXACT).any():
            return values
    return _objects(column)


def _plain(entries: list[Any], decimal: str) -> list[Any]:
    """Return entries with numbers for texts of such, and None for those that count as missing."""
    entries = [entry.decode(errors="backslashreplace") if isinstance(entry, bytes) else entry for entry in entries]
    texts = [entry.strip() for entry in entries if isinstance(entry, str)]
    for marks, pattern, told in _MISWRITTEN:
        if decimal in marks and (odd := next(filter(re.compile(pattern).fullmatch, texts), None)):
            raise InputError(told.format(odd, odd.replace(",", ""), odd.replace(",", ".")))
    read = ((entry, number_of(entry, decimal) if isinstance(entry, str) else entry) for entry in entries)
    return [entry if number is None and canonical(entry) else number for entry, number in read]


_MISWRITTEN = (  # with which decimal mark, what, and what to say of it; in 1,200 a comma may part thousands
    (".", r"\W?(?![1-9]\d{0,2},\d{3}$)\d+,\d+", "{0!r} has a decimal comma; say so with --decimal ,"),
    (".", r"\W?\d+,\d+", "{0!r} may be {1} or {2}: write numbers with a decimal point, and thousands plain"),
    (",", r"\W?\d+(\.\d+)+(,\d+)?", "{0!r} has a point, and the decimal mark is a comma: remove points for thousands"),
    (".,", r"\W?\d+([.,]\d+)?\s*[%\uff05]", "{0!r} has a percent sign; remove it and give --score-scale percent"),
)


def _texts(name: str, column: Any, decimal: str) -> Coded:
    if isinstance(column, list):
        try:
            column = pa.array(column)  # of one type: the fast way
        except (pa.ArrowException, UnicodeError, OverflowError):
            column = _objects(column)
    if isinstance(column, pa.ExtensionArray):  # of UUIDs
        column = _objects(column.to_pylist())
    if not isinstance(column, pa.Array):
        return as_coded(column, decimal)
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    try:
        return coded(column, decimal)
    except pa.ArrowNotImplementedError:
        kind = column.type
        raise InputError(f"column {name!r} holds {kind} entries, and not one text or number for each row") from None


def coded(column: Any, decimal: str = ".") -> Coded:
    """Return a column of Arrow's, of any type that it can encode, as text; `decimal` is the mark of numbers in it."""
    if pa.types.is_integer(column.type) and len(column) and not column.null_count:
        numbers = _array(column)
        least, most = int(numbers.min()), int(numbers.max())
        if most - least < _FEW and least >= -(2**31) and most < 2**31:
            return Coded(numbers.astype(np.int32) - np.int32(least), list(map(str, range(least, most + 1))))
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    found, kind = column.dictionary, column.type.value_type
    values = _array(found) if pa.types.is_float32(kind) else found.to_pylist()  # 0.1 of 32 bits is 0.1
    names = site_names(values, decimal)
    order = tuple(name for name in names if name is not None) if column.type.ordered else ()
    codes = _array(column.indices)
    if column.indices.null_count:
        codes = np.where(_array(column.indices.is_null()), len(names), codes)
    return Coded(codes.astype(np.int32, copy=False), [*names, None], order)


def _array(column: Any) -> NDArray[Any]:
    """Return numbers or Booleans as numpy has them, anything where one is missing, without importing pandas."""
    if pa.types.is_boolean(column.type):
        return _array(column.cast(pa.uint8())).view(np.bool_)
    letter = "f" if pa.types.is_floating(column.type) else "i" if pa.types.is_signed_integer(column.type) else "u"
    kind = np.dtype(f"{letter}{column.type.bit_width // 8}")
    _, values = column.buffers()
    if values is None:  # of no rows
        return np.zeros(len(column), kind)
    return np.frombuffer(values, kind, len(column), column.offset * kind.itemsize)


def _objects(entries: list[Any]) -> NDArray[Any]:
    """Keep each entry as it is; numpy.array would turn a mixture into text."""
    return np.fromiter(entries, object, len(entries))

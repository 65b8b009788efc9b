"""Options of Python's functions as plain values, whatever library these come from: numpy, pandas, Arrow or polars."""

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from numbers import Rational, Real
from typing import Any, ParamSpec, TypeAlias, TypeVar, get_args

import numpy as np

from fhe_auc.base.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")
Kind: TypeAlias = Callable[[Any, str], Any]
"""Returns a value that is `plain` as what an option of this name takes, or raises `InputError`, which names it."""

_NUMBERS: tuple[Any, ...] = (Real, Decimal)
_WHOLE: tuple[Any, ...] = (Rational, Decimal)
SCALARS = (str, bytes, *_NUMBERS)  # of which messages tell the value; of all else the type, as it may hold rows
_UNPACKING = ("as_py", "to_pylist", "tolist", "to_list")  # of Arrow, polars, numpy and whoever is like it


def plain(value: Any) -> Any:
    """Return a scalar or a column of any library as Python's own value, or a list of these; all else as it is."""
    if type(value).__name__ == "MaskedConstant":  # which would become None
        return value
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim else plain(value[()])
    if isinstance(value, np.floating):
        return float(str(value))  # 0.1 of 32 bits is 0.1
    name = next((name for name in _UNPACKING if hasattr(type(value), name)), None)
    return value if name is None else getattr(value, name)()


def refused(name: str, what: str, value: object) -> InputError:
    """Return the error of an option that is not what it must be."""
    told = value is None or (isinstance(value, SCALARS) and not (isinstance(value, int) and abs(value) >= 2**63))
    got = reprlib.repr(value) if told else type(value).__name__
    return InputError(f"{name} must be {what}, got {got}")


def text(value: object, name: str, what: str = "text") -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise refused(name, what, value)
    return str.__str__(value)  # of an enumeration its value


def flag(value: object, name: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise refused(name, "True or False", value)
    return value


def number(value: Any, name: str) -> float:
    """Return a number as float64; Booleans and texts are none."""
    with suppress(ValueError, OverflowError):
        if type(value) is not bool and isinstance(value, _NUMBERS) and (found := float(value)) == found:
            return found
    raise refused(name, "a number", value)


def count(value: Any, name: str) -> int:
    """Return a whole number below 2^63; no float is one, whatever its value."""
    with suppress(ValueError, OverflowError):
        if type(value) is not bool and isinstance(value, _WHOLE) and int(value) == value and abs(value) < 2**63:
            return int(value)
    raise refused(name, "below 2^63" if type(value) is int else "a whole number", value)


OF_TYPE: Mapping[type, Kind] = {bool: flag, int: count, float: number, str: text}


def several(values: Any, name: str, kind: Kind, what: str) -> list[Any]:
    """Return values of a kind as a list: of no text, which is a sequence of letters, nor a set, which has no order."""
    if isinstance(values, (str, bytes, Mapping, set, frozenset)) or not isinstance(values, Iterable):
        raise refused(name, what, values)
    return [kind(plain(value), name) for value in values]


def one_or_several(kind: Kind, what: str) -> Kind:
    """Return the kind of one value, or of a list of such, as a list; `what` both are."""

    def converted(value: object, name: str) -> list[Any]:
        if not isinstance(value, SCALARS):
            return several(value, name, kind, what)
        try:
            return [kind(value, name)]
        except InputError:
            raise refused(name, what, value) from None

    return converted


def converts(kinds: Mapping[str, Kind]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function: arguments and defaults become plain values of their kinds; None stays where it may.

    It raises `InputError` for a value that is none of its kind, before anything else.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = inspect.signature(function).parameters
        defaults = {name: own.default for name, own in known.items() if name in kinds and own.default is not own.empty}
        optional = {name for name, own in known.items() if type(None) in get_args(own.annotation)}

        def made(name: str, value: object) -> Any:
            as_it_is = name not in kinds or (value is None and name in optional)
            return value if as_it_is else kinds[name](plain(value), name)

        @functools.wraps(function)
        def converted(*args: P.args, **given: P.kwargs) -> R:
            named = {name: made(name, value) for name, value in {**defaults, **given}.items()}
            return function(*map(made, known, args), **named)

        return converted

    return decorate

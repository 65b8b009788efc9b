"""Options of Python's functions as plain values, whatever library these come from: numpy, pandas, Arrow or polars."""

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Rational, Real
from typing import Any, ParamSpec, TypeAlias, TypeVar, get_args

from fhe_auc.base.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")
Kind: TypeAlias = Callable[[Any, str], Any]
"""Returns a value that is `plain` as what an option of this name takes, or raises `InputError`, which names it."""

_NUMBERS = (Real, Decimal)
SCALARS = (str, bytes, *_NUMBERS)  # of which messages tell the value; of all else the type, as it may hold rows
_UNPACKING = ("as_py", "to_pylist", "to_list", "tolist")  # of Arrow, polars, numpy and whoever is like it


def plain(value: Any) -> Any:
    """Return a scalar or a column of any library as Python's own value, or a list of these; all else as it is."""
    found = (name for name in _UNPACKING if hasattr(type(value), name))
    if (name := next(found, None)) is None or type(value).__name__ == "MaskedConstant":  # which would become None
        return value
    return getattr(value, name)()


def refused(name: str, what: str, value: object) -> InputError:
    """Return the error of an option that is not what it must be."""
    told = value is None or (isinstance(value, SCALARS) and not (isinstance(value, int) and abs(value) >= 2**63))
    got = reprlib.repr(value) if told else f"a {type(value).__name__}"
    return InputError(f"{name} must be {what}, got {got}")


def text(value: object, name: str, what: str = "text") -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise refused(name, what, value)
    return str.__str__(value)  # of an enumeration its value


def column(value: object, name: str) -> str:
    """Return the name of a column."""
    return text(value, name, "the name of a column, as text (rename columns with others)")


def flag(value: object, name: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise refused(name, "True or False", value)
    return value


def number(value: Any, name: str) -> float:
    """Return a number as float64; Booleans and texts are none."""
    found = None if isinstance(value, bool) or not isinstance(value, _NUMBERS) else _made(float, value)
    if found is None or found != found:
        raise refused(name, "a number", value)
    return found


def count(value: Any, name: str) -> int:
    """Return a whole number below 2^63; no float is one, whatever its value."""
    found = None if isinstance(value, bool) or not isinstance(value, (Rational, Decimal)) else _made(int, value)
    if found is None or found != value:
        raise refused(name, "a whole number", value)
    if abs(found) >= 2**63:
        raise refused(name, "below 2^63", value)
    return found


def _made(kind: Callable[[Any], R], value: object) -> R | None:
    """Return a number of this type, None where there is none: of an infinite Decimal, or of hundreds of digits."""
    try:
        return kind(value)
    except (ValueError, OverflowError):
        return None


def several(values: Any, name: str, kind: Kind, what: str) -> list[Any]:
    """Return values of a kind as a list: of no text, which is a sequence of letters, nor a set, which has no order."""
    if isinstance(values, (str, bytes, Mapping, set, frozenset)) or not isinstance(values, Iterable):
        raise refused(name, what, values)
    return [kind(plain(value), name) for value in values]


def one_or_several(kind: Kind, what: str) -> Kind:
    """Return the kind of one value, or of a list of such; `what` both are."""

    def converted(value: object, name: str) -> Any:
        if not isinstance(value, SCALARS):
            return several(value, name, kind, what)
        try:
            return kind(value, name)
        except InputError:
            raise refused(name, what, value) from None

    return converted


def converts(kinds: Mapping[str, Kind]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function: keywords become plain values of their kinds first; None stays where a keyword may be it.

    It raises `InputError` for a value that is none of its kind, before anything else.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = inspect.signature(function).parameters.items()
        optional = {name for name, own in known if type(None) in get_args(own.annotation)}

        @functools.wraps(function)
        def converted(*args: P.args, **given: P.kwargs) -> R:
            for name, value in given.items():
                if name in kinds and not (value is None and name in optional):
                    given[name] = kinds[name](plain(value), name)
            return function(*args, **given)

        return converted

    return decorate

"""Entries of columns, as files and data frames have them: labels, levels, names and numbers, checked one by one."""

from __future__ import annotations

import re
import reprlib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.names import alike


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of text: its names (None: missing), which may be the same, and for each row the index of its own.

    `order` are the levels of an ordered categorical, in their order; there are none otherwise. Where names are labels
    of values, `stored` has the values that the file has in their stead, by label. `taken` are the texts that `levels`
    has taken for missing, by their codes.
    """

    codes: NDArray[np.int32]
    names: Sequence[str | None]
    order: tuple[str, ...] = ()
    stored: Mapping[str, str] = field(default_factory=dict)
    taken: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.codes)

    def chosen(self, rows: NDArray[Any] | slice) -> Coded:
        """Return the column at some rows."""
        return replace(self, codes=self.codes[rows])

    def levels(self) -> Coded:
        """Return the column as one that names no sites: NA and the like are missing in it."""
        own = self.named()
        taken = {code: name for code, name in own.items() if _is_missing(name.lower())}
        changed = {code: canonical(name) for code, name in own.items() if name[0] in WIDTHLESS or name[-1] in WIDTHLESS}
        if not taken and not changed:
            return self
        changed |= dict.fromkeys(taken)
        return replace(self, names=[changed.get(code, name) for code, name in enumerate(self.names)], taken=taken)

    def named(self) -> dict[int, str]:
        """Return the names that occur, by their codes, ascending."""
        present = np.flatnonzero(np.bincount(self.codes, minlength=1)).tolist()
        return {code: name for code in present if (name := self.names[code]) is not None}


def one_dimensional(values: ArrayLike, title: str, what: str) -> NDArray[Any]:
    """Return a column as an array, shape (n,), None where an entry is masked; raise `InputError` for other shapes."""
    kind = type(values).__name__
    try:
        array = values if isinstance(values, np.ndarray) else np.asarray(values)
        if array is not values and array.dtype.kind not in "biuf":  # numpy may have made numbers beside a text text
            array = np.asarray(values, dtype=object)
    except Exception as error:  # each library has its own
        told = f"{kind} makes no array of one dimension ({type(error).__name__}): convert it to one of numpy first"
        raise InputError(f"{title}: {what}: {told}") from None
    if not array.ndim:
        raise InputError(f"{title}: {what} must be one-dimensional, an entry for each row, got {kind}")
    if array.ndim > 1:
        remedy = "give one column, as predict_proba(X)[:, 1]; a table has it once"
        raise InputError(f"{title}: {what} must be one-dimensional, but have shape {array.shape}: {remedy}")
    if (mask := getattr(array, "mask", None)) is not None:
        array = np.array(array.tolist(), object) if np.any(mask) else np.asarray(array)
    return array


def coded_entries(
    values: NDArray[Any] | Coded, what: str, refuse: Callable[[int, str], InputError], names: Sequence[str] = ()
) -> NDArray[np.uint8]:
    """Return each entry's index in `names`, or refuse the first that is none of them; without names, labels 0 and 1."""
    coded = _present(values, what, refuse, ": give such rows a level of their own" if names and what != "event" else "")
    index = {canonical(name): code for code, name in enumerate(names)} or _LABELS
    for code, name in enumerate(names):
        if (other := index[canonical(name)]) != code:
            raise InputError(f"{what} {name!r} is also written {names[other]!r}: write it in one way")
    known = [index.get(name, index.get(coded.stored.get(name or ""), -1)) for name in coded.names]
    found = np.array(known or [0], np.int16)[coded.codes]
    row = _first(found < 0)
    if row is not None:
        entry = coded.names[coded.codes[row]] if isinstance(values, Coded) else values[row]
        possible = f", and can only be {', '.join(map(repr, names))}" if names else f"; {what}s must be 0 or 1"
        raise refuse(row, f"{what} is {shown_entry(entry)}{possible}")
    return frozen(found.astype(np.uint8))


def _present(
    values: NDArray[Any] | Coded, what: str, refuse: Callable[[int, str], InputError], remedy: str = ""
) -> Coded:
    """Return a column as text, or refuse the first entry that is missing."""
    coded = values if isinstance(values, Coded) else as_coded(values).levels()
    row = _first(missing_entries(coded))
    if row is not None:
        word = coded.taken.get(int(coded.codes[row]))
        raise refuse(row, f"{what} is " + (f"{word!r}, which counts as " if word else "") + f"missing{remedy}")
    return coded


_LABELS: dict[str | None, int] = {"0": 0, "1": 1, "False": 0, "True": 1}
_MISSING_TEXTS = frozenset(
    (
        *("", "na", "n/a", "<na>", "nat", "null", "none", "nan", "-nan", "snan", "-nan(ind)", "?"),  # R, pandas, ARFF
        *(r"\n", "(null)", "[null]", "__hive_default_partition__", "<missing>", "<undefined>"),  # databases, Matlab
    )
)
_MISSING_FORMS = re.compile(
    r"\.[a-z_]?"  # SAS and Stata
    r"|#(?:n/?[adv]|n/a n/a|[^\w\s]?[\w/]+[!?])"  # spreadsheets, with their errors, in their languages
    r"|-?1\.#(?:ind|[qs]nan|nan|j)0*"  # NaN, as Windows has written it
)
"""What stands for a missing entry in any column but that of sites, in small letters."""
_NO_NAMES = frozenset(("", "nan", "<na>", "nat"))  # as numpy and pandas write what is missing

WIDTHLESS = "\0\u00ad\u200b\u200c\u200d\u2060\ufeff"
_MINUSES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-"))
_NUMBER = re.compile(r"(-?)(?=\.?\d)(0|[1-9]\d*)?(\.\d*)?([eE](?:[-+]\d{1,2}|0|(?(3)\d{1,2}|(?!))))?", re.ASCII)

_SHORTENED = re.compile(
    r"\s*-?\d(?:[.,](\d*))?[eE]\+(\d{3,}|[2-9]\d|1[1-9])\s*", re.ASCII
)  # 10^11 or more, as in Excel


def canonical(entry: object, *, decimal: str = ".", site: bool = False) -> str | None:
    """Return a label, level, class, site or patient as the text that all spellings share; None where it is missing.

    This is how values of options are compared with rows. Blanks at the ends do not count, nor whether an accent is a
    character of its own. Whole numbers are as 1, whether 1.0, "1.00" or "1e+00", and of any type; other numbers in text
    are left as they are, as 250.1 and 250.10 may be two codes; so are 007, +1 and 1E50. `decimal` is their mark in
    text. True is "True", in text of any case too. Bytes are text in UTF-8; what is none keeps its bytes as escapes, and
    so apart. Missing are None, NaN, texts such as NA and ".a", and an error of a spreadsheet.

    With `site` it may be the name of a site: NA and the like are names, and characters that take no room stay.
    """
    text = (entry if isinstance(entry, str) else _text_of(entry)).strip()
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if not site and not text.isalnum():
        text = text.strip(WIDTHLESS).strip()
    low = text.lower()
    if low in _NO_NAMES or (not site and _is_missing(low)):
        return None
    return low.capitalize() if low in ("true", "false") else _one_spelling(text, decimal)


def _is_missing(low: str) -> bool:
    return low in _MISSING_TEXTS or (low[0] in ".#-1" and _MISSING_FORMS.fullmatch(low) is not None)


def _text_of(entry: object) -> str:
    """Return an entry that is no text as one; numbers as Python writes whole ones, or floats."""
    if isinstance(entry, np.floating) and not isinstance(entry, float):
        entry = float(str(entry))  # 0.1 of 32 bits is 0.1
    entry = plain_entry(entry)
    if isinstance(entry, (bytes, bytearray)):
        return entry.decode(errors="backslashreplace")
    if isinstance(entry, (bool, int)):
        return str(entry)
    try:
        numerator, denominator = entry.as_integer_ratio()  # type: ignore[attr-defined]
        if denominator == 1:
            return str(numerator)
        short = repr(float(entry))  # type: ignore[arg-type]
        return short if type(entry)(short) == entry else str(entry)  # type: ignore[call-arg]
    except (AttributeError, ValueError, OverflowError):  # no number, or none that is finite
        return "" if entry is None else str(entry)


def _one_spelling(text: str, decimal: str) -> str:
    """Return a number in text with a plain minus and a point, and a whole one as such; other text as it is."""
    if text.isascii() and (text.isdecimal() or not (text[:1].isdigit() or text[:1] in "-.,")):
        return text
    plain = text.translate(_MINUSES)
    if decimal == ",":
        plain = plain.replace(".", " ").replace(",", ".")  # a point is no mark then
    if (number := _NUMBER.fullmatch(plain)) is None:
        return text
    sign, digits, fraction, exponent = number.groups(default="")
    if exponent:
        whole = float(plain)
        return str(int(whole)) if whole.is_integer() and abs(whole) < 2**53 else plain
    return plain if fraction.strip(".0") else sign * (digits not in ("", "0")) + (digits or "0")


def number_of(text: str, decimal: str = ".") -> float | None:
    """Return the number that a text is, None where it is none: as Python reads it, but with any minus, and no 1_000.

    `decimal` is "." or ","; with a comma, a number with a point is none. What counts as missing is no number.
    """
    plain = text if text.isascii() else text.strip().strip(WIDTHLESS).translate(_MINUSES)
    if decimal == ",":
        plain = plain.replace(".", "_").replace(",", ".")
    try:
        number = float("_" if "_" in plain else plain)
    except ValueError:
        return None
    return number if number == number else None


def missing_entries(values: NDArray[Any] | Coded) -> NDArray[np.bool_]:
    """Return which entries of a column, shape (n,), are missing."""
    if isinstance(values, Coded):
        return np.array([name is None for name in values.names] or [False])[values.codes]
    if values.dtype.kind in "biuf":
        return np.asarray(np.isnan(values))
    return np.fromiter((canonical(entry) is None for entry in values.tolist()), np.bool_, len(values))


def site_name(entry: object) -> str | None:
    """Return an entry of a column that may be that of sites, as `canonical`."""
    return canonical(entry, site=True)


def site_names(entries: Iterable[object], decimal: str = ".") -> list[str | None]:
    """Return `site_name` of each; raise `InputError` for a number so large that others may have become the same."""
    found = list(entries)
    if (odd := next(filter(_has_lost_digits, found), None)) is not None:
        told = "has lost digits, as floats and Excel's 1.23457E+15 do, and other ids may have become the same"
        raise InputError(
            f"{odd if isinstance(odd, str) else f'{odd:.0f}'} {told}: have them as text, from their source"
        )
    return [canonical(entry, decimal=decimal, site=True) for entry in found]


def _has_lost_digits(entry: Any) -> bool:
    if isinstance(entry, str):
        number = _SHORTENED.fullmatch(entry) if "+" in entry else None
        return number is not None and (len(number[1] or "") < int(number[2]) or int(number[2]) > 15)
    is_float = isinstance(entry, (float, np.floating))
    return is_float and bool(2 << np.finfo(type(entry)).nmant <= abs(entry) < np.inf)


def as_coded(entries: NDArray[Any], decimal: str = ".") -> Coded:
    """Return a column, shape (n,), as text, in which numbers have this decimal mark."""
    if entries.dtype.kind in "biuf":
        distinct, of_row = np.unique(entries, return_inverse=True)
        return Coded(of_row.astype(np.int32), site_names(distinct))
    values, index = entries.tolist(), dict[tuple[type, Any], int]()  # with types, as True is 1 to a dict
    pairs = zip(map(type, values), values, strict=True)
    of_row = np.fromiter((index.setdefault(pair, len(index)) for pair in pairs), np.int32, len(values))
    return Coded(of_row, site_names((entry for _, entry in index), decimal))


def known_codes(
    values: NDArray[Any] | Coded, what: str, refuse: Callable[[int, str], InputError], known: dict[str, int]
) -> NDArray[np.int32]:
    """Return the code of each entry in `known`, which new ones are added to as they come, or refuse a missing one."""
    coded = _present(values, what, refuse)
    first, codes = np.zeros((2, len(coded.names)), np.int32)
    first[coded.codes[::-1]] = np.arange(len(coded))[::-1]
    for code, name in sorted(coded.named().items(), key=lambda item: first[item[0]]):
        codes[code] = known.setdefault(name, len(known))
    return frozen(codes[coded.codes])


def require_one_spelling(labels: Iterable[str], column: str, what: str = "label", also: str = "") -> None:
    """Raise `InputError` for labels that differ in case, blanks, or how a number is written alone."""
    seen: dict[object, str] = {}
    for label in labels:
        number = number_of(label)
        looks = "".join(alike(label).split()) if number is None else number
        if (first := seen.setdefault(looks, label)) != label:
            told = f"{what} {first!r} is also written {label!r}: write it in one way, so that all its rows count alike"
            raise InputError(told + also, column=column)


def finite_numbers(
    values: NDArray[Any], what: str, refuse: Callable[[int, str], InputError], *, least: float = -np.inf
) -> NDArray[np.float64]:
    """Return the entries as read-only float64, shape (n,), or refuse the first that is none, or changes as such.

    Decimals and fractions are rounded to the nearest, as numbers in text are. Refused are also those below `least`.

    `what` is what an entry is, for the message; `refuse` makes the error from a row (from 0) and what is wrong with it.
    """
    numbers = values if values.dtype.kind in "biuf" else _numbers_of(values, what, refuse)
    row = _first(~np.isfinite(numbers))
    if row is not None:
        wrong = f"{shown_entry(numbers[row])}; {what}s must be finite"
        raise refuse(row, f"{what} is {'missing' if np.isnan(numbers[row]) else wrong}")
    if (row := _first(numbers < least)) is not None:
        raise refuse(row, f"{what} is {shown_entry(numbers[row])}; {what}s must be {least:g} or more")
    if numbers.dtype == np.float64:
        return frozen(numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        scores = numbers.astype(np.float64)
        # Rounding could make ties or reach infinity: integers beyond 2^53 and long doubles.
        row = _first(scores.astype(numbers.dtype) != numbers)
    if row is not None:
        raise refuse(row, f"{what} is {shown_entry(numbers[row])}, which float64 cannot hold exactly")
    return frozen(scores)


def _numbers_of(values: NDArray[Any], what: str, refuse: Callable[[int, str], InputError]) -> NDArray[np.float64]:
    """Return entries of any types as float64, or refuse the first that is missing, no number or too large for that."""
    numbers = np.empty(len(values), dtype=np.float64)
    for row, entry in enumerate(values):
        number: Any = plain_entry(entry)
        if (not isinstance(number, (int, float)) and canonical(number) is None) or number != number:
            raise refuse(row, f"{what} is missing")
        if isinstance(number, str):
            number = number if (read := number_of(number)) is None else read
        if not hasattr(number, "as_integer_ratio"):
            raise refuse(row, f"{what} is {shown_entry(number)}, which is not a number")
        if not isinstance(number, float) and abs(number) > 2**53:  # float64 no longer tells neighbours apart
            raise refuse(row, f"{what} is {shown_entry(number)}, which is too large")
        numbers[row] = number
    return numbers


def _first(flags: NDArray[np.bool_]) -> int | None:
    return int(flags.argmax()) if flags.any() else None


def plain_entry(entry: object) -> object:
    """Return numpy's numbers and texts, and Arrow's scalars, as Python's own; no dates, which numpy counts."""
    if hasattr(entry, "as_py"):
        return entry.as_py()
    return entry.item() if isinstance(entry, np.generic) and entry.dtype.kind in "biufcUS" else entry


def shown_entry(value: object) -> str:
    """Return an entry for a message, on one line, and not all of a long one."""
    return reprlib.repr(plain_entry(value))


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only copy."""
    copy = np.array(array)  # subclasses are not kept
    copy.flags.writeable = False
    return copy

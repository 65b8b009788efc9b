"""Rows that count more than once, or in part: the column of their weights, and what is public of these.

A session adds up integers. So a weight is a multiple of a step, 1/`per`; a party rounds it to the nearest one. The
bound on one weight is public, as parameters and proofs depend on it; weights themselves do not leave a party.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import msgspec

from fhe_auc.base.errors import InputError
from fhe_auc.base.names import QUOTED, names_in

MOST_UNITS = 2**24  # that one weight may have
DEFAULT_PER = 1000
_POWERS = tuple(10**power for power in range(7))
_TINY = 1e-6  # of a step, by which a bound may be off as float64


class Units(NamedTuple):
    """Fixed point: a weight of 1 has `per` units, and no weight has more than `most`."""

    most: int
    per: int


class Weights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of weights: each a multiple of 1/`per`, which is a power of ten, with at most `most` such units.

    Raises `InputError` where that cannot be.
    """

    column: str
    most: int
    per: int = DEFAULT_PER

    def __post_init__(self) -> None:
        if self.per not in _POWERS or not self.per <= self.most <= MOST_UNITS:
            raise InputError(
                f"weights in column {self.column!r}: their step is 1, 0.1 … or 0.000001, and the most that one may be "
                f"lies between 1 and {MOST_UNITS:,} steps; multiply all weights by one number, which changes no AUC, "
                "or take another step"
            )


def weights_of(weight_column: str) -> Weights | None:
    """Return the weights of "NAME=MOST" or "NAME=MOST,STEP", None of no text; `InputError` for what is neither."""
    if not weight_column:
        return None
    column, numbers = named_values(weight_column)
    try:
        most, step = (*map(float, numbers), 1 / DEFAULT_PER)[: max(2, len(numbers))]
    except ValueError:
        raise InputError(
            f"column of weights {weight_column!r}: give its name and the most that one weight may be, which is public, "
            "as NAME=50; and the step to which weights are rounded, if it is not 0.001, as NAME=50,0.01"
        ) from None
    return checked_weights(column, most, step)


def checked_weights(column: str, most: float, step: float = 1 / DEFAULT_PER) -> Weights:
    """Return a column of weights of at most `most`, in steps of `step`; errors as `Weights`."""
    per = round(1 / step) if step > 0 else 0
    return Weights(column, math.ceil(min(MOST_UNITS + 1, most) * per - _TINY), per)


def named_values(text: str) -> tuple[str, tuple[str, ...]]:
    """Return name and values of "NAME=VALUE,VALUE"; what has a comma or an equals sign of its own is within quotes."""
    found = re.match(rf"{QUOTED}=|(?!{QUOTED}(?:,|$))[^,=]*=", text)
    names = names_in(text[: found.end() - 1] if found else text)
    if found and not any(names):
        raise InputError(f"{text!r}: a column's name is to stand before the equals sign")
    return names[0] if len(names) == 1 else text.strip(), names_in(text[found.end() :]) if found else ()

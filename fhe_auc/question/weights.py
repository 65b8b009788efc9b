"""Rows that count more than once, or in part: the column of their weights, and what is public of these.

A session adds up integers. So a weight is a multiple of a step, 1/`per`; a party rounds it to the nearest one. The
bound on one weight is public, as parameters and proofs depend on it; weights themselves do not leave a party.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from fhe_auc.base.errors import InputError

MOST_UNITS = 2**24  # that one weight may have
DEFAULT_PER = 1000
_POWERS = tuple(10**power for power in range(7))


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
                f"weights in column {self.column!r}: their steps are 1, 0.1 … 0.000001, and the most that one may be "
                f"is 1 at least, and {MOST_UNITS:,} steps at most; got {self.most / self.per:g} in steps of "
                f"{1 / self.per:g}"
            )

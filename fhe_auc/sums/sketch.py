"""A sketch: what a party contributes, named vectors of integers laid out one after another."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.rlwe.modular import Residues

MOST_ENTRIES = 2**20
MOST_CHARACTERS = 40


class Sketch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The vectors of a sketch: `InputError` or `CapacityError` for others."""

    vectors: tuple[tuple[str, int], ...]
    """Name and length of each, in order: different names of 1 to 40 printable ASCII characters, no empty vector, and at
    most 2^20 entries in all."""

    def __post_init__(self) -> None:
        check_names("vector", [name for name, _ in self.vectors])
        for name, length in self.vectors:
            if length < 1:
                raise InputError(f"vector {name!r} must have at least one entry, got {length}")
        if self.size > MOST_ENTRIES:
            raise CapacityError(f"a sketch has at most {MOST_ENTRIES:,} entries, got {self.size:,}")

    @property
    def size(self) -> int:
        """Entries of all vectors together."""
        return sum(length for _, length in self.vectors)

    def split(self, values: Residues) -> dict[str, Residues]:
        """Return the vectors, as views, of `values`, shape (…, size); raise ValueError for another shape."""
        if values.shape[-1:] != (self.size,):
            raise ValueError(f"a sketch has {self.size} entries, got shape {values.shape}")
        names, lengths = zip(*self.vectors, strict=True)
        return dict(zip(names, np.split(values, np.cumsum(lengths)[:-1], axis=-1), strict=True))


def check_names(what: str, names: list[str]) -> None:
    """Raise `InputError` unless there are names, all different, of 1 to 40 printable ASCII characters each."""
    if not names:
        raise InputError(f"there must be at least one {what}")
    for name in names:
        if not (0 < len(name) <= MOST_CHARACTERS and name.isascii() and name.isprintable()):
            raise InputError(
                f"{what} {name[:MOST_CHARACTERS]!a}: a name has 1 to {MOST_CHARACTERS} printable ASCII characters"
            )
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise InputError(f"{what} {repeated[0]!r} is there twice")

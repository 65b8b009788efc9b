"""A sketch: what a party contributes, named vectors of integers laid out one after another."""

from __future__ import annotations

import msgspec
import numpy as np

from fhe_auc.base.errors import CapacityError
from fhe_auc.rlwe.modular import Residues

MOST_ENTRIES = 2**20


class Sketch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The vectors of a sketch; `CapacityError` for more than 2^20 entries in all."""

    vectors: tuple[tuple[str, int], ...]
    """Name and length of each, in order: names differ, and no vector is empty."""

    def __post_init__(self) -> None:
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

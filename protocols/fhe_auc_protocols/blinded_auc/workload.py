"""What the parameters of a session with an encrypted AUC must carry."""

from __future__ import annotations

import msgspec

from fhe_auc.base.errors import CapacityError
from fhe_auc.question.thresholds import MAX_SIZE
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS, DEFAULT_MIN_ROWS, integer

MAX_SPLITS = 4

LEAST_EXTRA = 24
"""Positions of the extra element of split shares, at least: fewer could be guessed (docs/security/malicious.md)."""

_LEAST = {"thresholds": 1, "parties": 1, "classes": 1, "max_rows": 2, "min_rows": 2, "splits": 1}


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the parameters must carry: capacity holds up to max_rows pooled rows, precision from min_rows on.

    Raises `CapacityError`: a number is out of its range, or no integer.
    """

    thresholds: int
    """Decision points m, 1 to 2^20."""
    parties: int
    """Most that submit, at least 1."""
    classes: int = 2
    """Class totals computed at once, a power of two."""
    max_rows: int = DEFAULT_MAX_ROWS
    """Public bound on the pooled rows, at least `min_rows`."""
    min_rows: int = DEFAULT_MIN_ROWS
    """Public bound from below, at least 2."""
    splits: int = 1
    """S, 1 to 4: shares that a bin's counts are split into (`split_shares`), a position each; 1: counts are whole."""
    joint_keys: bool = False
    """False: a place in the format of manifests."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = integer(getattr(self, name))
            if value is None:
                raise CapacityError(f"{name} must be an integer, got {getattr(self, name)!r}")
            if value < least:
                raise CapacityError(f"{name} must be at least {least}, got {value}")
            msgspec.structs.force_setattr(self, name, value)
        if self.splits > MAX_SPLITS:
            raise CapacityError(f"splits must be at most {MAX_SPLITS}, got {self.splits}")
        if self.thresholds > MAX_SIZE:
            raise CapacityError(f"thresholds must be at most {MAX_SIZE}, got more")
        if self.classes & (self.classes - 1):
            raise CapacityError(f"classes must be a power of two, got {self.classes}")
        if self.max_rows < self.min_rows:
            raise CapacityError(f"max_rows must be at least min_rows = {self.min_rows}, got {self.max_rows}")

    @property
    def is_split(self) -> bool:
        """Whether parties split their counts into shares, against an aggregator that may lie."""
        return self.splits > 1

    @property
    def positions(self) -> int:
        """Bins that packing must have: one a threshold; with split shares S, and some for the extra element."""
        return self.splits * self.thresholds + LEAST_EXTRA if self.is_split else self.thresholds

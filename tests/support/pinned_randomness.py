"""Randomness that a test has pinned, for functions that take the module `secrets` otherwise."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Pinned:
    """Draws that are where a test wants them in their range: from 0, its lower end, to 1; None: from `secrets`."""

    bits: float | None = None
    below: float | None = None

    def randbits(self, k: int, /) -> int:
        return secrets.randbits(k) if self.bits is None else _at(self.bits, 2**k)

    def randbelow(self, exclusive_upper_bound: int, /) -> int:
        if self.below is None:
            return secrets.randbelow(exclusive_upper_bound)
        return _at(self.below, exclusive_upper_bound)


def _at(fraction: float, size: int) -> int:
    return min(int(Fraction(fraction) * size), size - 1)


LARGEST_MULTIPLIER = Pinned(bits=0)
SMALLEST_MULTIPLIER = Pinned(bits=1)
NO_BLUR = Pinned(below=0.5)

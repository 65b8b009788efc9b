"""Randomness that a test has pinned, for functions that take the module `secrets` otherwise."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Pinned:
    """Draws that are where a test wants them in their range: from 0, its lower end, to 1."""

    bits: float

    def randbits(self, k: int, /) -> int:
        return min(int(Fraction(self.bits) * 2**k), 2**k - 1)


LARGEST_MULTIPLIER = Pinned(bits=0)
SMALLEST_MULTIPLIER = Pinned(bits=1)

"""Counting by a sum of counts with shares of noise: distributed differential privacy.  [FCE] §2.2.

Each party adds Pólya shares to its counts and pads them; the sum, all that anybody sees, holds one discrete Laplace
variable a count, not one a party. Tags prove the sum, noise and all (`exact_counts`). A row that is replaced changes
all counts together by a readout's *sensitivity* Δ at most, so noise of scale Δ/ε on each makes them ε-private. Noise is
not cut at 0, where empty bins would add up. Shares are sized for n, one fewer than must take part, so that those of all
others than the reader add up to the noise promised in any session that may go on. The unit, the assumptions, and what
coalitions cost: docs/security/histograms.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc_protocols.exact_sampling import Source
from fhe_auc_protocols.histograms.readout import PrivateReadout
from fhe_auc_protocols.noise_shares import MOST_SCALE, polya, variance

_OVERFLOW = 2.0**-40
"""Probability that some count's noise exceeds the room for it, in one session: then a share is cut, or no result."""


@dataclass(frozen=True)
class SharedNoise:
    """The noise on every count of a session."""

    scale: Fraction
    shares: int  # n, that make up the noise promised
    room: int  # a bound on the noise of every sum, in all but very few sessions

    @classmethod
    def of(
        cls,
        readout: PrivateReadout[Any],
        options: Mapping[str, Any],
        thresholds: int,
        parties: int,
        min_parties: int,
        replaced: int = 1,
    ) -> "SharedNoise":
        """Return that of so many parties, of which some may be missing, where so many rows are `replaced`.

        Raises `InputError` for a bad budget.
        """
        budget, shares = readout.budget(options), max(1, min_parties - 1)  # one fewer: a party knows its own
        scale = readout.sensitivity * replaced / Fraction(budget)
        if scale > MOST_SCALE:
            raise InputError(f"epsilon = {budget:g} of this session is too small: its counts would be noise alone")
        room = noise_room(float(scale), entries=sum(readout.levels(thresholds)), parties=parties, shares=shares)
        return cls(scale, shares, room)

    def added(self, counts: NDArray[np.int64], most: int, source: Source | None = None) -> NDArray[np.int64]:
        """Return counts with a share of noise each, cut at `most` of either sign; without a source, a secure one's."""
        return np.clip(counts + polya(counts.size, self.scale, self.shares, source), -most, most)

    def settings(self, parties: int) -> dict[str, float]:
        """Return what there is to say of the noise of so many parties: s/n times the noise promised."""
        deviation = math.sqrt(variance(self.scale, parties / self.shares))
        return {"noise_deviation": deviation, "noise_scale": float(self.scale), "noise_shares": self.shares}


def noise_room(scale: float, *, entries: int, parties: int, shares: int) -> int:
    """Return a bound on the noise of every count, share and partial sum, which fails with probability 2^-40 at most.

    The sum of s shares of n is A − B, of two independent NB(s/n, p), p = e^(−1/scale), which are sums of numbers that
    are not negative. No share and no sum of shares is therefore larger in absolute value than the larger of the two. By
    Markov's inequality for p^(−A/2), P[A ≥ k] ≤ (1 + √p)^(s/n)·p^(k/2), and there are 2 of these a count.
    """
    moment = parties / shares * math.log1p(math.exp(-1 / (2 * scale)))
    return math.ceil(2 * scale * (moment - math.log(_OVERFLOW / (2 * entries))))

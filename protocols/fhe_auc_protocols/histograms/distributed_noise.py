"""Counting by a sum of counts with shares of noise: distributed differential privacy.  [FCE] §2.2.

Each party adds Pólya shares to its counts and pads them; the sum, all that anybody sees, holds one discrete Laplace
variable a count, not one a party. Tags prove the sum, noise and all (`exact_counts`). One row changes one count at each
of L levels by one, so noise of scale L/ε on each level makes all of them together ε-private. Shares are sized for n,
one fewer than must take part, so that those of all others than the reader add up to the noise promised in any session
that may go on. The unit, the assumptions, and what coalitions cost: docs/security/histograms.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc_protocols.histograms.readout import PrivateReadout
from fhe_auc_protocols.noise_shares import polya
from fhe_auc_protocols.options import checked_epsilon

_OVERFLOW = 2.0**-40
"""Probability that some count's noise exceeds the room for it, in one session: then a share is cut, or no result."""


@dataclass(frozen=True)
class SharedNoise:
    """The noise on every count of a session."""

    epsilon: float  # of a level
    shares: int  # n, that make up the noise promised
    room: int  # a bound on the noise of every sum, in all but very few sessions

    @classmethod
    def of(
        cls, readout: PrivateReadout[Any], options: Mapping[str, Any], thresholds: int, parties: int, min_parties: int
    ) -> "SharedNoise":
        """Return that of so many parties, of which some may be missing.

        Raises `InputError` where a level's part of the budget is missing, or not from 0.000001 to 32.
        """
        total, levels = readout.budget(options), readout.levels(thresholds)
        try:
            epsilon = checked_epsilon(total / levels)
        except InputError as error:
            raise InputError(f"epsilon = {total:g} over {levels} levels: {error}") from None
        shares = max(1, min_parties - 1)  # one fewer than must take part: a party knows its own
        return cls(epsilon, shares, noise_room(epsilon, bins=thresholds, parties=parties, shares=shares))

    def added(self, counts: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """Return counts with a share of noise each, cut at `most` of either sign."""
        scale = math.nextafter(1 / self.epsilon, math.inf)  # rounded to the private side
        return np.clip(counts + polya(counts.size, scale, self.shares), -most, most)

    def settings(self, parties: int) -> dict[str, float]:
        """Return what there is to say of the noise of so many parties: s/n times the noise promised, of one level.

        Its deviation is √(2 p s/n)/(1 − p), p = e^−ε.
        """
        deviation = math.sqrt(2 * parties / self.shares * math.exp(-self.epsilon)) / -math.expm1(-self.epsilon)
        return {"noise_deviation": deviation, "noise_parties": self.shares}


def noise_room(epsilon: float, *, bins: int, parties: int, shares: int) -> int:
    """Return a bound on the noise of every count, share and partial sum, which fails with probability 2^-40 at most.

    The sum of s shares of n is NB(s/n, p) − NB(s/n, p), two sums of numbers that are not negative. No share and no sum
    of shares is therefore larger in absolute value than the larger of the two. A session has at most two counts a bin,
    so that 4m of these are all there are.
    """
    require("dp")
    from scipy.stats import nbinom

    return int(nbinom.isf(_OVERFLOW / (4 * bins), parties / shares, -math.expm1(-epsilon))) + 1

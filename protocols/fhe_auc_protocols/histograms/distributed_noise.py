"""Counting by a sum of counts with shares of noise: distributed differential privacy.  [FCE] §2.2.

Each party adds Pólya shares to its counts and pads them; the sum, all that anybody sees, holds one discrete Laplace
variable a count, not one a party. Tags prove the sum, noise and all (`exact_counts`). One row changes one count at each
of L levels by one, so noise of scale L/ε on each level makes all of them together ε-private. Shares are sized for n =
`noise_parties`, so that those of all others than the reader add up to the noise promised in any session that may go on.
The unit, the assumptions, and what coalitions cost: docs/security/histograms.md.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.computation import PaddedTask
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.protocol import Request, Spending
from fhe_auc_protocols.histograms.exact_counts import CountsTask, ExactCounts
from fhe_auc_protocols.histograms.readout import PrivateReadout
from fhe_auc_protocols.noise_shares import polya
from fhe_auc_protocols.option_values import checked_epsilon

_OVERFLOW = 2.0**-40
"""Probability that some count's noise exceeds the room for it, in one session: then a share is cut, or no result."""


class DistributedNoise(ExactCounts[R]):
    """Base of the plug-ins that add up counts and shares of noise."""

    readout: PrivateReadout[R]

    def room_for_noise(self, request: Request) -> int:
        """Return a bound on the noise of every sum, in all but very few sessions."""
        least = len(request.parties) if request.min_parties is None else request.min_parties
        return noise_room(
            level_epsilon(self.readout, request.options, len(request.thresholds)),
            bins=len(request.thresholds),
            parties=len(request.parties),
            shares=noise_parties(least),
        )

    def spends(self, manifest: Manifest) -> Spending:
        """Return what this session spends: a row replaced is one removed and one added, so twice its ε."""
        return Spending(2 * self.readout.budget(manifest.options), "row")

    def new_task(self, manifest: Manifest, data: PartyData) -> PaddedTask[R]:
        """Return a party's computation on its own rows."""
        return NoisyCountsTask(self.readout, manifest, data)


class NoisyCountsTask(CountsTask[R]):
    """As `CountsTask`, with shares of noise."""

    def __init__(self, readout: PrivateReadout[R], manifest: Manifest, data: PartyData) -> None:
        thresholds = len(manifest.thresholds)
        self._epsilon = level_epsilon(readout, manifest.options, thresholds)
        self._shares = noise_parties(manifest.min_parties)
        room = noise_room(self._epsilon, bins=thresholds, parties=len(manifest.parties), shares=self._shares)
        super().__init__(readout, manifest, data, room_for_noise=room)

    def vector(self) -> NDArray[np.int64]:
        """Return the noisy counts."""
        counts = super().vector()
        scale = math.nextafter(1 / self._epsilon, math.inf)  # rounded to the private side
        noisy = counts + polya(counts.size, scale, self._shares)
        return np.clip(noisy, -self.plan.max_total, self.plan.max_total)

    def told(self, sums: NDArray[np.int64], counted: Sequence[str]) -> R:
        """Return what the pooled noisy counts say; errors as `Readout.read`."""
        deviation = noise_deviation(self._epsilon, len(counted) / self._shares)
        settings = {"noise_deviation": deviation, "noise_parties": self._shares}
        return self.outcome(self.levels(sums), len(counted), settings=settings)


def level_epsilon(readout: PrivateReadout[Any], options: Mapping[str, Any], thresholds: int) -> float:
    """Return each level's part of the budget, from 0.000001 to 32; raise `InputError` where it is missing or is not."""
    epsilon, levels = readout.budget(options), readout.levels(thresholds)
    try:
        return checked_epsilon(epsilon / levels)
    except InputError as error:
        raise InputError(f"epsilon = {epsilon:g} over {levels} levels: {error}") from None


def noise_parties(min_parties: int) -> int:
    """Return n: how many shares make up the noise promised. One fewer than must take part: a party knows its own."""
    return max(1, min_parties - 1)


def noise_deviation(epsilon: float, wholes: float) -> float:
    """Return √(2 p s/n)/(1 − p), p = e^−ε: the deviation of `wholes` s/n times the noise promised, of one level."""
    return math.sqrt(2 * wholes * math.exp(-epsilon)) / -math.expm1(-epsilon)


def noise_room(epsilon: float, *, bins: int, parties: int, shares: int) -> int:
    """Return a bound on the noise of every count, share and partial sum, which fails with probability 2^-40 at most.

    The sum of s shares of n is NB(s/n, p) − NB(s/n, p), two sums of numbers that are not negative. No share and no sum
    of shares is therefore larger in absolute value than the larger of the two. A session has at most two counts a bin,
    so that 4m of these are all there are.
    """
    require("dp")
    from scipy.stats import nbinom

    return int(nbinom.isf(_OVERFLOW / (4 * bins), parties / shares, -math.expm1(-epsilon))) + 1

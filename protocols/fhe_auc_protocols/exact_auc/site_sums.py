"""Sums over sites: what each party says of itself as a site, for each model, of its rows of labels 0 and 1.

The vector "sites m0" of a party's sketch has eleven entries, and each one's sum is released: D; P·N; 1 if there are
both labels; if the site's AUC has a standard error, 1, w, wθ, wθ², w², θ and θ² (`fhe_auc.results.heterogeneity`); and
(PN)²v/max_rows, with its AUC's variance v: at most max_rows². All but the first four are times 2^fraction_bits, the
last one is rounded up. w is at most the number of rows, |θ| at most 16: more would be an accident of few rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fhe_auc.results.heterogeneity import UsableSites
from fhe_auc.results.intervals import hanley_mcneil, of_bins
from fhe_auc.sums.terms import Factor, Sum
from fhe_auc_protocols.exact_auc.auc_sums import each_of, sum_of

_ENTRIES = ("D", "PN", "both", "usable", "w", "wt", "wtt", "ww", "t", "tt", "PNPNv")
_LARGEST_LOGIT = 16
_MOST_FRACTION_BITS = 20


@dataclass(frozen=True)
class PooledSites:
    """D, PN and (PN)²v of all sites' own pairs; how many sites have both classes; and the sums of the usable ones."""

    difference: int
    pairs: int
    both_classes: int
    usable: UsableSites
    variance: Fraction

    def possible(self, parties: int) -> bool:
        """Tell whether so many parties' entries can add up to this; a party can enter anything."""
        among = 0 <= self.usable.usable <= self.both_classes <= parties
        pairs = max(abs(self.difference), self.both_classes) <= self.pairs  # a site with both classes has one at least
        return among and pairs and self.usable.weight_square >= 0 and self.variance >= 0


@dataclass(frozen=True)
class SiteSums:
    """Those of so many models; with 0 there are none."""

    models: int

    @property
    def vectors(self) -> list[tuple[str, int]]:
        """Each model's vector, with its length."""
        return [(f"sites m{model}", len(_ENTRIES)) for model in range(self.models)]

    @property
    def sums(self) -> list[Sum]:
        """What is released."""
        picks = [Factor(constants=tuple(int(at == own) for at in _ENTRIES)) for own in _ENTRIES]
        return [
            sum_of(f"{name} m{model}", each_of([f"sites m{model}"]), pick)
            for model in range(self.models)
            for name, pick in zip(_ENTRIES, picks, strict=True)
        ]

    def entries(self, by_model: Sequence[NDArray[np.int64]], max_rows: int, modulus: int) -> list[NDArray[np.int64]]:
        """Return a party's vectors, of its rows of either label in each bin of each model's scores, shape (2, bins)."""
        return [_site(rows, max_rows, fraction_bits(max_rows, modulus)) for rows in by_model]

    def read(self, sums: Sequence[int], max_rows: int, modulus: int) -> list[PooledSites]:
        """Return what they say, for each model."""
        scale, given = 1 << fraction_bits(max_rows, modulus), iter(sums)
        found = []
        for _ in range(self.models):
            difference, pairs, both, usable, *scaled = (next(given) for _ in _ENTRIES)
            *weights, variance = (Fraction(each, scale) for each in scaled)
            found.append(PooledSites(difference, pairs, both, UsableSites(usable, *weights), variance * max_rows))
        return found


def fraction_bits(max_rows: int, modulus: int) -> int:
    """Return after how many binary places weights are rounded: sums need room, and entries stay below 2^62."""
    largest = max(max_rows**2, _LARGEST_LOGIT**2 * max_rows)
    room = min(modulus // (2 * largest), 2**62 // largest)
    return max(0, min(_MOST_FRACTION_BITS, room.bit_length() - 1))


def _site(rows: NDArray[np.int64], max_rows: int, bits: int) -> NDArray[np.int64]:
    found = np.zeros(len(_ENTRIES), np.int64)
    negatives, positives = rows
    ones, zeros = int(positives.sum()), int(negatives.sum())
    pairs = ones * zeros
    if not pairs:
        return found
    auc, standard_error = of_bins(positives, negatives)
    found[:3] = int((auc - Fraction(1, 2)) * 2 * pairs), pairs, 1
    own = hanley_mcneil(auc, ones, zeros) if standard_error is None else standard_error
    found[-1] = math.ceil((pairs * own) ** 2 / max_rows * 2**bits)
    if standard_error and 0 < auc < 1:
        weight = min((float(auc * (1 - auc)) / standard_error) ** 2, float(ones + zeros))
        theta = max(-_LARGEST_LOGIT, min(_LARGEST_LOGIT, math.log(auc / (1 - auc))))
        scaled = (weight, weight * theta, weight * theta**2, weight**2, theta, theta**2)
        found[3:-1] = 1, *(round(each * 2**bits) for each in scaled)
    return found

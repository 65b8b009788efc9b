"""Counting reports of rows that were each randomised on their own: local differential privacy.  [FCE] §2.2 and 2.3.

    round 1   a party sends how many of its rows' reports have each bit set, and how many rows reported on each level
    round 2   the sums go to all parties, who estimate the counts and answer with nothing

Nothing is encrypted, for reports are private already. What is public, what adds up, and that no lie is noticed:
docs/security/histograms.md.

**Optimised unary encoding (OUE)**: [OUE] Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency
estimation", USENIX Security 2017. A user's cell v of d is a vector of d bits, of which bit v alone is set. Each bit is
randomised on its own:

    P[report 1 | bit 1] = 1/2        P[report 1 | bit 0] = q = 1/(e^ε + 1)

Two vectors differ in two bits, and the probability of a report changes by a factor of at most (1 − q)/q = e^ε: ε-local
differential privacy of the cell.

Of n reports Y_v have bit v set. Ĉ_v = (Y_v − n q)/(1/2 − q) is unbiased for the number c_v of users in cell v, with

    Var Ĉ_v = (c_v/4 + (n − c_v) q (1 − q))/(1/2 − q)² = 4 n e^ε/(e^ε − 1)² + c_v

Probabilities are multiples of 2^-64: 1/2 exactly, and q rounded up, to the private side
(`fhe_auc_protocols.exact_sampling.threshold`).

**Several levels** ([FCE] §2.3): each user picks one of L levels at random, whatever its value, and sends one report
there, with the whole of ε. A level's n_k reports are of a random sample of the n users, so n/n_k times their estimate
is unbiased, given n_k, for the rows of all.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import DeserialisationError, EvaluationError
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.exact_sampling import Source
from fhe_auc_protocols.histograms.readout import INTERVAL, PooledCounts, PrivateReadout, ReadoutProtocol
from fhe_auc_protocols.options import checked_epsilon
from fhe_auc_protocols.unencrypted_protocol import MOST_ROWS, ClearSums, UnencryptedProtocol

_HALF = 2**63
_WORDS = 2**22  # drawn at a time


class UnaryEncoding:
    """OUE over d >= 1 cells, ε of a report from 0.000001 to 32; `InputError` for another ε."""

    def __init__(self, cells: int, epsilon: float) -> None:
        self.cells = cells
        self.epsilon = checked_epsilon(epsilon)
        self._below = exact_sampling.threshold(1, 1, self.epsilon)

    @property
    def flip_probability(self) -> float:
        """Chance q of a 1 where the bit is 0."""
        return exact_sampling.probability(self._below)

    def tally(self, cells: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
        """Randomise one report for each of n users, and return how many have each bit set, shape (d,).

        Cells, shape (n,), are from 0 to d − 1. The source is `exact_sampling.secure` where it protects someone.
        """
        total = np.zeros(self.cells, np.int64)
        for batch in np.array_split(cells, max(1, len(cells) * self.cells // _WORDS)):
            words = source.words(len(batch), self.cells)
            reports, users = words < np.uint64(self._below), np.arange(len(batch))
            reports[users, batch] = words[users, batch] < np.uint64(_HALF)
            total += reports.sum(axis=0)
        return total

    def estimate(self, tally: ArrayLike, reports: int) -> NDArray[np.float64]:
        """Return the unbiased estimate Ĉ of the users in each cell, shape (d,), from a tally of so many reports."""
        q = self.flip_probability
        return np.asarray((np.asarray(tally, np.float64) - reports * q) / (0.5 - q))

    def variance(self, counts: ArrayLike, reports: int) -> NDArray[np.float64]:
        """Return the variance of each estimate, shape (d,), where the cells hold so many of the users who report."""
        q, c = self.flip_probability, np.asarray(counts, np.float64)
        return np.asarray((c / 4 + (reports - c) * q * (1 - q)) / (0.5 - q) ** 2)


Levels: TypeAlias = tuple[UnaryEncoding, ...]
"""Highest first; each has half as many cells as the one below. A user reports on one of them, of its own choice."""


def levels_of(sizes: Sequence[int], epsilon: float) -> Levels:
    """Return the levels of so many cells each, for reports of ε."""
    return tuple(UnaryEncoding(cells, epsilon) for cells in sizes)


def tallies(levels: Levels, cells: NDArray[np.int64], source: Source) -> list[tuple[int, NDArray[np.int64]]]:
    """Randomise users in these cells of the lowest level, as `UnaryEncoding.tally`.

    Returns for each level how many reports there are, and with each bit set, shape (its cells,). Those of several
    parties add up.
    """
    chosen = exact_sampling.integers(source, len(levels), len(cells))
    of_levels = []
    for level, encoding in enumerate(levels):
        own = cells[chosen == level] >> (len(levels) - 1 - level)
        of_levels.append((len(own), encoding.tally(own, source)))
    return of_levels


def estimates(levels: Levels, reports: Sequence[int], ones: Sequence[ArrayLike]) -> list[NDArray[np.float64]]:
    """Return unbiased counts by level; `EvaluationError`: nobody has reported on some level."""
    if not all(reports):
        raise EvaluationError("no user has reported on some level; there are too few users for so many levels")
    of_levels = zip(levels, reports, ones, strict=True)
    return [encoding.estimate(own, number) * (sum(reports) / number) for encoding, number, own in of_levels]


class Tally(ClearSums, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Reports of one party's rows, or of all."""

    reports: list[int]  # on each level, highest first; a row reports on one of them
    ones: list[list[int]]
    """How many of them have each bit set, level by level; of the one level of a score histogram, positives in each bin,
    then negatives."""

    @classmethod
    def integers(cls, manifest: Manifest, terms: Levels) -> int:
        """Return how many integers a tally holds, lengths of lists included."""
        return sum(level.cells + 2 for level in terms) + 2

    def check(self, manifest: Manifest, terms: Levels) -> None:
        """Raise `DeserialisationError` where no rows can give these reports."""
        if not len(self.reports) == len(self.ones) == len(terms):
            raise DeserialisationError(f"tallies of {len(self.ones)} levels, of {len(terms)}")
        if min(self.reports) < 0 or not 0 < sum(self.reports) <= MOST_ROWS:
            raise DeserialisationError(f"tallies of {sum(self.reports)} rows, where there may be no more than 2^62")
        for reports, ones, level in zip(self.reports, self.ones, terms, strict=True):
            if len(ones) != level.cells or min(ones) < 0 or max(ones) > reports:
                raise DeserialisationError(f"these are not {level.cells} counts of at most as many reports as rows")


class LocalRandomisation(ReadoutProtocol[R], UnencryptedProtocol[R, Levels, Tally]):
    """Base of the plug-ins that count reports of randomised rows."""

    sums = Tally
    beside = frozenset([INTERVAL])

    readout: PrivateReadout[R]

    def terms(self, options: Mapping[str, Any], thresholds: int) -> Levels:
        """Return the session's encoding; raise `InputError` for a bad budget."""
        return levels_of(self.readout.levels(thresholds), self.readout.budget(options))

    def checked(self, manifest: Manifest) -> Levels:
        """Return the encoding of a manifest; raise `InputError` where it is not one of this protocol."""
        self.readout.check_manifest(manifest, self.name)
        return super().checked(manifest)

    def submission(self, manifest: Manifest, terms: Levels, data: PartyData) -> Tally:
        """Return tallies of reports, of rows that are randomised one by one."""
        counts = self.readout.count(data, manifest.thresholds)
        cells = np.repeat(np.arange(counts.size), counts)
        reports, ones = zip(*tallies(terms, cells, exact_sampling.secure()), strict=True)
        return Tally(1, list(reports), [of_level.tolist() for of_level in ones])

    def told(self, manifest: Manifest, terms: Levels, sums: Tally) -> R:
        """Return what the estimated counts say."""
        counts = estimates(terms, sums.reports, sums.ones)
        settings = {}
        if len(sums.reports) == 1:  # of several levels it differs
            (encoding,), (rows,) = terms, sums.reports
            deviation = math.sqrt(float(encoding.variance(rows / encoding.cells, rows)))
            settings = {"flip_probability": encoding.flip_probability, "noise_deviation": deviation}
        return self.readout.outcome(manifest, PooledCounts(levels=counts, parties=sums.parties, settings=settings))

"""Counting reports of rows that were each randomised on their own: local differential privacy.  [FCE] §2.2 and 2.3.

    round 1   a party sends how many of its rows' reports have each bit set, and how many rows reported on each level
    round 2   the sums go to all parties, who estimate the counts and answer with nothing

Nothing is encrypted, for reports are private already (`unary_encoding`). What is public, what adds up, and that no lie
is noticed: docs/evidence/score-histograms.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.protocol import Spending
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.histograms.readout import PooledCounts, PrivateReadout, ReadoutProtocol
from fhe_auc_protocols.histograms.unary_encoding import UnaryHierarchy
from fhe_auc_protocols.unencrypted_protocol import MOST_ROWS, ClearSums, SummingParty, UnencryptedProtocol


class Tally(ClearSums, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Reports of one party's rows, or of all."""

    reports: list[int]  # on each level, highest first; a row reports on one of them
    ones: list[list[int]]
    """How many of them have each bit set, level by level; of the one level of a score histogram, positives in each bin,
    then negatives."""

    @classmethod
    def integers(cls, manifest: Manifest, terms: UnaryHierarchy) -> int:
        """Return how many integers a tally holds, lengths of lists included."""
        return sum(level.cells + 2 for level in terms.levels) + 2

    def check(self, manifest: Manifest, terms: UnaryHierarchy) -> None:
        """Raise `DeserialisationError` where no rows can give these reports."""
        if not len(self.reports) == len(self.ones) == len(terms.levels):
            raise DeserialisationError(f"tallies of {len(self.ones)} levels, of {len(terms.levels)}")
        if min(self.reports) < 0 or not 0 < sum(self.reports) <= MOST_ROWS:
            raise DeserialisationError(f"tallies of {sum(self.reports)} rows, where there may be no more than 2^62")
        for reports, ones, level in zip(self.reports, self.ones, terms.levels, strict=True):
            if len(ones) != level.cells or min(ones) < 0 or max(ones) > reports:
                raise DeserialisationError(f"these are not {level.cells} counts of at most as many reports as rows")


class TallyParty(SummingParty[Tally, UnaryHierarchy, R]):
    """Randomises rows one by one, tallies, and estimates from the sums; `InputError` where a score has no cell."""

    def __init__(self, manifest: Manifest, terms: UnaryHierarchy, data: PartyData, readout: PrivateReadout[R]) -> None:
        super().__init__(manifest, Tally, terms, data)
        self._readout = readout
        self._counts = readout.count(data, manifest.thresholds)

    def submission(self) -> Tally:
        """Return tallies of reports, randomised anew."""
        cells = np.repeat(np.arange(self._counts.size), self._counts)
        reports, ones = zip(*self._terms.tallies(cells, exact_sampling.secure()), strict=True)
        return Tally(1, list(reports), [of_level.tolist() for of_level in ones])

    def told(self, sums: Tally) -> R:
        """Return what the estimated counts say."""
        found = self._terms.estimate(sums.reports, sums.ones)
        settings = {}
        if len(sums.reports) == 1:  # of several levels it differs
            (encoding,), (rows,) = self._terms.levels, sums.reports
            deviation = math.sqrt(float(encoding.variance(rows / encoding.cells, rows)))
            settings = {"flip_probability": encoding.flip_probability, "noise_deviation": deviation}
        return self._readout.read(self._manifest, PooledCounts(levels=found, parties=sums.parties, settings=settings))


class LocalRandomisation(ReadoutProtocol[R], UnencryptedProtocol[R, UnaryHierarchy, Tally]):
    """Base of the plug-ins that count reports of randomised rows."""

    sums = Tally

    readout: PrivateReadout[R]

    def terms(self, options: Mapping[str, Any], thresholds: int) -> UnaryHierarchy:
        """Return the session's encoding; raise `InputError` for a bad budget."""
        levels, cells = self.readout.levels(thresholds), self.readout.cells(thresholds)
        return UnaryHierarchy(levels, self.readout.budget(options), cells)

    def spends(self, manifest: Manifest) -> Spending:
        """Return what this session spends; the one that has found its thresholds has spent the rest."""
        return Spending(self.readout.budget(manifest.options), "row")

    def checked(self, manifest: Manifest) -> UnaryHierarchy:
        """Return the encoding of a manifest; raise `InputError` where it is not one of this protocol."""
        self.readout.check(manifest, self.name)
        return super().checked(manifest)

    def side(self, manifest: Manifest, terms: UnaryHierarchy, data: PartyData) -> TallyParty[R]:
        """Return a party's side, of its own rows."""
        return TallyParty(manifest, terms, data, self.readout)

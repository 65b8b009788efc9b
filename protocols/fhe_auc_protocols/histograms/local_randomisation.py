"""Counting reports of rows that were each randomised on their own: local differential privacy.  [FCE] §2.2 and 2.3.

    round 1   a party sends how many of its rows' reports have each bit set, and how many rows reported on each level
    round 2   the sums go to all parties, who estimate the counts and answer with nothing

**Privacy unit: one row**, whatever it is replaced by: a row's report (`unary_encoding`) is ε-locally private, against
everybody but the row's own party, whatever others do. Nothing is encrypted, for the reports are private already. How
many rows a party has is public, and how many of them fell to each level. Each session on the same rows adds its ε: rows
are randomised afresh.

A lying aggregator, or party, is not noticed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from fhe_auc.counts import PartyData
from fhe_auc.errors import DeserialisationError
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Request
from fhe_auc.rounds import Aggregator, Party, R
from fhe_auc.serialise import decode, encode
from fhe_auc_protocols import exact_randomness
from fhe_auc_protocols.histograms.readout import PooledCounts, PrivateReadout
from fhe_auc_protocols.histograms.unary_encoding import LevelTally, UnaryHierarchy
from fhe_auc_protocols.unencrypted_protocol import (
    INTEGER_BYTES,
    MOST_ROWS,
    SummingAggregator,
    SummingParty,
    UnencryptedProtocol,
)


class Tally(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Reports of one party's rows, or of all.

    Attributes
    ----------
    parties : int
        Whose rows are in it.
    reports : list of int
        How many on each level.
    ones : list of list of int
        How many of them have each bit set, level by level.
    """

    parties: int
    reports: list[int]
    ones: list[list[int]]

    def levels(self, encoding: UnaryHierarchy) -> list[LevelTally]:
        """Return the tallies; raise `DeserialisationError` where they cannot be of that encoding."""
        if not len(self.reports) == len(self.ones) == len(encoding.levels):
            raise DeserialisationError(f"tallies of {len(self.ones)} levels, of {len(encoding.levels)}")
        if min(self.reports) < 0 or not 0 < sum(self.reports) <= MOST_ROWS:
            raise DeserialisationError(f"tallies of {sum(self.reports)} rows")
        for reports, ones, level in zip(self.reports, self.ones, encoding.levels, strict=True):
            if len(ones) != level.cells or min(ones) < 0 or max(ones) > reports:
                raise DeserialisationError(f"these are not {level.cells} counts of at most as many reports as rows")
        pairs = zip(self.reports, self.ones, strict=True)
        return [LevelTally(reports, np.array(ones, np.int64)) for reports, ones in pairs]

    @classmethod
    def of(cls, parties: int, levels: list[LevelTally]) -> Tally:
        """Take the tallies of all levels."""
        return cls(parties, [level.reports for level in levels], [level.ones.tolist() for level in levels])


class LocalRandomisation(UnencryptedProtocol[R, UnaryHierarchy]):
    """Base of the plug-ins that count reports of randomised rows."""

    readout: PrivateReadout[R]
    """What is counted, and read off the estimates."""

    def completed(self, request: Request) -> Request:
        """Return the request with the readout's thresholds."""
        return self.readout.completed(request)

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the readout's options."""
        return self.readout.agreed(request.options, len(request.thresholds))

    def terms(self, options: Mapping[str, Any], thresholds: int) -> UnaryHierarchy:
        """Return the session's encoding; raise `InputError` for a bad budget."""
        levels, cells = self.readout.levels(thresholds), self.readout.cells(thresholds)
        return UnaryHierarchy(levels, self.readout.budget(options), cells=cells)

    def checked(self, manifest: Manifest) -> UnaryHierarchy:
        """Return the encoding of a manifest; raise `InputError` where it is not one of this protocol."""
        self.readout.check(manifest, self.name)
        return super().checked(manifest)

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is empty."""
        return TallyAggregator(manifest, self.checked(manifest))

    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return the party whose rows are `data`; `material` is empty."""
        return TallyParty(self.readout, manifest, self.checked(manifest), data)


class TallyAggregator(SummingAggregator):
    """Adds up tallies."""

    def __init__(self, manifest: Manifest, encoding: UnaryHierarchy) -> None:
        super().__init__(manifest)
        self.submission_limit = _payload_limit(encoding)
        self._encoding = encoding
        self._sums = [LevelTally(0, np.zeros(level.cells, np.int64)) for level in encoding.levels]

    def _add(self, payload: bytes) -> None:
        tally = decode(payload, Tally, "submission")
        if tally.parties != 1:
            raise DeserialisationError(f"a party sent the reports of {tally.parties}")
        levels = tally.levels(self._encoding)
        if sum(tally.reports) + sum(level.reports for level in self._sums) > MOST_ROWS:
            raise DeserialisationError("with it there would be more than 2^62 rows")
        pairs = zip(self._sums, levels, strict=True)
        self._sums = [LevelTally(a.reports + b.reports, a.ones + b.ones) for a, b in pairs]

    def _close(self) -> bytes:
        return encode(Tally.of(len(self.counted), self._sums))


class TallyParty(SummingParty[R]):
    """Randomises its rows one by one and tallies the reports; then estimates the counts from the sums."""

    def __init__(
        self, readout: PrivateReadout[R], manifest: Manifest, encoding: UnaryHierarchy, data: PartyData
    ) -> None:
        super().__init__(manifest, data, download_limit=_payload_limit(encoding))
        self._readout, self._encoding = readout, encoding
        self._counts = readout.count(data, manifest.thresholds)

    def _submission(self) -> Tally:
        cells = np.repeat(np.arange(self._counts.size), self._counts)
        return Tally.of(1, self._encoding.tallies(cells, exact_randomness.secure()))

    def _read(self, payload: bytes) -> R:
        tally = decode(payload, Tally, "result")
        self._check_counted(tally.parties)
        found = self._encoding.estimate(tally.levels(self._encoding))
        return self._readout.read(
            self.manifest, PooledCounts(levels=found, parties=tally.parties, **self._noise(tally.reports))
        )

    def _noise(self, reports: list[int]) -> dict[str, Any]:
        """Return what is said about the noise, where there is but one level."""
        if len(reports) > 1:
            return {}
        (encoding,), (rows,) = self._encoding.levels, reports
        deviation = math.sqrt(float(encoding.variance(rows / encoding.cells, rows)))
        settings = {"flip_probability": encoding.flip_probability, "noise_deviation": deviation}
        return {"noise_deviation": deviation, "settings": settings}


def _payload_limit(encoding: UnaryHierarchy) -> int:
    integers = sum(level.cells + 2 for level in encoding.levels) + 2
    return 64 + integers * INTEGER_BYTES

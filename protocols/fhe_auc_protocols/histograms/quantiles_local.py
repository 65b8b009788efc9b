"""Quantile thresholds under local differential privacy: every row is randomised, on one level of a hierarchy.

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023, §2.3.

    boundaries-local-dp   rows are users split over levels, one report each with the whole of ε (`unary_hierarchy`);
                          the sums of reports go to all parties, who estimate the counts and cut where bins hold
                          about equally many rows

**Privacy unit: one row's score**, whatever it is replaced by; labels are not looked at. Nobody but the row's own party
has to be trusted with it. How many rows a party has is public, and how many of them fell to each level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from fhe_auc.counts import PartyData
from fhe_auc.errors import DeserialisationError
from fhe_auc.evaluation import QuantileThresholds
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Request, Session
from fhe_auc.rounds import Aggregator, Party
from fhe_auc.serialise import decode, encode
from fhe_auc_protocols.histograms import hierarchical_counts as hierarchy
from fhe_auc_protocols.histograms.quantile_grid import checked_bins, equi_depth_grid, height_of
from fhe_auc_protocols.histograms.quantiles_distributed import noisy_warning
from fhe_auc_protocols.histograms.quantiles_federated import BINS_OPTION, TIES_OR_NOISE, fewer
from fhe_auc_protocols.histograms.score_histogram_local import checked_budget
from fhe_auc_protocols.histograms.unary_hierarchy import LevelTally, UnaryHierarchy
from fhe_auc_protocols.option_values import checked_height
from fhe_auc_protocols.result_warnings import of_parties
from fhe_auc_protocols.u_statistics import randomness
from fhe_auc_protocols.unencrypted_protocol import (
    INTEGER_BYTES,
    MOST_ROWS,
    CleartextProtocol,
    SummingAggregator,
    SummingParty,
)

DEFAULT_HEIGHT = 8
"""[FCE] §4.2: the best height in this model, where users are spread thin over levels."""

HEIGHTS = range(1, 15)


class HierarchyTally(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Reports of one party's rows, or of all.

    Attributes
    ----------
    parties : int
        Whose rows are in it.
    reports : list of int
        How many on each level.
    ones : list of list of int
        How many of them have each bit set; level k has 2^k.
    """

    parties: int
    reports: list[int]
    ones: list[list[int]]

    def levels(self, height: int) -> list[LevelTally]:
        """Return the tallies; raise `DeserialisationError` where they are none of a hierarchy of that height."""
        if not len(self.reports) == len(self.ones) == height:
            raise DeserialisationError(f"tallies of {len(self.ones)} levels, of {height}")
        if min(self.reports) < 0 or not 0 < sum(self.reports) <= MOST_ROWS:
            raise DeserialisationError(f"tallies of {sum(self.reports)} rows")
        for k, (reports, ones) in enumerate(zip(self.reports, self.ones, strict=True), start=1):
            if len(ones) != 2**k or min(ones) < 0 or max(ones) > reports:
                raise DeserialisationError(f"level {k} has not {2**k} counts of at most as many reports")
        pairs = zip(self.reports, self.ones, strict=True)
        return [LevelTally(reports, np.array(ones, np.int64)) for reports, ones in pairs]

    @classmethod
    def of(cls, parties: int, levels: list[LevelTally]) -> HierarchyTally:
        """Take the tallies of all levels."""
        return cls(parties, [level.reports for level in levels], [level.ones.tolist() for level in levels])


@dataclass(frozen=True)
class Terms:
    """What a session computes with."""

    tree: UnaryHierarchy
    height: int
    bins: int
    epsilon: float


class BoundariesLocalDp(CleartextProtocol[QuantileThresholds, Terms]):
    """Plug-in ``boundaries-local-dp``."""

    name = "boundaries-local-dp"
    summary = "local differential privacy: quantile thresholds from one randomised report a row, nothing encrypted"
    trust = "nobody but its own party with a row: others learn what epsilon allows; all compute what they should"
    yields = QuantileThresholds
    options = MappingProxyType(
        {
            **BINS_OPTION,
            "epsilon": "privacy budget of a row's score; must be given",
            "height": f"of the hierarchy: thresholds are multiples of 2^-height, 1 to 14; default {DEFAULT_HEIGHT}",
        }
    )

    def prepare(self, request: Request) -> Session:
        """Check the options and name the session, whose thresholds are the 2^h cells; there are no keys."""
        self.check_options(request.options)
        height = checked_height(request.options, DEFAULT_HEIGHT, HEIGHTS)
        return super().prepare(replace(request, thresholds=hierarchy.cell_starts(height)))

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the budget and how many thresholds to find."""
        terms = self.terms(request.options, len(request.thresholds))
        return {"bins": terms.bins, "epsilon": terms.epsilon}

    def terms(self, options: Mapping[str, Any], thresholds: int) -> Terms:
        """Return the hierarchy of which there are so many cells; raise `InputError` for a bad option."""
        height, epsilon = thresholds.bit_length() - 1, checked_budget(options)
        return Terms(UnaryHierarchy(height, epsilon), height, checked_bins(options, height), epsilon)

    def checked(self, manifest: Manifest) -> Terms:
        """Return the terms of a manifest; raise `InputError` where it is not one of this protocol."""
        height_of(manifest.thresholds)
        return super().checked(manifest)

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is empty."""
        return LocalBoundariesAggregator(manifest, self.checked(manifest))

    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[QuantileThresholds]:
        """Return the party whose rows are `data`; `material` is empty."""
        return LocalBoundariesParty(manifest, self.checked(manifest), data)


class LocalBoundariesAggregator(SummingAggregator):
    """Adds up tallies of all levels."""

    def __init__(self, manifest: Manifest, terms: Terms) -> None:
        super().__init__(manifest)
        self.submission_limit = _payload_limit(terms.height)
        self._sums = [LevelTally(0, np.zeros(2**k, np.int64)) for k in range(1, terms.height + 1)]

    def _add(self, payload: bytes) -> None:
        tally = decode(payload, HierarchyTally, "submission")
        if tally.parties != 1:
            raise DeserialisationError(f"a party sent the reports of {tally.parties}")
        levels = tally.levels(len(self._sums))
        if sum(tally.reports) + sum(level.reports for level in self._sums) > MOST_ROWS:
            raise DeserialisationError("with it there would be more than 2^62 rows")
        pairs = zip(self._sums, levels, strict=True)
        self._sums = [LevelTally(a.reports + b.reports, a.ones + b.ones) for a, b in pairs]

    def _close(self) -> bytes:
        return encode(HierarchyTally.of(len(self.counted), self._sums))


class LocalBoundariesParty(SummingParty[QuantileThresholds]):
    """Randomises its rows one by one and tallies the reports; then finds thresholds from the sums."""

    def __init__(self, manifest: Manifest, terms: Terms, data: PartyData) -> None:
        super().__init__(manifest, data, download_limit=_payload_limit(terms.height))
        self._terms = terms
        self._cells = hierarchy.cells(data, terms.height)

    def _submission(self) -> HierarchyTally:
        return HierarchyTally.of(1, self._terms.tree.tallies(self._cells, randomness.secure()))

    def _read(self, payload: bytes) -> QuantileThresholds:
        terms, tally = self._terms, decode(payload, HierarchyTally, "result")
        self._check_counted(tally.parties)
        grid = equi_depth_grid(terms.tree.estimate(tally.levels(terms.height)), terms.bins)
        return QuantileThresholds(
            grid=grid,
            protocol=self.manifest.protocol,
            backend="none",
            parties=tally.parties,
            security_bits=0,
            settings={"epsilon": terms.epsilon, "height": terms.height},
            warnings=(
                *of_parties(self.manifest, tally.parties),
                *noisy_warning(terms.height),
                *fewer(grid, terms.bins, terms.height, why=TIES_OR_NOISE),
            ),
        )


def _payload_limit(height: int) -> int:
    integers: int = 2 ** (height + 1) + 2 * height + 2
    return 64 + integers * INTEGER_BYTES

"""Quantile thresholds, from an encrypted sum of score histograms without labels.  [FCE] §2.3.

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023.

    boundaries-federated        an exact sum, encrypted                                              (this module)
    boundaries-distributed-dp   a hierarchy with shares of noise, encrypted  `fhe_auc_protocols.histograms.quantiles_distributed`
    boundaries-local-dp         every row randomised, nothing encrypted      `fhe_auc_protocols.histograms.quantiles_local`

A party counts its rows, labels left out, in the 2^14 cells of [0, 1] of equal width: as many integers as one ciphertext
holds (`fhe_auc_protocols.histograms.encrypted_sums`). Only the sum is ever decrypted, and every party cuts [0, 1] where bins hold about equally many
rows. Rounds, keys and messages are those of the other encrypted protocols; the session's own thresholds are the cells.

**Who learns what.** The aggregator sees ciphertexts. Every party learns how many pooled rows lie in each cell: where
rows are few, single scores to within 2^-14, though not whose. The thresholds found, quantiles of the pooled scores
rounded to 2^-14, stand in the manifest of the evaluation, so everybody who sees that learns them, the aggregator too.

**A lying aggregator** can put the thresholds where it likes: it has the public key, and can add what it likes. With
poor thresholds an evaluation is still right within its half-width, which shows it. Parties that were told different
sums find different thresholds: one of them refuses the evaluation's manifest (`QuantileThresholds.require`). It cannot have
thresholds made of one party's rows, or some parties': where all have to take part, masks (`fhe_auc.zero_sum_masks`) leave
nothing of a sum that is not over all. Where some may be missing there are no masks, and a party only refuses a sum that
holds fewer rows in a cell than its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.ckks import BackendName
from fhe_auc.computation import PartyTask
from fhe_auc.counts import PartyData
from fhe_auc.errors import InputError, ResultCheckError
from fhe_auc.evaluation import QuantileThresholds
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Request
from fhe_auc_keys.encrypted_protocol import check_rows
from fhe_auc_protocols.histograms import hierarchical_counts as hierarchy
from fhe_auc_protocols.histograms.encrypted_sums import SumPlan, plan_sum
from fhe_auc_protocols.histograms.hierarchical_counts import HierarchicalCounts
from fhe_auc_protocols.histograms.quantile_grid import EXACT_HEIGHT, checked_bins, equi_depth_grid, height_of
from fhe_auc_protocols.histograms.sum_protocol import SumProtocol
from fhe_auc_protocols.result_warnings import of_parties

_TIES = "some scores are more frequent than that allows"
TIES = f"{_TIES}; a fixed rising function that spreads the scores over [0, 1] would help"
"""Why there are fewer thresholds than were asked for."""

TIES_OR_NOISE = f"{_TIES}, or noise hides where the rows lie; ask for fewer, or give a larger epsilon"
"""The same, where counts have noise."""

BINS_OPTION: Mapping[str, str] = MappingProxyType({"bins": "how many thresholds to find; must be given"})


class EncryptedBoundaries(SumProtocol[QuantileThresholds]):
    """Base of the encrypted protocols that find thresholds."""

    yields = QuantileThresholds

    @abstractmethod
    def height(self, options: Mapping[str, Any]) -> int:
        """Return the height h of which a request's counts are taken; raise `InputError` for a wrong option."""

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return how many thresholds to find."""
        return {"bins": checked_bins(request.options, self.height(request.options))}

    def completed(self, request: Request) -> Request:
        """Return the request with the 2^h cells as thresholds."""
        return replace(request, thresholds=hierarchy.cell_starts(self.height(request.options)))

    def own(self, manifest: Manifest) -> Manifest:
        """Return the manifest; raise `InputError` where it is not one of this protocol."""
        if manifest.protocol != self.name:
            raise InputError(f"the session's manifest is of protocol {manifest.protocol!r}, not {self.name!r}")
        self.check_options(manifest.options)
        return manifest


class BoundariesFederated(EncryptedBoundaries):
    """Plug-in ``boundaries-federated``."""

    name = "boundaries-federated"
    summary = "CKKS, an exact sum of score histograms without labels: the parties get quantile thresholds, and no AUC"
    trust = "the aggregator computes what it should and does not collude with a party; parties see pooled scores"
    options = BINS_OPTION

    def height(self, options: Mapping[str, Any]) -> int:
        """Return 14."""
        return EXACT_HEIGHT

    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> SumPlan:
        """Return the parameters for one sum a cell."""
        return plan_sum(
            thresholds=len(request.thresholds),
            vectors=1,
            parties=len(request.parties),
            backend=backend,
            max_total=request.max_rows,
            joint_keys=request.keys == "joint",
            smudging_bits=smudging_bits,
        )

    def task(self, manifest: Manifest, data: PartyData) -> PartyTask[ckks.Slots, ckks.Slots, QuantileThresholds]:
        """Return a party's computation on its own rows."""
        return FederatedBoundariesTask(self.own(manifest), data)


class BoundariesTask(PartyTask[ckks.Slots, ckks.Slots, QuantileThresholds]):
    """A party's rows in each cell, for a sum of them.

    Parameters
    ----------
    manifest : Manifest
    data : PartyData
        With scores in [0, 1].
    vectors : int
        How many the plan must have.
    noise_room : int
        How much of the plan's bound on sums is for noise.

    Raises
    ------
    InputError
        The manifest is not one for finding thresholds, a score lies outside [0, 1], or there are too many rows.
    """

    _why_fewer = TIES

    def __init__(self, manifest: Manifest, data: PartyData, *, vectors: int, noise_room: int = 0) -> None:
        self.party = data.name
        self.plan = manifest.decoded_plan(SumPlan)
        self._manifest = manifest
        self.masked = manifest.min_parties == len(manifest.parties)
        self._height = height_of(manifest.thresholds)
        self._bins = checked_bins(manifest.options, self._height)
        if self.plan.vectors != vectors or self.plan.max_total <= noise_room:
            raise InputError("the session's manifest is not one for finding thresholds")
        check_rows(data, self.plan.max_total - noise_room)

    def _found(self, counts: HierarchicalCounts, parties: int, **about: Any) -> QuantileThresholds:
        """Return the thresholds; `about` are fields of `QuantileThresholds`."""
        grid = equi_depth_grid(counts, self._bins)
        few = fewer(grid, self._bins, self._height, why=self._why_fewer)
        warnings = of_parties(self._manifest, parties) + about.pop("warnings") + few
        return QuantileThresholds(
            grid=grid,
            protocol=self._manifest.protocol,
            backend=self.plan.parameters.backend,
            parties=parties,
            security_bits=ckks.SECURITY_BITS,
            warnings=warnings,
            **about,
        )


class FederatedBoundariesTask(BoundariesTask):
    """Sends the counts, and cuts the pooled ones where bins hold about equally many rows."""

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        super().__init__(manifest, data, vectors=1)
        self._own = np.bincount(hierarchy.cells(data, self._height), minlength=2**self._height)

    def encode(self, common_secret: bytes) -> list[ckks.Slots]:
        """Return the packed counts."""
        return [self.plan.pack(self._own[None, :])]

    def read(self, decrypted: ckks.Slots, parties: int, common_secret: bytes) -> QuantileThresholds:
        """Return the thresholds; errors as `fhe_auc_protocols.histograms.encrypted_sums.SumPlan.sums`.

        Raises
        ------
        ResultCheckError
            This party's own rows are not all in the sum.
        """
        (sums,) = self.plan.sums(decrypted)
        if (sums < self._own).any():
            raise ResultCheckError(
                f"the sum does not hold all rows of party {self.party!r}: the aggregator, or a party, has not computed "
                "what it should",
                check="own rows",
            )
        return self._found(
            HierarchicalCounts.from_lowest(sums),
            parties,
            settings={"height": self._height},
            warnings=(
                f"quantile thresholds: every party learns how many pooled rows lie in each of {sums.size:,} cells of "
                "scores, labels left out, and so how many there are in all; the thresholds are public, and the "
                "aggregator learns them too",
                "nobody has verified the thresholds: a lying aggregator can make them poor, which the half-width shows",
            ),
        )


def fewer(grid: NDArray[np.float64], bins: int, height: int, *, why: str = TIES) -> tuple[str, ...]:
    """Return a warning where there are fewer thresholds than were asked for."""
    if len(grid) >= bins:
        return ()
    return (f"{len(grid):,} thresholds instead of {bins:,}: no two are closer than 2^-{height}, and {why}",)

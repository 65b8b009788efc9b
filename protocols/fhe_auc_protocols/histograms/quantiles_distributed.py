"""Quantile thresholds under distributed differential privacy: encrypted hierarchical counts with shares of noise.

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023, §2.3.

    boundaries-distributed-dp   each party counts its rows, labels left out, at every level of a hierarchy of height h,
                                adds Pólya shares and encrypts; only the sum is ever decrypted

A row counts once at each of h levels, so that each level gets ε/h: the pooled levels together are ε-private for a row
added or removed, and so is whatever follows from them, the thresholds that the evaluation's manifest makes public. For
whom the promise holds, and what it rests on, is said in `fhe_auc_protocols.histograms.score_histogram_distributed`.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from fhe_auc_protocols import dp_noise as noise
from fhe_auc_protocols.histograms import hierarchical_counts as hierarchy
from fhe_auc_protocols.histograms.encrypted_sums import SumPlan, plan_sum
from fhe_auc_protocols.histograms.hierarchical_counts import HierarchicalCounts
from fhe_auc_protocols.histograms.quantile_grid import height_of
from fhe_auc_protocols.histograms.quantiles_federated import (
    BINS_OPTION,
    TIES_OR_NOISE,
    BoundariesTask,
    EncryptedBoundaries,
)
from fhe_auc_protocols.histograms.score_histogram_distributed import (
    checked_epsilon,
    noise_deviation,
    noise_parties,
    noise_room,
    scale_of,
)
from fhe_auc_protocols.option_values import checked_height

DEFAULT_HEIGHT = 10
"""[FCE] §4.2: "a good choice" for the AUC, whatever the model."""

HEIGHTS = range(1, 14)
"""2^14 - 2 counts fit one ciphertext, 2^15 - 2 do not."""

_VECTORS = 2  # 2^(h+1) - 2 counts and two zeros


class BoundariesDistributedDp(EncryptedBoundaries):
    """Plug-in ``boundaries-distributed-dp``."""

    name = "boundaries-distributed-dp"
    summary = "CKKS sum of hierarchical counts with shares of noise: quantile thresholds with differential privacy"
    trust = "all compute what they should, no two collude; of a row others learn no more than epsilon allows"
    options = MappingProxyType(
        {
            **BINS_OPTION,
            "epsilon": "privacy budget of a row added or removed; must be given",
            "height": f"of the hierarchy: thresholds are multiples of 2^-height, 1 to 13; default {DEFAULT_HEIGHT}",
        }
    )

    def height(self, options: Mapping[str, Any]) -> int:
        """Return the height asked for."""
        return checked_height(options, DEFAULT_HEIGHT, HEIGHTS)

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the budget and how many thresholds to find."""
        return {**super().agreed(request), "epsilon": _level_epsilon(request.options, 1)}

    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> SumPlan:
        """Return the parameters for one sum a count, with room for noise."""
        least = len(request.parties) if request.min_parties is None else request.min_parties
        return plan_sum(
            thresholds=len(request.thresholds),
            vectors=_VECTORS,
            parties=len(request.parties),
            backend=backend,
            max_total=request.max_rows
            + _room(request.options, height_of(request.thresholds), len(request.parties), noise_parties(least)),
            joint_keys=request.keys == "joint",
            smudging_bits=smudging_bits,
        )

    def task(self, manifest: Manifest, data: PartyData) -> PartyTask[ckks.Slots, ckks.Slots, QuantileThresholds]:
        """Return a party's computation on its own rows."""
        return DistributedBoundariesTask(self.own(manifest), data)


class DistributedBoundariesTask(BoundariesTask):
    """Adds shares of noise to the counts, and cuts the pooled noisy ones where bins hold about equally many rows."""

    _why_fewer = TIES_OR_NOISE

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        self._epsilon = _level_epsilon(manifest.options, 1)
        self._shares = noise_parties(manifest.min_parties)
        room = _room(manifest.options, height_of(manifest.thresholds), len(manifest.parties), self._shares)
        super().__init__(manifest, data, vectors=_VECTORS, noise_room=room)
        hierarchy.cells(data, self._height)  # its check of the scores, before anything is sent
        self._data = data

    def encode(self, common_secret: bytes) -> list[ckks.Slots]:
        """Return the packed noisy counts."""
        levels = noisy_hierarchy(self._data, self._height, self._epsilon, self._shares).levels
        counts = np.concatenate([*levels, np.zeros(2)]).astype(np.int64)
        return [self.plan.pack(np.clip(counts, -self.plan.max_total, self.plan.max_total).reshape(_VECTORS, -1))]

    def read(self, decrypted: ckks.Slots, parties: int, common_secret: bytes) -> QuantileThresholds:
        """Return the thresholds; errors as `fhe_auc_protocols.histograms.encrypted_sums.SumPlan.sums`.

        Raises
        ------
        ResultCheckError
            There are counts where none belong.
        EvaluationError
            Noise outweighs the rows.
        """
        sums = self.plan.sums(decrypted).ravel()
        if sums[-2:].any():
            raise ResultCheckError(
                "the sum has counts where none belong: the aggregator has not computed what it should",
                check="unused slots",
            )
        deviation = noise_deviation(_level_epsilon(self._manifest.options, self._height), parties / self._shares)
        return self._found(
            HierarchicalCounts(_levels(sums, self._height)),
            parties,
            settings={"epsilon": self._epsilon, "height": self._height, "noise_deviation": deviation},
            warnings=noisy_warning(self._height),
        )


def noisy_hierarchy(data: PartyData, height: int, epsilon: float, shares: int) -> HierarchicalCounts:
    """Return what one party sends of its hierarchical counts: Pólya shares on every level, ε/h each.

    Levels no longer agree with one another.

    Parameters
    ----------
    data : PartyData
        With scores in [0, 1].
    height : int
        Number of levels h, 1 to 20.
    epsilon : float
        For all levels together; each level's h-th part of it in [1e-6, 32].
    shares : int
        n, `noise_parties`.

    Raises
    ------
    InputError
        As `fhe_auc_protocols.histograms.hierarchical_counts.count`, or the budget is out of range.
    """
    scale = scale_of(_level_epsilon({"epsilon": epsilon}, height))
    exact = hierarchy.count(data, height).levels
    return HierarchicalCounts(tuple(level + noise.polya(len(level), scale, shares) for level in exact))


def noisy_warning(height: int) -> tuple[str, ...]:
    """Return what the reader of thresholds from noisy counts ought to know."""
    return (
        f"quantile thresholds, multiples of 2^-{height}: every party learns noisy counts of all scores, labels left "
        "out; the thresholds are public, and the aggregator learns them too",
    )


def _level_epsilon(options: Mapping[str, Any], height: int) -> float:
    """Return each level's part of the budget; raise `InputError` where it is missing or out of range."""
    epsilon = checked_epsilon(options)
    try:
        return checked_epsilon({"epsilon": epsilon / height})
    except InputError as error:
        raise InputError(f"epsilon = {epsilon:g} over {height} levels: {error}") from None


def _room(options: Mapping[str, Any], height: int, parties: int, shares: int) -> int:
    return noise_room(_level_epsilon(options, height), bins=2**height, parties=parties, shares=shares)


def _levels(sums: NDArray[np.int64], height: int) -> tuple[NDArray[np.float64], ...]:
    """Return the counts of level k = 1 ... h, which begin after the 2^k - 2 of those above."""
    return tuple(sums[2**k - 2 : 2 ** (k + 1) - 2].astype(np.float64) for k in range(1, height + 1))

"""Counting by an encrypted sum, exact to the last row.

A party encrypts its counts in one ciphertext; the aggregator adds ciphertexts (`encrypted_sums`), and only the sum is
ever decrypted: the aggregator sees ciphertexts, the parties pooled counts. Rounds, keys and messages are those of the
other encrypted protocols.

**Who learns what.** Every party learns how many pooled rows lie in each cell. Where rows are few that shows single
rows, though not whose, unless one party alone has rows in a cell. Where all parties have to take part, masks
(`fhe_auc.session.ckks_computation`) leave nothing of a sum that is not over all of them. An aggregator that adds counts
of its own is not noticed; where some parties may be missing, one that leaves parties out is not either.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, ResultCheckError
from fhe_auc.base.options import check_names
from fhe_auc.ckks import SECURITY_BITS, BackendName
from fhe_auc.question.analysis import PLAIN
from fhe_auc.rows.counts import PartyData
from fhe_auc.session.ckks_computation import SealedCkks
from fhe_auc.session.computation import PartyTask
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.protocol import Request, check_rows, too_many_rows
from fhe_auc_keys.roles.encrypted_protocol import EncryptedProtocol
from fhe_auc_keys.roles.joint_roles import JointKeys
from fhe_auc_keys.roles.sealed_roles import SealedKeys
from fhe_auc_protocols.histograms.encrypted_sums import NO_SUM, SumPlan, encrypted_sum, plan_sum
from fhe_auc_protocols.histograms.joint_sums import JointSumPlan, JointSums, plan_joint_sum
from fhe_auc_protocols.histograms.readout import PooledCounts, Readout, ReadoutProtocol, all_levels

MODELS = "models"
"""Option of the manifest: the names of several models, as a list in JSON."""


def sum_computation(manifest: Manifest) -> SealedCkks:
    """Return the computation of a session with sealed keys: the sum of all submissions, as it is."""
    return SealedCkks(manifest, manifest.decoded_plan(SumPlan), encrypted_sum)


class ExactCounts(ReadoutProtocol[R], EncryptedProtocol[R, "SumPlan | JointSumPlan"]):
    """Base of the plug-ins that decrypt a sum of counts."""

    modes: ClassVar = {"sealed": SealedKeys(sum_computation), "joint": JointKeys(JointSums)}

    def plan_of(self, manifest: Manifest) -> SumPlan | JointSumPlan:
        """Return the plan in a manifest of this protocol; raise `InputError` where a manifest is not such a one."""
        return decoded_plan(manifest)

    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> SumPlan | JointSumPlan:
        """Return the parameters for a sum of every count."""
        planned = partial(
            partial(plan_joint_sum, smudging_bits=smudging_bits) if request.keys == "joint" else plan_sum,
            thresholds=len(request.thresholds),
            vectors=vectors(self.readout, len(request.thresholds)),
            parties=len(request.parties),
            backend=backend,
            max_total=request.max_rows * len(request.analysis.models) + self.room_for_noise(request),
        )
        return planned()

    def room_for_noise(self, request: Request) -> int:
        """Return how much larger than the number of rows a sum may be."""
        return 0

    def task(self, manifest: Manifest, data: PartyData) -> PartyTask[Any, Any, R]:
        """Return a party's computation on its own rows; raise `InputError` where the manifest is of another kind."""
        self.readout.check(manifest, self.name)
        task = self.new_task(manifest, data)
        check_names(self.options, self.name, set(manifest.options) - {MODELS})
        return task

    def new_task(self, manifest: Manifest, data: PartyData) -> PartyTask[Any, Any, R]:
        """Return the task; `task` has the other checks."""
        return CountsTask(self.readout, manifest, data)


class CountsTask(PartyTask[Any, Any, R]):
    """Sends a party's counts, and reads the result off their sum.

    `room_for_noise` is how much of the plan's bound on sums is for noise. A row counts once for each of the session's
    models, the first ones that `data` has. Raise `InputError` where the manifest is not one for this readout, a score
    lies in no cell, or there are too many rows.
    """

    def __init__(self, readout: Readout[R], manifest: Manifest, data: PartyData, *, room_for_noise: int = 0) -> None:
        self.party = data.name
        self.masked = manifest.min_parties == len(manifest.parties)
        self.plan = decoded_plan(manifest)
        self._readout, self._manifest, self._noisy = readout, manifest, bool(room_for_noise)
        if self.plan.vectors != vectors(readout, self.plan.thresholds) or self.plan.max_total <= room_for_noise:
            raise InputError(f"the session's manifest is not one for {readout.purpose}")
        self._times = len(models_of(manifest))
        check_rows(data.rows, (self.plan.max_total - room_for_noise) // self._times, party=data.name)
        data = replace(data, scores=data.scores[: self._times], score_columns=data.score_columns[: self._times])
        self._own = all_levels(readout.count(data, manifest.thresholds), readout.levels(self.plan.thresholds))

    def encode(self, common_secret: bytes) -> list[Any]:
        """Return the packed counts."""
        return self.packed(np.concatenate(self._own))

    def read(self, decrypted: Any, counted: Sequence[str], common_secret: bytes) -> R:
        """Return what the pooled counts say; errors as `levels`, `Readout.check_own_rows` and `Readout.read`."""
        levels = self.levels(decrypted)
        self._readout.check_own_rows(levels[-1], self._own[-1], self.party)
        return self.outcome(levels, len(counted))

    def packed(self, counts: NDArray[np.int64]) -> list[Any]:
        """Return the slots that encode the counts of all levels, one after the other, and zeros where there is room.

        Ciphertext by ciphertext, as the plan's `pack` does; errors likewise.
        """
        padded = np.zeros(self.plan.integers, np.int64)
        padded[: counts.size] = counts
        return self.plan.pack(padded.reshape(self.plan.vectors, self.plan.thresholds))

    def levels(self, decrypted: Any) -> list[NDArray[np.int64]]:
        """Return the pooled counts of each level, highest first; errors as the plan's sums.

        Raise `ResultCheckError`, too, where there are counts where none belong, and where they are those of too many
        rows, which is not told of noisy ones.
        """
        sums = self.plan.sums_of_any_size(decrypted).ravel()
        ends = np.cumsum([level.size for level in self._own])
        *levels, rest = np.split(sums, ends)
        if rest.any():
            raise ResultCheckError(
                "the sum has counts where none belong: the aggregator has not computed what it should",
                check="unused slots",
            )
        rows, most = int(levels[-1].sum()), self.plan.max_total
        if not self._noisy and rows > most:
            can_be = rows <= self.plan.parties * most  # no party has more
            raise ResultCheckError(
                f"no number is given: {too_many_rows(rows // self._times, most // self._times)}" if can_be else NO_SUM,
                check="rows" if can_be else "range",
            )
        self.plan.within_bounds(sums)
        return levels

    def outcome(self, levels: list[NDArray[np.int64]], parties: int, **noise: Any) -> R:
        """Return what the pooled counts say; `noise` are fields of `PooledCounts`."""
        pooled = PooledCounts(
            levels=levels,
            parties=parties,
            backend=self.plan.parameters.backend,
            security_bits=SECURITY_BITS,
            **noise,
        )
        return self._readout.read(self._manifest, pooled)


def models_of(manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the models whose scores are counted; raise `InputError` where the manifest has none such."""
    try:
        return json.loads(str(manifest.options[MODELS])) if MODELS in manifest.options else PLAIN.models
    except ValueError:
        raise InputError("the session's manifest has a malformed list of models") from None


def decoded_plan(manifest: Manifest) -> SumPlan | JointSumPlan:
    """Return the plan in a manifest of such sessions; raise `InputError` where it has another."""
    if manifest.joint_keys:
        return manifest.decoded_plan(JointSumPlan)
    return manifest.decoded_plan(SumPlan)


def vectors(readout: Readout[R], thresholds: int) -> int:
    """Return how many integers a threshold a plan needs, for the counts of all levels."""
    cells, levels = readout.cells(thresholds), readout.levels(thresholds)
    counts = sum(cells >> above for above in range(levels))
    return -(-counts // thresholds)

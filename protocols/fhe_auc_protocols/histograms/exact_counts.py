"""Counting by a sum under one-time pads, exact to the last row, and proved.

A party's counts are a vector of integers (`fhe_auc.session.vector_computation`). The aggregator adds up what it gets,
and sees uniform numbers; the parties get the pooled counts, with two tags that prove them: docs/security/histograms.md.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, ResultCheckError
from fhe_auc.base.options import check_names
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.weights import Units
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.ring_parameters import SECURITY_BITS
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.computation import PaddedTask, PartyTask, check_rows, too_many_rows
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.plan import ONE_TIME_PADS, Keys
from fhe_auc.session.protocol import KeyKind, Request
from fhe_auc.session.vector_computation import VectorComputation, VectorPlan
from fhe_auc.sums.vector_sums import VectorSums
from fhe_auc_keys.roles.sealed import SealedPads
from fhe_auc_protocols.histograms.distributed_noise import SharedNoise
from fhe_auc_protocols.histograms.readout import (
    INTERVAL,
    PooledCounts,
    PrivateReadout,
    Readout,
    ReadoutProtocol,
    unit_of,
)

ANALYSIS = "analysis"  # option of the manifest: whose scores are counted, in which groups, and weights, as JSON
MAX_ROWS = "max_rows"  # with weights
NO_FLEET = "a fleet adds up noisy histograms alone, as {} has none: give --protocol exact, or histogram-distributed-dp"
OF_WEIGHTS = ("weights", "follow_up", "at")  # fields of an analysis


class ExactCounts(ReadoutProtocol[R]):
    """Base of the plug-ins that add up counts."""

    trust = "the aggregator does not collude with who has the pads (its sums are proved); parties see the counts"

    def key_kinds(self) -> Mapping[str, Callable[[], KeyKind[R]]]:
        """Return sealed keys, and a helper's; no result needs an echo."""
        return {"sealed": lambda: SealedPads(VectorComputation, self.task), "helper": self._helper_keys}

    def _helper_keys(self) -> KeyKind[R]:
        from fhe_auc_keys.roles.helped import HelperKeys

        return HelperKeys(VectorComputation, self.task)

    def counted(self, analysis: Analysis) -> Analysis:
        """Return what of an analysis matters to counts."""
        return Analysis(**{name: getattr(analysis, name) for name in ("models", "by", *OF_WEIGHTS)})

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the readout's options, models and variables where they are named, and weights where rows have them."""
        named = self.counted(request.analysis)
        told = dict[str, bool | int | float | str]()
        if named != PLAIN:
            told[ANALYSIS] = msgspec.json.encode(named).decode()
        if named.units:
            told[MAX_ROWS] = request.max_rows
        return {**super().agreed(request), **told}

    def analysis_of(self, manifest: Manifest) -> Analysis:
        """Return the models whose scores are counted, and the variables; raise `InputError` where that is malformed."""
        if ANALYSIS not in manifest.options:
            return PLAIN
        try:
            found = msgspec.json.decode(str(manifest.options[ANALYSIS]), type=Analysis)
        except msgspec.DecodeError:
            found = PLAIN
        most = manifest.options.get(MAX_ROWS)
        if found == PLAIN or found != self.counted(found) or (type(most) is int and most > 0) != bool(found.units):
            raise InputError("the session's manifest says in a malformed way what is counted")
        return found

    def planned(self, request: Request) -> VectorPlan:
        """Return the parameters for a sum of every count."""
        parties, fleet, noise = request.size, request.fleet, self.noise(request)
        if fleet is not None and (noise is None or self.yields is not Evaluation):
            raise InputError(NO_FLEET.format(self.name))
        times = self.readout.times(request.analysis)
        rows = request.max_rows if fleet is None else fleet.row_cap * parties
        most, square = bounds(request.analysis.units, rows, parties, times)
        readout = self.readout.of(request.analysis, request.options, square)
        return VectorPlan(
            keys=cast("Keys", request.keys),  # which has been checked
            thresholds=len(request.thresholds),
            entries=sum(readout.levels(len(request.thresholds))),
            parties=parties,
            max_total=most * times + (0 if noise is None else noise.room),
            fleet=fleet is not None,
        )

    def plan_of(self, manifest: Manifest) -> VectorPlan:
        """Return the plan in a manifest of this protocol; raise `InputError` where a manifest is not such a one."""
        plan = manifest.decoded_plan(VectorPlan)
        readout = self.readout.of(self.analysis_of(manifest), manifest.options)
        if plan.entries != sum(readout.levels(plan.thresholds)):
            raise InputError(f"the session's manifest is not one for {self.readout.purpose}")
        if manifest.fleet is not None and not (isinstance(self.readout, PrivateReadout) and self.yields is Evaluation):
            raise InputError(NO_FLEET.format(self.name))
        return plan

    def noise(self, asked: Request | Manifest) -> SharedNoise | None:
        """Return the noise on counts; None where they are exact. Raises `InputError` for a bad budget."""
        if not isinstance(self.readout, PrivateReadout):
            return None
        least = asked.size if asked.min_parties is None else asked.min_parties
        return SharedNoise.of(self.readout, asked.options, len(asked.thresholds), asked.size, least, replaced(asked))

    def soundness(self, manifest: Manifest) -> float | None:
        """Return the proved bound of the session, over all its parties."""
        return VectorComputation(manifest).soundness()

    def task(self, manifest: Manifest, data: PartyData) -> PaddedTask[R]:
        """Return a party's computation on its own rows; raise `InputError` where the manifest is of another kind."""
        self.readout.check_manifest(manifest, self.name)
        self.plan_of(manifest)
        analysis, noise = self.analysis_of(manifest), self.noise(manifest)
        times, most = self.readout.times(analysis), int(manifest.options.get(MAX_ROWS, 0))
        readout = self.readout.of(analysis, manifest.options, bounds(analysis.units, most, manifest.size, times)[1])
        task = CountsTask(readout, manifest, data, noise, times, most)
        check_names(self.takes(manifest), self.name, set(manifest.options) - {ANALYSIS, MAX_ROWS, INTERVAL})
        return task


def replaced(asked: Request | Manifest) -> int:
    """Return how many rows a budget protects at once: one, or all of a device; errors as `unit_of`."""
    return asked.fleet.row_cap if asked.fleet is not None and unit_of(asked) == "device" else 1


class CountsTask(PartyTask[Residues, Sequence[Residues], R]):
    """Sends a party's counts, with `noise` if there is any, and reads the result off their sum.

    `times` is how often a row counts; with weights, `most` rows are allowed. Raises `InputError`: another readout's
    manifest, a score that lies in no cell, or too many rows.
    """

    def __init__(
        self, readout: Readout[R], manifest: Manifest, data: PartyData, noise: SharedNoise | None, times: int, most: int
    ) -> None:
        self.party = data.name
        self.plan = manifest.decoded_plan(VectorPlan)
        self._readout, self._manifest, self._noise, self._times = readout, manifest, noise, times
        of_rows = self.plan.max_total - (0 if noise is None else noise.room)
        if of_rows <= 0:
            raise InputError(f"the session's manifest is not one for {readout.purpose}")
        self._most_rows = most or of_rows // times
        check_rows(data.rows, self._most_rows, party=data.name)
        self._own = readout.counted_levels(data, manifest.thresholds)

    def vector(self) -> NDArray[np.int64]:
        """Return the counts of all levels, one after the other, with noise drawn anew."""
        counts = np.concatenate(self._own)
        return counts if self._noise is None else self._noise.added(counts, self.plan.max_total)

    def encode(self, common_secret: bytes) -> list[Residues]:
        """Return that vector with its tags, or of a device alone."""
        if self.plan.fleet:
            return [modular.residues(self.vector(), self.plan.sums.modulus)]
        own = VectorComputation(self._manifest).authenticator(common_secret)
        return [own.submitted(self._manifest.parties.index(self.party), self.vector())]

    def read_result(self, decrypted: Sequence[Residues], counted: Sequence[str], common_secret: bytes) -> R:
        """Return what the sums say, once they are proved; nothing is of a fleet's.

        Errors as `VectorAuthenticator.proved_sums` and `Readout.outcome`, and `ResultCheckError` for too many rows.
        """
        computation, most = VectorComputation(self._manifest), self.plan.max_total
        least = 0 if self._noise is None else -most
        if self.plan.fleet:
            sums = modular.signed(decrypted[0], self.plan.sums.modulus)
            if len(sums) != self.plan.entries or np.abs(sums).max() > most:
                raise ResultCheckError(
                    "a sum is none that rows and noise can give, so no number is given", check="range"
                )
        else:
            indices = [self._manifest.parties.index(party) for party in counted]
            sums = computation.authenticator(common_secret).proved_sums(decrypted[0], indices, least, most)
        levels = np.split(sums, np.cumsum([level.size for level in self._own])[:-1])
        if self._noise is None and (rows := self._readout.rows(levels[-1])) > self._times * self._most_rows:
            raise ResultCheckError(
                f"no number is given: {too_many_rows(rows // self._times, self._most_rows)}", check="rows"
            )
        pooled = PooledCounts(
            levels=levels,
            parties=len(counted),
            backend=ONE_TIME_PADS,
            security_bits=SECURITY_BITS,
            soundness=computation.soundness(),
            settings={} if self._noise is None else self._noise.settings(len(counted)),
        )
        return self._readout.outcome(self._manifest, pooled)


def bounds(units: Units | None, rows: int, parties: int, times: int) -> tuple[int, int]:
    """Return what no sum of so many rows exceeds, and of how many units² one unit of Σw² is.

    That is 1 where sums of vectors have room for it, so many times. Weights of all rows add up to the rows at most (a
    horizon's, but for rounding); those of a bin, or their squares, to no more.
    """
    if units is None:
        return rows, 1
    total, room = rows * units.per * 1001 // 1000, VectorSums(1, parties).largest // times - parties
    square = -(-total * units.most // max(room, 1))
    return max(total, total * units.most // square + parties), square

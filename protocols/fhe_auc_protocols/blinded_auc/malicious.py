"""AUC with an aggregator that may lie: the right AUC, or an error.  [FHE] §IV-D, corrected.

The circuit, rounds and keys are those of `fhe_auc_protocols.blinded_auc.semi_honest`. What parties encrypt is disguised
(`fhe_auc_protocols.blinded_auc.split_shares`) in E executions, two classes each, in the same ciphertext; a mask that vanishes only in the sum
over all parties is added to every ciphertext. A party accepts only if

    - the slots of every class agree,
    - no den' is near zero,
    - the AUC of all executions agree within the tolerance, and so do the resolutions,
    - the AUC lies between 0 and 1.

Every party takes part, since masks do not vanish otherwise. What this is worth against which attack is measured in
docs/security/malicious.md; it rests on the common secret's being kept from the aggregator, so that one party that gives
it away undoes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

import numpy as np

from fhe_auc import ckks
from fhe_auc.computation import PartyTask
from fhe_auc.counts import PartyData, count
from fhe_auc.errors import InputError, VerificationError
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Request
from fhe_auc_keys.encrypted_protocol import check_rows
from fhe_auc_protocols.blinded_auc import split_shares
from fhe_auc_protocols.blinded_auc.error_bound import MAX_AMPLIFICATION, disagreement, error_bound
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.protocol import BlindedAuc
from fhe_auc_protocols.blinded_auc.result_check import Recovered, rare_class_warning, slot_error
from fhe_auc_protocols.blinded_auc.split_shares import Execution, amplification
from fhe_auc_protocols.blinded_auc.workload import MAX_SPLITS, Workload
from fhe_auc_protocols.result_warnings import of_auc

DEFAULT_SPLITS = 2
DEFAULT_EXECUTIONS = 4
FLOODING_BITS = 34
"""λ: less than elsewhere, since errors are amplified, and executions are to agree closely."""

_LOOSE = 2.0  # times the error bound: a tolerance from here on is worth a warning
_SPLITS = range(2, MAX_SPLITS + 1)
_EXECUTIONS = (2, 4, 8)


class Malicious(BlindedAuc):
    """Plug-in ``malicious``."""

    name = "malicious"
    summary = "CKKS, disguised and executed several times: parties get the right AUC or an error"
    trust = "the aggregator does not collude with a party; that it computes what it should is checked"
    all_parties = True
    options = MappingProxyType(
        {
            "executions": "how often the AUC is computed, in the same ciphertext: 2, 4 or 8; default 4",
            "splits": "positions that each threshold takes, 2 to 4; default 2",
            "tolerance": "by how much executions may differ; default: the bound on the numerical error",
        }
    )

    def workload(self, request: Request) -> Workload:
        """Return what the parameters must carry; options: ``splits``, ``executions``, ``tolerance``."""
        splits = request.options.get("splits", DEFAULT_SPLITS)
        executions = request.options.get("executions", DEFAULT_EXECUTIONS)
        if not isinstance(splits, Integral) or splits not in _SPLITS:
            raise InputError(f"splits must lie between {_SPLITS[0]} and {_SPLITS[-1]}, got {splits!r}")
        if not isinstance(executions, Integral) or executions not in _EXECUTIONS:
            raise InputError(f"executions must be one of {', '.join(map(str, _EXECUTIONS))}, got {executions!r}")
        return Workload(
            thresholds=len(request.thresholds),
            parties=len(request.parties),
            classes=2 * int(executions),
            max_rows=request.max_rows,
            min_rows=request.min_rows,
            splits=int(splits),
            joint_keys=request.keys == "joint",
        )

    def task(self, manifest: Manifest, data: PartyData) -> PartyTask[ckks.Slots, ckks.Slots, Evaluation]:
        """Return a party's computation on its own rows."""
        return MaliciousTask(manifest, data)

    def _plan_options(self, request: Request) -> dict[str, Any]:
        tolerance = request.options.get("tolerance")
        if tolerance is not None and not isinstance(tolerance, Real):
            raise InputError(f"tolerance must be a number, got {tolerance!r}")
        accepted = None if tolerance is None else float(tolerance)
        return {"flooding_bits": FLOODING_BITS, "tolerance": accepted}


class MaliciousTask(PartyTask[ckks.Slots, ckks.Slots, Evaluation]):
    """Disguises a party's counts, and accepts a result only if all executions agree."""

    masked = True

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        self.party = data.name
        self.plan = manifest.decoded_plan(AucPlan)
        self._manifest = manifest
        self._data = data
        check_rows(data, self.plan.workload.max_rows)
        if not self.plan.workload.disguised or manifest.min_parties != len(manifest.parties):
            raise InputError("the session's manifest is not one for disguised counts of all parties")
        if self.plan.workload.classes not in [2 * executions for executions in _EXECUTIONS]:
            # One execution alone would agree with itself.
            raise InputError(
                f"the session's manifest has {self.plan.workload.classes} classes, which no executions fit"
            )

    def encode(self, common_secret: bytes) -> list[ckks.Slots]:
        """Return the packed vectors of all executions."""
        counts = count(self._data, self._manifest.thresholds)
        return self.plan.packing.pack(*split_shares.class_vectors(self.executions(common_secret), counts))

    def read(self, decrypted: ckks.Slots, parties: int, common_secret: bytes) -> Evaluation:
        """Return AUC and resolution; errors as `recover`."""
        recovered = recover(decrypted, self.plan, self.executions(common_secret))
        workload = self.plan.workload
        return Evaluation(
            auc=recovered.auc,
            resolution=recovered.resolution,
            precision=error_bound(self.plan),
            protocol=self._manifest.protocol,
            backend=self.plan.parameters.backend,
            parties=parties,
            thresholds=workload.thresholds,
            verified=True,
            security_bits=ckks.SECURITY_BITS,
            settings={
                "executions": workload.classes // 2,
                "splits": workload.splits,
                "tolerance": self.plan.tolerance,
            },
            warnings=(
                of_auc(self._manifest, parties, recovered.resolution)
                + rare_class_warning(self.plan)
                + _loose(self.plan)
            ),
        )

    def executions(self, common_secret: bytes) -> list[Execution]:
        """Return the secrets of all executions, the same for every party of the session."""
        return split_shares.executions(common_secret, self._manifest.digest, self.plan)


def _loose(chosen: AucPlan) -> tuple[str, ...]:
    """Return a warning where executions may differ by far more than they honestly do."""
    times = chosen.tolerance / disagreement(chosen)
    if times < _LOOSE:
        return ()
    return (
        f"the tolerance is {times:,.0f} times what numerical errors need: a lying aggregator passes more often, and "
        f"may change the AUC by {chosen.tolerance:g} unnoticed",
    )


def recover(slots: ckks.Slots, chosen: AucPlan, executions: Sequence[Execution]) -> Recovered:
    """Return the AUC from the decrypted slots of the result.

    Raises
    ------
    VerificationError
        A check fails; no number is given.
    """
    by_class = chosen.packing.by_class(slots)
    if not np.isfinite(slots).all():
        raise VerificationError(_REFUSED.format("values are not finite"), check="finite")
    totals = by_class.mean(axis=1)
    if np.abs(by_class - totals[:, None]).max() > slot_error(float(np.abs(totals).max()), chosen):
        raise VerificationError(_REFUSED.format("the slots of a class differ"), check="slots")
    return accept(totals, chosen, executions)


def accept(totals: ckks.Slots, chosen: AucPlan, executions: Sequence[Execution]) -> Recovered:
    """Return the AUC from class totals, num' and den' of each execution in turn; errors as `recover`."""
    nums, dens = totals[0::2], totals[1::2]
    # One positive and one negative row give 2·gain·r·R4R5; half of that at the smallest r is as good as zero.
    zero = chosen.least_multiplier * chosen.packing.gain
    if any(abs(den) < zero * abs(each.products[2]) for den, each in zip(dens, executions, strict=True)):
        raise VerificationError(
            "a denominator is near zero, so no number is given: all pooled rows have one label, or the result is "
            "forged",
            check="denominator",
        )
    found = np.array([each.recover(*pair) for each, *pair in zip(executions, nums, dens, strict=True)])
    allowed = chosen.tolerance * amplification(np.array([each.multipliers for each in executions])) / MAX_AMPLIFICATION
    difference = found[:, None] - found
    apart = np.maximum(np.abs(difference.real), np.abs(difference.imag))
    if not (apart <= np.hypot(allowed[:, None], allowed)).all():
        raise VerificationError(_REFUSED.format("the executions disagree"), check="executions")
    weights = allowed**-2.0 / (allowed**-2.0).sum()
    value = complex(weights @ found)
    if not -chosen.tolerance <= value.real <= 1 + chosen.tolerance:
        raise VerificationError(_REFUSED.format("the AUC is outside its range"), check="range")
    return Recovered(float(np.clip(value.real, 0, 1)), max(value.imag, 0.0))


_REFUSED = (
    "the result fails its check ({}), so no number is given: the aggregator has not computed what it should, the "
    "pooled rows are more than max_rows, a message is damaged or a key is wrong"
)

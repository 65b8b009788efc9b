"""AUC with an aggregator that may lie: the right AUC, or an error.  [FHE] §IV-D, corrected.

The circuit, rounds and keys are those of `semi_honest`. Parties encrypt split shares of their counts (`split_shares`)
in E executions, two classes each, in the same ciphertext, under a mask that vanishes only in the sum over all parties
(`fhe_auc.session.ckks_computation`). They compare which result they were given (`fhe_auc_keys.roles.key_mode.Echo`),
and accept it by `result_check`. What this is worth against which attack: docs/security/malicious.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fhe_auc.base.errors import InputError
from fhe_auc.ckks import Slots
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe.backends import choose_backend
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_keys.roles.key_mode import Echo, require_all
from fhe_auc_keys.roles.sealed_roles import SealedKeys
from fhe_auc_protocols import options as options_of
from fhe_auc_protocols.blinded_auc import ckks_parameter_choice, split_shares
from fhe_auc_protocols.blinded_auc.error_bound import disagreement
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.protocol import BlindedAuc, BlindedTask, trapezoid_computation
from fhe_auc_protocols.blinded_auc.result_check import recover_verified
from fhe_auc_protocols.blinded_auc.split_shares import Execution
from fhe_auc_protocols.blinded_auc.workload import MAX_SPLITS, Workload

FLOODING_BITS = 34  # λ: less than elsewhere, since errors are amplified, and executions are to agree closely
_LOOSE = 2.0  # times the error bound: a tolerance from here on is worth a warning
_SPLITS = range(2, MAX_SPLITS + 1)
_EXECUTIONS = (2, 4, 8)


class Malicious(BlindedAuc):
    """Plug-in ``malicious``."""

    name = "malicious"
    summary = "CKKS, counts split into shares, executed several times: parties get the right AUC or an error"
    trust = "the aggregator does not collude with a party; that it computes what it should is checked"
    modes: ClassVar = {"sealed": SealedKeys(trapezoid_computation, Echo())}
    options = options_of.Malicious

    def workload(self, request: Request) -> Workload:
        """Return what the parameters must carry; `InputError` unless ``splits`` is 2 to 4, ``executions`` 2, 4 or 8."""
        splits = request.options.get("splits", self.options.splits)
        executions = request.options.get("executions", self.options.executions)
        if not isinstance(splits, int) or splits not in _SPLITS:
            raise InputError(f"splits must lie between {_SPLITS[0]} and {_SPLITS[-1]}, got {splits!r}")
        if not isinstance(executions, int) or executions not in _EXECUTIONS:
            raise InputError(f"executions must be one of {', '.join(map(str, _EXECUTIONS))}, got {executions!r}")
        return Workload(
            thresholds=len(request.thresholds),
            parties=len(request.parties),
            classes=2 * executions,
            max_rows=request.max_rows,
            min_rows=request.min_rows,
            splits=splits,
        )

    def task(self, manifest: Manifest, data: PartyData) -> MaliciousTask:
        """Return a party's computation on its own rows."""
        return MaliciousTask(manifest, data)

    def planned(self, request: Request) -> AucPlan:
        """Return the parameters for workload and tolerance; the option ``tolerance`` is in (0, 1e-3].

        Raise `InputError` where it is no number, `CapacityError` where it is out of range or no parameters do.
        """
        require_all(request)
        tolerance = request.options.get("tolerance")
        if tolerance is not None and not isinstance(tolerance, (int, float)):
            raise InputError(f"tolerance must be a number, got {tolerance!r}")
        return ckks_parameter_choice.plan(
            self.workload(request),
            choose_backend(request.backend),
            flooding_bits=FLOODING_BITS,
            tolerance=None if tolerance is None else float(tolerance),
        )


class MaliciousTask(BlindedTask):
    """Splits a party's counts into shares, and accepts a result only if all executions agree.

    Raises `InputError`: the manifest's plan is not one for split shares of all parties, with 2, 4 or 8 executions; or
    the party alone has more rows than the session may have.
    """

    masked = True

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        super().__init__(manifest, data)
        if not self.plan.workload.is_split or manifest.min_parties != len(manifest.parties):
            raise InputError("the session's manifest is not one for split shares of all parties")
        if self.plan.workload.classes not in [2 * executions for executions in _EXECUTIONS]:
            # One execution alone would agree with itself.
            raise InputError(f"no executions fit the {self.plan.workload.classes} classes of the session's manifest")

    def encode(self, common_secret: bytes) -> list[Slots]:
        """Return the packed vectors of all executions, one a block."""
        return self.plan.packing.pack(*split_shares.class_vectors(self.executions(common_secret), self.counts()))

    def read(self, decrypted: Slots, counted: Sequence[str], common_secret: bytes) -> Evaluation:
        """Return AUC and binning error; errors as `fhe_auc_protocols.blinded_auc.result_check.recover_verified`."""
        recovered = recover_verified(decrypted, self.plan, self.executions(common_secret))
        workload = self.plan.workload
        settings = {"executions": workload.classes // 2, "splits": workload.splits, "tolerance": self.plan.tolerance}
        return self.evaluation(recovered, len(counted), *_loose(self.plan), verified=True, settings=settings)

    def executions(self, common_secret: bytes) -> list[Execution]:
        """Return the secrets of all executions, the same for every party of the session."""
        return split_shares.executions(common_secret, self._manifest.digest, self.plan)


def _loose(plan: AucPlan) -> tuple[str, ...]:
    """Return a warning where executions may differ by far more than they honestly do."""
    times = plan.tolerance / disagreement(plan)
    if times < _LOOSE:
        return ()
    return (
        f"the tolerance is {times:,.0f} times what numerical errors need: a lying aggregator passes more often, and "
        f"may change the AUC by {plan.tolerance:g} unnoticed",
    )

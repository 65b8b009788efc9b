"""What `semi_honest` and `malicious` have in common: one circuit, and how a party's result is told."""

from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar

from fhe_auc.ckks import SECURITY_BITS, Slots
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe.backends import choose_backend
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.ckks_computation import SealedCkks
from fhe_auc.session.computation import PartyTask
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request, check_rows
from fhe_auc_keys.roles.encrypted_protocol import EncryptedProtocol
from fhe_auc_keys.roles.sealed_roles import SealedKeys
from fhe_auc_protocols.blinded_auc import ckks_parameter_choice
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import blinded_totals
from fhe_auc_protocols.blinded_auc.error_bound import RAREST, error_bound
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.result_check import Recovered
from fhe_auc_protocols.blinded_auc.workload import Workload
from fhe_auc_protocols.result_warnings import of_precise_auc

_RARER_CLASS = f"the precision stated holds if at least one row in {RAREST:,} is of the rarer class"


def trapezoid_computation(manifest: Manifest) -> SealedCkks:
    """Return the trapezoid under CKKS; raise `InputError` where the plan is another protocol's."""
    plan = manifest.decoded_plan(AucPlan)
    return SealedCkks(manifest, plan, partial(blinded_totals, plan))


class BlindedAuc(EncryptedProtocol[Evaluation, AucPlan]):
    """Base of the protocols that compute the blinded totals of an AUC."""

    plan_type = AucPlan
    boundaries = "boundaries-federated"
    modes: ClassVar = {"sealed": SealedKeys(trapezoid_computation)}

    @abstractmethod
    def workload(self, request: Request) -> Workload:
        """Return what the parameters must carry; raise `InputError` for an option of a wrong value."""

    def planned(self, request: Request) -> AucPlan:
        """Return the parameters for the workload; raise `CapacityError` where there are none."""
        return ckks_parameter_choice.plan(self.workload(request), choose_backend(request.backend))


class BlindedTask(PartyTask[Slots, Slots, Evaluation]):
    """Base of what a party does; raises `InputError` for another kind of plan, or too many rows for the session."""

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        self.party = data.name
        self.plan = manifest.decoded_plan(AucPlan)
        self._manifest, self._data = manifest, data
        check_rows(data.rows, self.plan.workload.max_rows, party=data.name)

    def counts(self) -> Counts:
        """Return the counts of this party's rows at the session's thresholds."""
        return count(self._data, self._manifest.thresholds)

    def evaluation(self, recovered: Recovered, parties: int, *warnings: str, **own: Any) -> Evaluation:
        """Return what a party tells of its result; `warnings` and other fields (`own`) are the protocol's own."""
        if self.plan.workload.max_rows > RAREST:
            warnings = (_RARER_CLASS, *warnings)
        return Evaluation(
            auc=recovered.auc,
            binning_error=recovered.binning_error,
            numerical_error=error_bound(self.plan),
            protocol=self._manifest.protocol,
            backend=self.plan.parameters.backend,
            parties=parties,
            thresholds=self.plan.thresholds,
            security_bits=SECURITY_BITS,
            warnings=of_precise_auc(self._manifest, parties, recovered.binning_error) + warnings,
            **own,
        )

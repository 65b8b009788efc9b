"""Base of the two protocols that compute the blinded totals of an AUC."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any

from fhe_auc.ckks.computation import Circuit
from fhe_auc.evaluation import Evaluation
from fhe_auc.protocol import Request
from fhe_auc.rlwe.parameters import BackendName
from fhe_auc_protocols.blinded_auc import planner
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import blinded_totals
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.workload import Workload
from fhe_auc_protocols.ckks_protocol import CkksProtocol


class BlindedAuc(CkksProtocol[Evaluation, AucPlan]):
    """Base of the protocols that compute the blinded totals of an AUC."""

    plan_type = AucPlan
    multiplies = True
    boundaries = "boundaries-federated"

    @abstractmethod
    def workload(self, request: Request) -> Workload:
        """Return what the parameters must carry; raise `InputError` for an option of a wrong value."""

    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> AucPlan:
        """Return the parameters for the workload."""
        return planner.plan(self.workload(request), backend, smudging_bits=smudging_bits, **self._plan_options(request))

    def circuit(self, plan: AucPlan) -> Circuit:
        """Return the circuit of the trapezoid."""
        return partial(blinded_totals, plan)

    def _plan_options(self, request: Request) -> dict[str, Any]:
        """Return what the planner is told besides the workload."""
        return {}

"""Base of the protocols that compute under CKKS: their computation is a circuit, under either kind of keys."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, TypeVar

from fhe_auc.ckks.computation import Circuit, JointCkksPlan, SealedCkks
from fhe_auc.ckks.parameters import JOINT_BACKEND
from fhe_auc.computation import JointComputation
from fhe_auc.manifest import Manifest
from fhe_auc.rounds import R
from fhe_auc_keys.encrypted_protocol import EncryptedProtocol

P = TypeVar("P", bound=JointCkksPlan)


class CkksProtocol(EncryptedProtocol[R, P]):
    """Base of the CKKS protocols: the computation, given the circuit."""

    joint_backend = JOINT_BACKEND

    echoed: ClassVar[bool] = False
    """As `fhe_auc.computation.SealedComputation.echoed`."""

    @abstractmethod
    def circuit(self, plan: P) -> Circuit:
        """Return what the aggregator computes."""

    def sealed_computation(self, manifest: Manifest) -> SealedCkks:
        """Return the computation of a session with sealed keys; raise `InputError` where the plan is another's."""
        plan = self.plan_of(manifest)
        return SealedCkks(manifest, plan, self.circuit(plan), echoed=self.echoed)

    def joint_computation(self, manifest: Manifest, binding: bytes) -> JointComputation[Any, Any, Any, Any]:
        """Return the computation of a session with joint keys; errors likewise. Needs OpenFHE."""
        plan = self.plan_of(manifest)
        from fhe_auc.ckks.openfhe_joint_computation import JointCkks  # needs OpenFHE

        return JointCkks(manifest, plan, self.circuit(plan), binding)

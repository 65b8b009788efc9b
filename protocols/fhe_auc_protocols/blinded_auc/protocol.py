"""What the CKKS protocols share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.ckks import BackendName
from fhe_auc.counts import PartyData
from fhe_auc.errors import InputError
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Request
from fhe_auc.rounds import Aggregator, Party, R
from fhe_auc_keys.encrypted_protocol import KeyedProtocol
from fhe_auc_keys.sealed_roles import Branch, CkksAggregator, CkksParty, PartyTask
from fhe_auc_keys.session_keys import PartySecrets
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.planner import plan
from fhe_auc_protocols.blinded_auc.workload import Workload

if TYPE_CHECKING:
    from fhe_auc_keys.joint_computation import JointComputation  # needs OpenFHE

_Real = TypeVar("_Real", float, NDArray[np.float64])

_CONFIDENCE = 10.0
"""Standard deviations of noise that the checks allow: an honest result is refused with probability below 10^-20."""

DECODING = 2.0**-40
"""Error of decoding in double precision, relative to the largest value."""


class Recovered(NamedTuple):
    """What a party reads off the decrypted result."""

    auc: float
    resolution: float


class EncryptedProtocol(KeyedProtocol[R]):
    """Base of the CKKS protocols: the roles, given what to compute."""

    @abstractmethod
    def task(self, manifest: Manifest, data: PartyData) -> PartyTask[R]:
        """Return a party's computation on its own rows."""

    def sealed_aggregator(self, manifest: Manifest, public_context: bytes) -> Aggregator:
        """Return the aggregator of a session with sealed keys."""
        return CkksAggregator(manifest, ckks.load_public(public_context))

    def sealed_party(self, manifest: Manifest, secrets: PartySecrets, task: PartyTask[R]) -> Party[R]:
        """Return a party of a session with sealed keys."""
        return CkksParty(manifest, ckks.load_secret(secrets.context), task, common_secret=secrets.common_secret)

    def joint_computation(self, manifest: Manifest) -> JointComputation[Any, Any, Any, R]:
        """Return what the rounds of a session with joint keys compute."""
        from fhe_auc_keys.joint_computation import CkksComputation  # needs OpenFHE

        return CkksComputation(manifest)

    def branch(self, manifest: Manifest, material: bytes, parties: Iterable[str]) -> Branch:
        """Return a branch of the aggregator; sealed keys only."""
        if manifest.joint_keys:
            raise InputError("sessions with joint keys cannot be aggregated in branches")
        return Branch(manifest, ckks.load_public(material), parties)


class BlindedAuc(EncryptedProtocol[Evaluation]):
    """Base of the protocols that compute the blinded totals of an AUC."""

    boundaries = "boundaries-federated"

    @abstractmethod
    def workload(self, request: Request) -> Workload:
        """Return what the parameters must carry; raise `InputError` for an option of a wrong value."""

    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> AucPlan:
        """Return the parameters for the workload."""
        return plan(self.workload(request), backend, smudging_bits=smudging_bits, **self._plan_options(request))

    def _plan_options(self, request: Request) -> dict[str, Any]:
        """Return what the planner is told besides the workload."""
        return {}


def slot_error(size: _Real, chosen: AucPlan) -> _Real:
    """Return by how much a slot of a genuine result may differ from its class's mean; `size` is the largest total.

    It errs by the noise that was added, and by decoding.
    """
    return _CONFIDENCE * chosen.noise_deviation + DECODING * size

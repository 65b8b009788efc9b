"""What the CKKS protocols share: who makes the keys, and which roles follow from it.

keys "sealed"   a key holder makes all keys and seals the secret one to each party      2 rounds
keys "joint"    the parties make the keys together; nobody has the whole secret key     4 rounds
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.ckks import BackendName
from fhe_auc.ckks_rounds import AnyPlan, Branch, CkksAggregator, CkksParty, PartyTask
from fhe_auc.counts import PartyData
from fhe_auc.errors import InputError
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.planner import DEFAULT_SMUDGING_BITS, JOINT_KEYS_BACKEND, RAREST, Plan, Workload, plan
from fhe_auc.protocol import Delivery, Protocol, Request, Session
from fhe_auc.rounds import Aggregator, Party, R
from keys import rehearsal
from keys.errors import WrongContextError
from keys.holder import new_session_keys, party_secrets
from keys.roster import Roster
from protocols.caveats import of_parties
from protocols.red_team.strategies import STRATEGIES

_Real = TypeVar("_Real", float, NDArray[np.float64])

_KEYS = ("sealed", "joint")
_COARSE = 0.01  # a half-width above this is worth a warning
_CONFIDENCE = 10.0
"""Standard deviations of noise that the checks allow: an honest result is refused with probability below 10^-20."""

DECODING = 2.0**-40
"""Error of decoding in double precision, relative to the largest value."""


class Recovered(NamedTuple):
    """What a party reads off the decrypted result."""

    auc: float
    resolution: float


class EncryptedProtocol(Protocol[R]):
    """Base of the CKKS protocols: `prepare` and the roles, given what to compute."""

    all_parties: ClassVar[bool] = False
    """Whether the session ends without a result where a party is missing, with sealed keys too."""

    @abstractmethod
    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> AnyPlan:
        """Return the parameters; raise `InputError` for an option of a wrong value.

        Parameters
        ----------
        request : Request
        backend : "openfhe" or "tenseal"
        smudging_bits : int
            With joint keys.
        """

    @abstractmethod
    def task(self, manifest: Manifest, data: PartyData) -> PartyTask[R]:
        """Return a party's computation on its own rows."""

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the options that the manifest carries, beside the plan."""
        return {}

    def prepare(self, request: Request) -> Session:
        """Plan and name the session; generate keys, unless the parties are to make them together."""
        self.check_options(request.options)
        if request.keys not in _KEYS:
            raise InputError(f"keys must be {' or '.join(map(repr, _KEYS))}, got {request.keys!r}")
        everybody = request.min_parties in (None, len(request.parties))
        if not everybody and (self.all_parties or request.keys == "joint"):
            raise InputError("here no party can be left out: min_parties does not apply")
        options = self.agreed(request)  # what is wrong with them shows before keys are made
        smudging_bits = DEFAULT_SMUDGING_BITS if request.smudging_bits is None else request.smudging_bits
        if request.keys == "joint":
            backend = ckks.choose_backend(request.backend or JOINT_KEYS_BACKEND)
            chosen = self.planned(request, backend, smudging_bits)
            return Session(self.manifest(request, plan=chosen, options=options), b"", b"")
        if request.smudging_bits is not None:
            raise InputError("smudging_bits is for joint keys only: there are no partial decryptions otherwise")
        chosen = self.planned(request, ckks.choose_backend(request.backend), smudging_bits)
        keys = new_session_keys(chosen.parameters)
        manifest = self.manifest(request, context=keys.fingerprint, plan=chosen, options=options)
        return Session(manifest, keys.aggregator, keys.party)

    def rehearse(self, session: Session) -> Delivery:
        """Play authority, key holder and sites in this process; return what each role would be given."""
        return rehearsal.joint(session) if session.manifest.joint_keys else rehearsal.sealed(session)

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is a public context, or with joint keys a `keys.roster.Roster`."""
        if not manifest.joint_keys:
            return CkksAggregator(manifest, ckks.load_public(material))
        from keys.joint import JointAggregator  # needs OpenFHE
        from keys.joint_computation import CkksComputation

        return JointAggregator(manifest, Roster.from_bytes(material), CkksComputation(manifest))

    def branch(self, manifest: Manifest, material: bytes, parties: Iterable[str]) -> Branch:
        """Return a branch of the aggregator; sealed keys only."""
        if manifest.joint_keys:
            raise InputError("sessions with joint keys cannot be aggregated in branches")
        return Branch(manifest, ckks.load_public(material), parties)

    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return a party; `material` is `keys.holder.PartySecrets`, or with joint keys `keys.roster.PartyMaterial`."""
        if not manifest.joint_keys:
            try:
                secrets = party_secrets(material, manifest.context)
            except WrongContextError as error:
                raise InputError(str(error)) from None
            context, task = ckks.load_secret(secrets.context), self.task(manifest, data)
            return CkksParty(manifest, context, task, common_secret=secrets.common_secret)
        from keys.joint import JointParty  # needs OpenFHE
        from keys.joint_computation import CkksComputation

        return JointParty.from_material(manifest, material, self.task(manifest, data), CkksComputation(manifest))


class BlindedAuc(EncryptedProtocol[Evaluation]):
    """Base of the protocols that compute the blinded totals of an AUC, with which a liar has something to try."""

    boundaries = "boundaries-federated"

    @abstractmethod
    def workload(self, request: Request) -> Workload:
        """Return what the parameters must carry; raise `InputError` for an option of a wrong value."""

    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> Plan:
        """Return the parameters for the workload."""
        return plan(self.workload(request), backend, smudging_bits=smudging_bits, **self._plan_options(request))

    def attacks(self) -> Mapping[str, str]:
        """Return the red team's strategies."""
        return {strategy.name: strategy.description for strategy in STRATEGIES}

    def cheating_aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> Aggregator:
        """Return an aggregator that plays a strategy of the red team; sealed keys only."""
        if manifest.joint_keys:
            raise InputError("attacks are played with sealed keys only")
        from protocols.red_team.real import lying_aggregator  # which attacks the protocols built on this module

        return lying_aggregator(attack, manifest, ckks.load_public(material), rows=rows)

    def _plan_options(self, request: Request) -> dict[str, Any]:
        """Return what the planner is told besides the workload."""
        return {}


def slot_error(size: _Real, chosen: Plan) -> _Real:
    """Return by how much a slot of a genuine result may differ from its class's mean; `size` is the largest total.

    It errs by the noise that was added, and by decoding.
    """
    return _CONFIDENCE * chosen.noise_deviation + DECODING * size


def check_rows(data: PartyData, max_rows: int) -> None:
    """Raise `InputError` where a party alone has more rows than the session may have."""
    if len(data.y_score) > max_rows:
        raise InputError(f"party {data.name!r} has more rows than the session's max_rows = {max_rows:,}")


def common_warnings(manifest: Manifest, parties: int, resolution: float) -> tuple[str, ...]:
    """Return what the reader of any result, of so many parties, ought to know."""
    found = list(of_parties(manifest, parties))
    if resolution > _COARSE:
        found.append(
            f"many pairs of rows lie between neighbouring thresholds (half-width {resolution:.3g}): take thresholds "
            "that fit the scores, by number or by range (uniform and hybrid cover 0 to 1)"
        )
    if isinstance(manifest.plan, Plan) and manifest.plan.workload.max_rows > RAREST:
        found.append(f"the precision stated holds if at least one row in {RAREST:,} is of the rarer class")
    return tuple(found)

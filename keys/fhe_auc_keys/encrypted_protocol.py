"""What the encrypted protocols share: who makes the keys, and which roles follow from it.

keys "sealed"   a key holder makes all keys and seals the secret one to each party
keys "joint"    the parties make the keys together (`fhe_auc_keys.joint_roles`); nobody has the whole secret key
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from fhe_auc.counts import PartyData
from fhe_auc.errors import InputError
from fhe_auc.manifest import AnyPlan, Manifest
from fhe_auc.protocol import Delivery, Protocol, Request, Session
from fhe_auc.rlwe.backends import choose_backend
from fhe_auc.rlwe.parameters import BackendName
from fhe_auc.rlwe.statistical_security import DEFAULT_SMUDGING_BITS, JOINT_KEYS_BACKEND
from fhe_auc.rounds import Aggregator, Party, R
from fhe_auc_keys import local_consortium
from fhe_auc_keys.errors import WrongContextError
from fhe_auc_keys.roster import Roster
from fhe_auc_keys.session_keys import PartySecrets, new_session_keys, party_secrets

if TYPE_CHECKING:
    from fhe_auc_keys.joint_computation import JointComputation  # needs OpenFHE

_KEYS = ("sealed", "joint")


class KeyedProtocol(Protocol[R]):
    """Base of the encrypted protocols: parameters, keys, and roles, given what the parties compute."""

    all_parties: ClassVar[bool] = False
    """Whether the session ends without a result where a party is missing, with sealed keys too."""

    @abstractmethod
    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> AnyPlan:
        """Return the parameters of a `completed` request; raise `InputError` for an option of a wrong value.

        Parameters
        ----------
        request : Request
        backend : "openfhe" or "tenseal"
        smudging_bits : int
            With joint keys.
        """

    @abstractmethod
    def task(self, manifest: Manifest, data: PartyData) -> Any:
        """Return a party's computation on its own rows; raise `InputError` where it has none in such a session."""

    @abstractmethod
    def sealed_aggregator(self, manifest: Manifest, public_context: bytes) -> Aggregator:
        """Return the aggregator of a session with sealed keys."""

    @abstractmethod
    def sealed_party(self, manifest: Manifest, secrets: PartySecrets, task: Any) -> Party[R]:
        """Return a party of a session with sealed keys."""

    @abstractmethod
    def joint_computation(self, manifest: Manifest) -> JointComputation[Any, Any, Any, R]:
        """Return what the rounds of a session with joint keys compute."""

    def check_manifest(self, manifest: Manifest) -> None:
        """Raise `InputError` where a manifest is not one that `prepare` returns."""

    def completed(self, request: Request) -> Request:
        """Return the request with the thresholds that its options stand for, where they do."""
        return request

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the options that the manifest carries, beside the plan."""
        return {}

    def plan(self, request: Request) -> AnyPlan:
        """Return the parameters of such a session; errors as `prepare`."""
        self.check_options(request.options)
        if request.keys not in _KEYS:
            raise InputError(f"keys must be {' or '.join(map(repr, _KEYS))}, got {request.keys!r}")
        joint = request.keys == "joint"
        everybody = request.min_parties in (None, len(request.parties))
        if not everybody and (self.all_parties or joint):
            raise InputError("here no party can be left out: min_parties does not apply")
        if request.smudging_bits is not None and not joint:
            raise InputError("smudging_bits is for joint keys only: there are no partial decryptions otherwise")
        request = self.completed(request)
        self.agreed(request)  # what is wrong with options shows before anything depends on them
        backend = choose_backend(request.backend or (JOINT_KEYS_BACKEND if joint else None))
        smudging_bits = DEFAULT_SMUDGING_BITS if request.smudging_bits is None else request.smudging_bits
        return self.planned(request, backend, smudging_bits)

    def prepare(self, request: Request) -> Session:
        """Plan and name the session; generate keys, unless the parties are to make them together."""
        plan = self.plan(request)
        request = self.completed(request)
        options = self.agreed(request)
        if plan.joint_keys:
            return Session(self.manifest(request, plan=plan, options=options), b"", b"")
        keys = new_session_keys(plan.parameters)
        manifest = self.manifest(request, context=keys.fingerprint, plan=plan, options=options)
        return Session(manifest, keys.aggregator, keys.party)

    def local_delivery(self, session: Session) -> Delivery:
        """Play authority, key holder and sites in this process; return what each role would be given."""
        return local_consortium.joint(session) if session.manifest.joint_keys else local_consortium.sealed(session)

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is a public context, or with joint keys a `fhe_auc_keys.roster.Roster`."""
        self.check_manifest(manifest)
        if not manifest.joint_keys:
            return self.sealed_aggregator(manifest, material)
        from fhe_auc_keys.joint_roles import JointAggregator  # needs OpenFHE

        return JointAggregator(manifest, Roster.from_bytes(material), self.joint_computation(manifest))

    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return a party; `material` is `fhe_auc_keys.session_keys.PartySecrets`, or with joint keys `fhe_auc_keys.roster.PartyMaterial`."""
        self.check_manifest(manifest)
        if not manifest.joint_keys:
            try:
                secrets = party_secrets(material, manifest.context)
            except WrongContextError as error:
                raise InputError(str(error)) from None
            return self.sealed_party(manifest, secrets, self.task(manifest, data))
        from fhe_auc_keys.joint_roles import JointParty  # needs OpenFHE

        return JointParty.from_material(manifest, material, self.task(manifest, data), self.joint_computation(manifest))


def check_rows(data: PartyData, max_rows: int) -> None:
    """Raise `InputError` where a party alone has more rows than the session may have."""
    if len(data.y_score) > max_rows:
        raise InputError(f"party {data.name!r} has more rows than the session's max_rows = {max_rows:,}")

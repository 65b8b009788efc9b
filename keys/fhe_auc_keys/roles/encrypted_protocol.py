"""Base of the encrypted protocols: who makes the keys, and which roles follow from it.

keys "sealed"   a key holder makes all keys and seals the secret one to each party (`fhe_auc_keys.roles.sealed_roles`)
keys "joint"    the parties make the keys together (`fhe_auc_keys.roles.joint_roles`); nobody has the whole secret key
keys "helper"   a helper makes the keys (`fhe_auc_keys.roles.helper_roles`)

A protocol brings its plan, its computation under either kind of keys, and a party's task.
docs/guide/write-a-protocol.md writes one.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.base.serialise import decode
from fhe_auc.rlwe.backends import choose_backend
from fhe_auc.rlwe.parameters import BackendName
from fhe_auc.rlwe.statistical_security import DEFAULT_SMUDGING_BITS
from fhe_auc.rows.counts import PartyData
from fhe_auc.session.computation import JointComputation, PartyTask, SealedComputation
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import Plan
from fhe_auc.session.protocol import Delivery, Protocol, Request, Session
from fhe_auc.session.rounds import Aggregator, Party, R
from fhe_auc_keys.bundles.roster import PartyMaterial, Roster
from fhe_auc_keys.bundles.session_keys import (
    SEED_BYTES,
    PartySecrets,
    aggregator_material,
    new_session_keys,
    party_secrets,
    public_context,
)
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.roles import local_consortium
from fhe_auc_keys.roles.helper_roles import HelpedAggregator, HelpedParty, HelpedPartyRole, Helper, HelperMaterial
from fhe_auc_keys.roles.joint_roles import JointAggregator, JointParty
from fhe_auc_keys.roles.sealed_roles import SealedAggregator, SealedParty
from fhe_auc_keys.trust.identity import Identity

_KEYS = ("sealed", "joint", "helper")
P = TypeVar("P", bound=Plan)
T = TypeVar("T")


class EncryptedProtocol(Protocol[R], Generic[R, P]):
    """Base of the encrypted protocols: parameters, keys and roles, given what is computed."""

    plan_type: ClassVar[type[Any]]
    """Type of the plans in manifests of this protocol."""

    all_parties: ClassVar[bool] = False
    """Whether the session ends without a result where a party is missing, with sealed keys too."""

    joint: ClassVar[bool] = False
    """Whether the parties may make the keys together: then it has a `joint_computation`."""

    helped: ClassVar[bool] = False
    """Whether a helper may have the key in place of the parties: what they submit is padded then."""

    @abstractmethod
    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> P:
        """Return the parameters of a `completed` request; raise `InputError` for an option of a wrong value.

        With sealed keys, `smudging_bits` mean nothing.
        """

    @abstractmethod
    def task(self, manifest: Manifest, data: PartyData) -> PartyTask[Any, Any, R]:
        """Return a party's task on its own rows; raise `InputError` where it has none in such a session."""

    @abstractmethod
    def sealed_computation(self, manifest: Manifest) -> SealedComputation[Any, Any, Any, Any]:
        """Return the computation of a session with sealed keys."""

    def joint_computation(self, manifest: Manifest, binding: bytes) -> JointComputation[Any, Any, Any]:
        """Return the computation of a session with joint keys; raise `InputError` where there is none.

        `binding` names the session and all parties' keys: `fhe_auc_keys.bundles.roster.Roster.binding`.
        """
        raise InputError(f"protocol {self.name!r} has no joint keys")

    def completed(self, request: Request) -> Request:
        """Return the request with the thresholds that its options stand for, where they do."""
        return request

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the options that the manifest carries, beside the plan."""
        return {}

    def plan_of(self, manifest: Manifest) -> P:
        """Return the plan in a manifest of this protocol; raise `InputError` where a manifest is not such a one."""
        plan: P = manifest.decoded_plan(self.plan_type)
        return plan

    def plan(self, request: Request) -> P:
        """Return the parameters of such a session; errors as `prepare`."""
        self.check_options(request.options)
        if request.keys not in _KEYS:
            raise InputError(f"keys must be {' or '.join(map(repr, _KEYS))}, got {request.keys!r}")
        if request.keys == "helper" and not self.helped:
            raise InputError(f"protocol {self.name!r} has no helpers; exact and verified have")
        joint = request.keys == "joint"
        if joint and not self.joint:
            raise InputError(f"protocol {self.name!r} has no joint keys; exact, verified and the histograms have")
        everybody = request.min_parties in (None, request.size)
        if not everybody and (self.all_parties or joint):
            raise InputError(
                "min_parties does not apply: with joint keys, and with malicious, no party can be left out"
            )
        if request.smudging_bits is not None and not joint:
            raise InputError("smudging_bits is for joint keys only: there are no partial decryptions otherwise")
        request = self.completed(request)
        self.agreed(request)  # what is wrong with options shows before anything depends on them
        backend = choose_backend(request.backend)
        smudging_bits = DEFAULT_SMUDGING_BITS if request.smudging_bits is None else request.smudging_bits
        return self.planned(request, backend, smudging_bits)

    def prepare(self, request: Request) -> Session:
        """Plan and name the session; generate keys, unless the parties are to make them together."""
        plan = self.plan(request)
        request = self.completed(request)
        options = self.agreed(request)
        if plan.keys != "sealed":
            return Session(self.manifest(request, plan=plan, options=options), b"", b"")
        keys = new_session_keys(plan.parameters)
        manifest = self.manifest(request, context=keys.fingerprint, plan=plan, options=options)
        computation = self.sealed_computation(manifest)
        if not computation.padded:
            return Session(manifest, keys.aggregator, keys.party, loaded=keys.loaded)
        seeds = {party: secrets.token_bytes(SEED_BYTES) for party in manifest.parties}
        opening = b""
        if not computation.late:
            opening = computation.opening(party_secrets(keys.party, keys.fingerprint).context, seeds)
        return Session(manifest, aggregator_material(keys.aggregator, opening), keys.party, seeds, keys.loaded)

    def local_delivery(self, session: Session) -> Delivery:
        """Play authority, key holder and sites in this process; return what each role would be given."""
        if session.manifest.joint_keys:
            return local_consortium.joint(session)
        if session.manifest.keys == "helper":
            return local_consortium.helped(session)
        computation, delivery = self.sealed_computation(session.manifest), local_consortium.sealed(session)
        if not computation.late:
            return delivery

        opened: list[tuple[str, ...]] = []

        def open_late(counted: tuple[str, ...]) -> bytes:
            if opened not in ([], [counted]):
                raise EvaluationError("the opening for other parties has been made; a session has one")
            opened[:] = [counted]
            secret = party_secrets(session.party_material, session.manifest.context).context
            return computation.opening(secret, {party: session.seeds[party] for party in counted})

        return replace(delivery, open_late=open_late)

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator.

        `material` is a public context, with joint keys the parties' `fhe_auc_keys.bundles.roster.Roster`; a helper's
        keys come later.
        """
        self._check_named(manifest)
        if manifest.keys == "helper":
            return HelpedAggregator(manifest, self.sealed_computation(manifest))
        if not manifest.joint_keys:
            return self.sealed_aggregator(manifest, material)
        roster = Roster.from_bytes(material)
        return JointAggregator(manifest, roster, self.joint_computation(manifest, roster.binding(manifest)))

    def new_party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return a party.

        `material` is `fhe_auc_keys.bundles.session_keys.PartySecrets`, or with joint keys
        `fhe_auc_keys.bundles.roster.PartyMaterial`; raise `InputError` where it is not of this session.
        """
        self._check_named(manifest)
        if manifest.keys == "helper":
            helped = _read(material, HelpedParty)
            return HelpedPartyRole(manifest, self.sealed_computation(manifest), helped, self.task(manifest, data))
        if not manifest.joint_keys:
            try:
                own = party_secrets(material, manifest.context)
            except KeysError as error:
                raise InputError(str(error)) from None
            return self.sealed_party(manifest, own, data)
        mine, task = PartyMaterial.from_bytes(material), self.task(manifest, data)
        identity = Identity.from_bytes(mine.identity)
        computation = self.joint_computation(manifest, mine.roster.binding(manifest))
        return JointParty(manifest, mine.roster, identity, task, computation)

    def helper(self, manifest: Manifest, material: bytes) -> Helper:
        """Return the helper; `material` is a `fhe_auc_keys.roles.helper_roles.HelperMaterial`."""
        self._check_named(manifest)
        return Helper(manifest, self.sealed_computation(manifest), _read(material, HelperMaterial))

    def _check_named(self, manifest: Manifest) -> None:
        """Raise `InputError` as `plan_of`, and where the manifest names no parties."""
        self.plan_of(manifest)
        if manifest.fleet is not None:
            raise InputError("the session is a fleet's, which names no parties: see `fhe-auc fleet`")

    def sealed_aggregator(self, manifest: Manifest, public_keys: bytes) -> Aggregator:
        """Return the aggregator of a session with sealed keys."""
        computation = self.sealed_computation(manifest)
        return SealedAggregator(manifest, computation, computation.load_public(*public_context(public_keys)))

    def sealed_party(self, manifest: Manifest, own: PartySecrets, data: PartyData) -> Party[R]:
        """Return a party of a session with sealed keys."""
        computation = self.sealed_computation(manifest)
        keys = computation.load_secret(own.context, own.seed)
        return SealedParty(manifest, computation, keys, self.task(manifest, data), common_secret=own.common_secret)


def _read(material: bytes, shape: type[T]) -> T:
    """Return a role's material; raise `InputError` where it is none of this kind."""
    try:
        return decode(material, shape, "material")
    except DeserialisationError as error:
        raise InputError(str(error)) from None

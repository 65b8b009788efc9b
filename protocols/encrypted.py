"""What the CKKS protocols share: who makes the keys, and which roles follow from it.

keys "sealed"   a key holder makes all keys and seals the secret one to each party      2 rounds
keys "joint"    the parties make the keys together; nobody has the whole secret key     4 rounds
"""

from __future__ import annotations

from abc import abstractmethod

from fhe_auc import ckks
from fhe_auc.ckks_rounds import CkksAggregator, CkksParty, PartyTask
from fhe_auc.counts import PartyData
from fhe_auc.errors import DeserialisationError, InputError
from fhe_auc.manifest import Manifest
from fhe_auc.planner import DEFAULT_SMUDGING_BITS, JOINT_KEYS_BACKEND, Plan, Workload, plan
from fhe_auc.protocol import Delivery, Protocol, Request, Session, new_session_id
from fhe_auc.rounds import Aggregator, Party
from fhe_auc.serialise import decode
from keys import rehearsal
from keys.errors import WrongContextError
from keys.holder import new_session_keys, party_secrets
from keys.identity import Identity
from keys.roster import PartyMaterial, Roster

_KEYS = ("sealed", "joint")


class EncryptedProtocol(Protocol):
    """Base of the CKKS protocols: `prepare` and the roles, given what to compute."""

    @abstractmethod
    def workload(self, request: Request) -> Workload:
        """Return what the parameters must carry; raise `InputError` for options that the protocol does not know."""

    @abstractmethod
    def task(self, manifest: Manifest, data: PartyData) -> PartyTask:
        """Return a party's computation on its own rows."""

    def prepare(self, request: Request) -> Session:
        """Plan and name the session; generate keys, unless the parties are to make them together."""
        if request.keys not in _KEYS:
            raise InputError(f"keys must be {' or '.join(map(repr, _KEYS))}, got {request.keys!r}")
        workload = self.workload(request)
        if not workload.joint_keys:
            if request.smudging_bits is not None:
                raise InputError("smudging_bits is for joint keys only: there are no partial decryptions otherwise")
            chosen = plan(workload, ckks.choose_backend(request.backend))
            keys = new_session_keys(chosen.parameters)
            manifest = self._manifest(request, chosen, keys.fingerprint)
            return Session(manifest, keys.aggregator, keys.party)
        if request.min_parties not in (None, len(request.parties)):
            raise InputError("with joint keys no party can be left out: min_parties does not apply")
        backend = ckks.choose_backend(request.backend or JOINT_KEYS_BACKEND)
        smudging_bits = DEFAULT_SMUDGING_BITS if request.smudging_bits is None else request.smudging_bits
        chosen = plan(workload, backend, smudging_bits=smudging_bits)
        return Session(self._manifest(request, chosen, b""), b"", b"")

    def rehearse(self, session: Session) -> Delivery:
        """Play authority, key holder and sites in this process; return what each role would be given."""
        return rehearsal.joint(session) if _joint(session.manifest) else rehearsal.sealed(session)

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is a public context, or with joint keys a `keys.roster.Roster`."""
        if not _joint(manifest):
            return CkksAggregator(manifest, ckks.load_public(material))
        from keys.joint import JointAggregator  # needs OpenFHE

        return JointAggregator(manifest, Roster.from_bytes(material))

    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party:
        """Return a party; `material` is `keys.holder.PartySecrets`, or with joint keys `keys.roster.PartyMaterial`."""
        if not _joint(manifest):
            try:
                secrets = party_secrets(material, manifest.context)
            except WrongContextError as error:
                raise InputError(str(error)) from None
            return CkksParty(manifest, ckks.load_secret(secrets.context), self.task(manifest, data))
        from keys.joint import JointParty  # needs OpenFHE

        try:
            mine = decode(material, PartyMaterial, "party's material")
        except DeserialisationError as error:
            raise InputError(str(error)) from None
        identity = Identity.from_bytes(mine.identity)
        return JointParty(manifest, mine.roster, identity, self.task(manifest, data))

    def _manifest(self, request: Request, chosen: Plan, context: bytes) -> Manifest:
        return Manifest(
            protocol=self.name,
            session=new_session_id(),
            parties=request.parties,
            grid=request.thresholds.astype("<f8").tobytes(),
            min_parties=len(request.parties) if request.min_parties is None else request.min_parties,
            context=context,
            plan=chosen,
        )


def _joint(manifest: Manifest) -> bool:
    return manifest.plan is not None and manifest.plan.workload.joint_keys

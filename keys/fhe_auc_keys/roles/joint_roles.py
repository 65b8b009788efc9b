"""Joint keys: nobody ever holds the whole secret key, and only all parties together can decrypt.

    1  "begin"                       ->  commitment to what it will send in round 2: a digest
    2  all commitments               ->  parts of the public and the relinearisation key,
                                         part of a common secret, sealed to the other parties
    3  all first parts of the        ->  second part of the relinearisation key, submission
       relinearisation key, and of
       the common secret
    4  the encrypted result          ->  partial decryption, sealed to the other parties
    5  all partial decryptions       ->  (nothing: each party adds them up, and reads the result)

Where vectors are added up: `fhe_auc_keys.roles.joint_vectors`.

Whoever chose the sum of all first parts could read a share off the next answer. So a party has committed to its parts
before it sees another one's, and each party holds everybody's parts against everybody's commitments. From round 2 on
the commitments are under every signature: parties that were shown different ones refuse each other.

Everything that a party sends is signed with its certified key. The aggregator adds the parts up and passes on what must
be seen by all; it can read none of it. All parties are needed in every round: when one vanishes, the aggregator names
it and waits, and the session goes on once it answers. Otherwise it ends without a result, nothing about anybody's rows
having become known, and a new session starts without that party.

Trust. An aggregator alone learns nothing, even when it deviates: the parties' secrets meet only polynomials that it did
not choose (`fhe_auc.bfv.joint_keys`), and partial decryptions are sealed to the parties. Parties alone learn
nothing beyond the result, even if all but one pool their shares. An aggregator that deviates *and* one party together
can read everything: the party opens the partial decryptions of whatever the aggregator has sent around as the result.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import msgspec

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.base.keystream import COMMON_SECRET_BYTES
from fhe_auc.base.serialise import SecretStruct, decode, encode
from fhe_auc.bfv.joint_keys import JointShare, KeyParts
from fhe_auc.rlwe.polynomials import PolynomialSum, Words
from fhe_auc.session.computation import JointComputation, PartyTask, Result
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.plan import Plan
from fhe_auc.session.protocol import Delivery, Request, Session
from fhe_auc.session.running_sum import RunningSum
from fhe_auc_keys.bundles.roster import PartyMaterial, Roster
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.roles.contributions import (
    ALL_TAKE_PART,
    ContributingParty,
    Contribution,
    ContributionAggregator,
    Excerpt,
    blaming,
    digests,
    open_excerpt,
    refusing,
    sha256,
)
from fhe_auc_keys.roles.key_mode import KeyMode, read_material, require_all
from fhe_auc_keys.roles.local_consortium import Consortium
from fhe_auc_keys.trust.identity import Identity

_ROUNDS = 5
_COMMITMENT, _KEY_PARTS, _SUBMISSION, _PARTIAL = 1, 2, 3, 4  # what parties send in which round
_RELINEARISATION = KeyParts._fields.index("relinearisation")
_COMMON_SECRET = len(KeyParts._fields)
_FORWARDED = _RELINEARISATION, _COMMON_SECRET  # indices of what all parties see of the key parts
_COMMITMENT_BYTES = 32
_SECRET_PURPOSE = b"part of a common secret 1"
_PARTIAL_PURPOSE = b"partial decryption 1"
_SLACK = 4096  # bytes of envelopes, signatures and names, generously


class _State(SecretStruct, frozen=True):
    """What a party holds between rounds beside its share of the key; every round puts a new one in its place."""

    key_parts: tuple[bytes, ...] = ()  # drawn and committed to in the first round, sent in the second, then forgotten
    commitments: tuple[bytes, ...] = ()  # everybody's, in the manifest's order: from the second round on
    secret_part: bytes = b""  # its part of the common secret
    common_secret: bytes = b""  # from the third round on
    result: bytes = b""  # from the fourth round on
    partial: bytes = b""  # its partial decryption of the result
    key_bytes: int = 0  # sent so far for keys


class JointAggregator(ContributionAggregator):
    """Adds up parts of keys and submissions, and passes on what all parties must see."""

    rounds = _ROUNDS
    _computation: JointComputation[Any, Any, Any]

    def __init__(self, manifest: Manifest, roster: Roster, computation: JointComputation[Any, Any, Any]) -> None:
        super().__init__(manifest, roster, computation)
        _check_computation(manifest, computation, self._binding)
        setup, blocks = computation.setup, computation.plan.blocks
        second_round = [setup.relinearisation_part] + [setup.submission_part] * blocks
        self._keys = RunningSum(setup.key_parts)
        self._submissions = RunningSum(second_round)
        self._commitments: dict[str, bytes] = {}
        self.submission_limit = _SLACK + max(
            sum(shape.packed_size for shape in setup.key_parts) + len(manifest.parties) * _SLACK,
            sum(shape.packed_size for shape in second_round),
            computation.partial_shape.packed_size + len(manifest.parties) * _SLACK,
        )

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == self.rounds:
            return
        contribution = self._contribution(party, payload, self._signed_binding())
        if self.round == _COMMITMENT:
            with refusing():
                self._commitments[party] = _committed(contribution)
            self._passed_on[party] = contribution
        elif self.round == _KEY_PARTS:
            with refusing():
                _check_committed(self._binding, party, digests(contribution.parts), self._commitments[party])
            *key_parts, sealed = contribution.parts or (b"",)
            if len(sealed) > _SLACK * len(self.manifest.parties):
                raise DeserialisationError("the part of the common secret is too long")
            self._keys.add(key_parts)
            self._passed_on[party] = contribution.excerpt(*_FORWARDED)
        elif self.round == _SUBMISSION:
            self._submissions.add(contribution.parts)
        elif len(contribution.parts) == 1:
            self._passed_on[party] = contribution
        else:
            raise DeserialisationError(f"expected one part, got {len(contribution.parts)}")

    def _close(self) -> bytes:
        if self.round == _SUBMISSION:
            relinearisation, *totals = self._submissions.totals
            keys = self._computation.public_keys(self._keys.totals, relinearisation)
            return encode(Result(self.counted, self._computation.aggregate(keys, totals)))
        return self._pass_on()

    def _signed_binding(self) -> bytes:
        known = () if self.round == _COMMITMENT else self.manifest.parties
        return _signed_binding(self._binding, tuple(self._commitments[party] for party in known))


class JointParty(ContributingParty[R]):
    """Draws a share of the secret key, takes part in making the others' keys, submits, and helps to decrypt."""

    rounds = _ROUNDS
    submission_round = _SUBMISSION
    _task: PartyTask[Any, Any, R]
    _computation: JointComputation[Any, Any, Any]

    def __init__(self, manifest: Manifest, roster: Roster, identity: Identity, task: Any, computation: Any) -> None:
        super().__init__(manifest, roster, identity, task, computation)
        _check_computation(manifest, computation, self._binding)
        self._setup = computation.setup
        self._share: JointShare | None = None  # from the first round until the partial decryption
        self._state = _State()
        parties = len(manifest.parties)
        _, relinearisation = self._setup.key_parts
        longest = max(relinearisation.packed_size, computation.partial_shape.packed_size)
        self.download_limit = parties * (longest + _SLACK * (1 + parties))

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        if round_number == _COMMITMENT:
            return self._signed((self._commitment(),))
        if round_number == _KEY_PARTS:
            return self._signed(self._key_parts(payload))
        if round_number == _SUBMISSION:
            return self._signed(self._submission(payload))
        if round_number == _PARTIAL:
            return self._signed((self._partial_decryption(payload),))
        self._recover(payload)
        return b""

    def _commitment(self) -> bytes:
        """Draw a share of the key and a part of the common secret; return the commitment to the parts for the others.

        The parts have fresh errors and a fresh content key in them, so that their digest tells nothing of them.
        """
        with self._timed("key parts"):
            share, secret_part = JointShare(self._setup), secrets.token_bytes(COMMON_SECRET_BYTES)
            parts = share.key_parts()
            sealed = self._sealed(_SECRET_PURPOSE, secret_part)
        self._share = share
        self._state = _State(
            key_parts=(*parts, sealed), secret_part=secret_part, key_bytes=sum(len(part) for part in parts)
        )
        return _commitment(self._binding, self.name, digests(self._state.key_parts))

    def _key_parts(self, payload: bytes) -> tuple[bytes, ...]:
        """Return the parts of the keys and of the common secret, once everybody has committed to its own."""
        parts, commitments = self._state.key_parts, []
        for party, contribution in self._one_of_each(payload, Contribution):
            with blaming(party):
                contribution.check(self._roster, self._binding, _COMMITMENT, party)
                commitments.append(_committed(contribution))
                if party == self.name:
                    _check_committed(self._binding, party, digests(parts), commitments[-1])
        self._state = msgspec.structs.replace(self._state, key_parts=(), commitments=tuple(commitments))
        return parts

    def _submission(self, payload: bytes) -> tuple[bytes, ...]:
        """Return the second part of the relinearisation key, and this party's rows, encrypted."""
        with self._timed("key parts"):
            share = self._living_share()
            total, common_secret = self._key_parts_of_all(payload)
            relinearisation = share.relinearisation_part(total)
        with self._timed("submit"):
            blocks = self._computation.encrypt(share, self._task, common_secret)
        self._state = msgspec.structs.replace(
            self._state, common_secret=common_secret, key_bytes=self._state.key_bytes + len(relinearisation)
        )
        return (relinearisation, *blocks)

    def _partial_decryption(self, payload: bytes) -> bytes:
        """Return this party's partial decryption of the result, sealed to the others; the share is gone then."""
        with self._timed("decrypt"):
            result = decode(payload, Result, "result")
            self._check_named(result.counted)
            partial = self._computation.partial_decryption(self._living_share(), result.content)
            self._state = msgspec.structs.replace(self._state, result=result.content, partial=partial)
            self._share = None  # nobody needs it again, and no second result meets it
            return self._sealed(_PARTIAL_PURPOSE, partial, associated=sha256(result.content))

    def _recover(self, payload: bytes) -> None:
        """Add up all partial decryptions, and read the result."""
        with self._timed("recover"):
            decrypted = self._computation.combine(self._state.result, self._all_partials(payload))
            self._state = msgspec.structs.replace(self._state, partial=b"")
            outcome = self._task.read(decrypted, self.manifest.parties, self._state.common_secret)
            self._end(outcome, key_bytes_per_party=self._state.key_bytes)

    def _own_state(self) -> bytes:
        return encode((None if self._share is None else self._share.saved(), self._state))

    def _restore_own(self, own: bytes) -> None:
        share, self._state = decode(own, tuple[bytes | None, _State], "state of a party of a joint session")
        self._share = None if share is None else JointShare.restored(self._setup, share)

    def _living_share(self) -> JointShare:
        if self._share is None:
            raise EvaluationError(f"party {self.name!r} has no share of the key any more")
        return self._share

    def _key_parts_of_all(self, payload: bytes) -> tuple[Words, bytes]:
        """Return the sum of all first parts of the relinearisation key, and the common secret.

        Every part is verified to be its author's own, and what it had committed to: whoever chose this sum could read
        this party's share from its next answer.
        """
        _, shape = self._setup.key_parts
        total, secret_parts, binding = PolynomialSum(shape), [], self._signed_binding()
        commitments = dict(zip(self.manifest.parties, self._state.commitments, strict=True))
        for party, excerpt in self._one_of_each(payload, Excerpt):
            with blaming(party):
                part, sealed = open_excerpt(excerpt, self._roster, binding, _KEY_PARTS, party, indices=_FORWARDED)
                _check_committed(self._binding, party, excerpt.digests, commitments[party])
                total.add(total.polynomials.unpack(part))
                own = self._state.secret_part
                secret_parts.append(self._unsealed_secret(_SECRET_PURPOSE, party, sealed, own))
        return total.words, sha256(_SECRET_PURPOSE + self._binding + b"".join(secret_parts))

    def _all_partials(self, payload: bytes) -> Iterator[Words]:
        polynomials, binding = self._computation.partial_shape, self._signed_binding()
        for party, contribution in self._one_of_each(payload, Contribution):
            with blaming(party):
                contribution.check(self._roster, binding, _PARTIAL, party)
                if len(contribution.parts) != 1:
                    raise TamperedError("it has not one part")
                (sealed,) = contribution.parts
                own, associated = self._state.partial, sha256(self._state.result)
                yield polynomials.unpack(self._unsealed(_PARTIAL_PURPOSE, party, sealed, own, associated=associated))

    def _signed(self, parts: tuple[bytes, ...]) -> bytes:
        return encode(Contribution.sign(self._identity, self._signed_binding(), self._round + 1, parts))

    def _signed_binding(self) -> bytes:
        return _signed_binding(self._binding, self._state.commitments)


class JointSession(Session):
    """A session whose keys its parties will make."""

    def delivery(self) -> Delivery:
        """Return what aggregator and parties start from: certified identities and their roster."""
        parties = self.manifest.parties
        consortium = Consortium(parties)
        roster = Roster.of(consortium.peers(parties))
        material = {name: encode(PartyMaterial(roster, consortium.identities[name].to_bytes())) for name in parties}
        return Delivery(roster.to_bytes(), material)


class JointMode(KeyMode):
    """All parties take part in every round; nothing is made beforehand.

    `computation` makes that of a manifest, and of what names the session and all parties' keys, `Roster.binding`.
    """

    aggregator_type: ClassVar[Callable[..., ContributionAggregator]]
    party_type: ClassVar[Callable[..., ContributingParty[Any]]]

    def check(self, request: Request) -> None:
        """Raise `InputError` where a party could be left out."""
        require_all(request)

    def prepare(self, plan: Plan, announced: Callable[..., Manifest]) -> JointSession:
        """Name the session."""
        return JointSession(announced())

    def aggregator(self, manifest: Manifest, material: bytes) -> ContributionAggregator:
        """Return the aggregator; `material` is the parties' `Roster`."""
        roster = Roster.from_bytes(material)
        return self.aggregator_type(manifest, roster, self.computation(manifest, roster.binding(manifest)))

    def party(self, manifest: Manifest, material: bytes, task: Any) -> ContributingParty[Any]:
        """Return the party; `material` is `PartyMaterial`."""
        own = read_material(material, PartyMaterial)
        computation = self.computation(manifest, own.roster.binding(manifest))
        return self.party_type(manifest, own.roster, Identity.from_bytes(own.identity), task, computation)


class JointKeys(JointMode):
    """The parties make the keys together; nobody has the whole secret key. `computation` makes a `JointComputation`."""

    aggregator_type, party_type = JointAggregator, JointParty


def _commitment(binding: bytes, party: str, parts: tuple[bytes, ...]) -> bytes:
    """Return a party's commitment to parts with these digests; with its name, so that nobody can copy another one's."""
    return sha256(b"fhe-auc joint key parts\0" + encode((binding, party, parts)))


def _committed(contribution: Contribution) -> bytes:
    """Return the commitment that a contribution holds; raise `TamperedError` where it holds anything else."""
    if [len(part) for part in contribution.parts] != [_COMMITMENT_BYTES]:
        raise TamperedError(f"a commitment is one part of {_COMMITMENT_BYTES} bytes")
    return contribution.parts[0]


def _check_committed(binding: bytes, party: str, parts: tuple[bytes, ...], commitment: bytes) -> None:
    if _commitment(binding, party, parts) != commitment:
        raise TamperedError(f"the key parts of {party!r} are not those that it committed to")


def _signed_binding(binding: bytes, commitments: tuple[bytes, ...]) -> bytes:
    """Return what contributions are signed for: the session, and the commitments once they are known."""
    return sha256(binding + b"".join(commitments)) if commitments else binding


def _check_computation(manifest: Manifest, computation: JointComputation[Any, Any, Any], binding: bytes) -> None:
    if computation.plan.parties != len(manifest.parties):
        raise InputError(ALL_TAKE_PART)
    if computation.setup.binding != binding:
        raise InputError("the computation is that of another session, or of other parties' keys")

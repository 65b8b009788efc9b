"""Joint keys where vectors are added up: pads that vanish in the sum over all parties, and nobody has an opening.

    1  "begin"               ->  party: an X25519 key of this session, and its part of the common secret, sealed to the
                                 other parties; signed
    2  all of these          ->  party: its vector and tags, under a pad of masks with each other party
    3  the sum               ->  (nothing: each party takes the common pads off, checks the tags, and reads)

A mask follows from what two parties share, and from all contributions as the two were shown them
(`fhe_auc.sums.pads`). So a party gains nothing that signs two contributions, for an aggregator that shows one
to some parties and the other to the rest. Else these would check by two secrets, and the sum of the tags would tell
the party what fits one victim's vector only; as it is, masks of parties that were shown different contributions do not
vanish, and the sum is uniform. Private keys are erased once the masks are made, before the submission leaves. All
parties are needed in every round.

Trust. An aggregator alone learns nothing, even when it deviates; with some parties it learns the sum of the others'
vectors. What parties contribute is signed for the session, the roster and the round: it can neither be made up nor be
taken from another session. X25519 is broken by quantum computers: whoever has kept what the aggregator was sent, and
can break X25519 one day, reads every submission then. Where that matters take sealed keys or a helper, whose seeds are
sealed by a hybrid.
"""

from __future__ import annotations

import secrets

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.base.keystream import COMMON_SECRET_BYTES
from fhe_auc.base.serialise import SecretStruct, decode, encode
from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.protocol import Request
from fhe_auc.session.vector_computation import VectorComputation, VectorTask
from fhe_auc.sums.pads import MaskingParty, pairwise_pad
from fhe_auc_keys.bundles.roster import Roster
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.roles.contributions import ContributingParty, Contribution, ContributionAggregator, blaming, sha256
from fhe_auc_keys.roles.joint_roles import JointMode

_ROUNDS = 3
_KEYS = 1  # the round in which parties exchange keys
_SUBMISSION = 2
_SECRET_PURPOSE = b"part of a common secret 2"
_SHOWN = b"fhe-auc keys shown 1\0"
_KEY_BYTES = 32
_SLACK = 4096  # bytes of a signed contribution, beside what is sealed to each party, generously
_SEALED_BYTES = 512  # to one party, with its name


class _MaskingState(SecretStruct, frozen=True):
    """What a party holds between rounds; the first two are gone once it has submitted."""

    private_key: bytes = b""  # X25519, of this session
    secret_part: bytes = b""  # its part of the common secret
    contribution: bytes = b""  # what it has sent in round 1
    common_secret: bytes = b""  # from round 2 on


class JointVectorAggregator(ContributionAggregator):
    """Passes the parties' keys on, and adds up what they submit."""

    rounds = _ROUNDS

    def __init__(self, manifest: Manifest, roster: Roster, computation: VectorComputation) -> None:
        super().__init__(manifest, roster, computation)
        self._sum = computation.running_sum()
        self.submission_limit = max(computation.payload_limit, _contribution_limit(manifest))

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == _KEYS:
            _key_and_part(self._contribution(party, payload, self._binding))
            self._passed_on[party] = payload
        elif self.round == _SUBMISSION:
            self._sum.add(decode(payload, tuple[bytes, ...], "submission"))

    def _close(self) -> bytes:
        if self.round == _KEYS:
            return self._pass_on()
        return encode(Result(self.counted, self._computation.aggregate(None, self._sum.totals)))


class JointVectorParty(ContributingParty[R]):
    """Exchanges keys, submits under masks, and reads the sums."""

    rounds = _ROUNDS
    submission_round = _SUBMISSION
    _task: VectorTask[R]
    _computation: VectorComputation
    _state = _MaskingState()

    @property
    def download_limit(self) -> int:  # type: ignore[override]
        """Largest payload of the aggregator's messages, in bytes."""
        parties = len(self.manifest.parties)
        return self._computation.payload_limit + parties * (_contribution_limit(self.manifest) + _SLACK)

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        if round_number == _KEYS:
            with self._timed("key parts"):
                return self._contribution()
        if round_number == _SUBMISSION:
            with self._timed("submit"):
                return encode(self._submission(payload))
        with self._timed("recover"):
            result, secret = decode(payload, Result, "result"), self._state.common_secret
            self._check_named(result.counted)
            outcome = self._computation.outcome(None, self._task, result, secret)
            self._end(outcome, key_bytes_per_party=len(self._state.contribution))
        return b""

    def _contribution(self) -> bytes:
        """Draw a key and a part of the common secret; return what the others need of both."""
        key, secret_part = X25519PrivateKey.generate(), secrets.token_bytes(COMMON_SECRET_BYTES)
        sealed = self._sealed(_SECRET_PURPOSE, secret_part)
        public_key = key.public_key().public_bytes_raw()
        contribution = encode(Contribution.sign(self._identity, self._binding, _KEYS, (public_key, sealed)))
        self._state = _MaskingState(key.private_bytes_raw(), secret_part, contribution)
        return contribution

    def _submission(self, payload: bytes) -> tuple[bytes]:
        """Return the submission; the private key is gone then."""
        if not self._state.private_key:
            raise EvaluationError(f"party {self.name!r} has submitted already: its masks are for one submission")
        parties, secret_parts = list[MaskingParty](), list[bytes]()
        for party, contribution in self._one_of_each(payload, bytes):
            with blaming(party):
                public_key, secret_part = self._opened(party, contribution)
            parties.append(MaskingParty(len(parties), party, public_key))
            secret_parts.append(secret_part)
        own = next(party for party in parties if party.name == self.name)
        shared = {party: self._shared_with(party) for party in parties if party != own}
        common_secret = sha256(_SECRET_PURPOSE + self._binding + b"".join(secret_parts))
        shown = sha256(_SHOWN + self.digest + payload)
        pad = pairwise_pad(own, shared, shown, self._computation.modulus, self._computation.size)
        submission = self._computation.submission(self._task, pad, common_secret)
        self._state = _MaskingState(contribution=self._state.contribution, common_secret=common_secret)
        return submission

    def _opened(self, party: str, data: bytes) -> tuple[bytes, bytes]:
        """Return a party's public key and its part of the common secret; raise as `Contribution.check`."""
        contribution = decode(data, Contribution, "contribution")
        contribution.check(self._roster, self._binding, _KEYS, party)
        public_key, sealed = _key_and_part(contribution)
        if party == self.name and data != self._state.contribution:
            raise TamperedError("it is not what this party has sent")
        return public_key, self._unsealed_secret(_SECRET_PURPOSE, party, sealed, self._state.secret_part)

    def _shared_with(self, other: MaskingParty) -> bytes:
        private_key = X25519PrivateKey.from_private_bytes(self._state.private_key)
        with blaming(other.name):
            try:
                return private_key.exchange(X25519PublicKey.from_public_bytes(other.public_key))
            except ValueError:  # all zeros
                raise TamperedError("with its public key everybody knows what is shared") from None

    def _own_state(self) -> bytes:
        return encode(self._state)

    def _restore_own(self, own: bytes) -> None:
        self._state = decode(own, _MaskingState, "state of a party of a joint session")


class JointVectors(JointMode):
    """Each two parties share a mask; nobody has an opening."""

    aggregator_type, party_type = JointVectorAggregator, JointVectorParty

    def __init__(self) -> None:
        super().__init__(lambda manifest, _: VectorComputation(manifest))

    def check(self, request: Request) -> None:
        """Raise `InputError` for one party, one that could be left out, or partial decryptions to be smudged."""
        super().check(request)
        if request.size < 2:
            raise InputError("joint keys are of two parties or more, each two of which share a mask")
        if request.smudging_bits is not None:
            raise InputError("smudging_bits does not apply: sums of vectors have no partial decryptions")


def _key_and_part(contribution: Contribution) -> tuple[bytes, bytes]:
    """Return the public key and the sealed part of the common secret; raise `DeserialisationError` for others."""
    if len(contribution.parts) != 2 or len(contribution.parts[0]) != _KEY_BYTES:
        raise DeserialisationError(f"expected a key of {_KEY_BYTES} bytes, and a part of the common secret")
    key, sealed = contribution.parts
    return key, sealed


def _contribution_limit(manifest: Manifest) -> int:
    return _SLACK + _SEALED_BYTES * len(manifest.parties)

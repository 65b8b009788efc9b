"""Joint keys in rounds: nobody ever holds the whole secret key, and only all parties together can decrypt.

    1  "begin"                       ->  parts of public and rotation keys, first part of the relinearisation key,
                                         part of a common secret, sealed to the other parties
    2  all first parts of the        ->  second part of the relinearisation key, submission
       relinearisation key, and of
       the common secret
    3  the encrypted result          ->  partial decryption, sealed to the other parties
    4  all partial decryptions       ->  (nothing: each party adds them up, and reads the result)

A computation that only adds up takes a public key and no others: all parts of those are empty.

Everything that a party sends is signed with its certified key. The aggregator adds the parts up and passes on what must
be seen by all; it can read none of it. All parties are needed in every round: when one vanishes, the aggregator names
it and waits, and the session goes on once it answers. Otherwise it ends without a result, nothing about anybody's rows
having become known, and a new session starts without that party.

Trust. An aggregator alone learns nothing, even when it deviates: the parties' secrets meet only polynomials that it did
not choose (`fhe_auc.rlwe.openfhe_joint_keys`), and partial decryptions are sealed to the parties. Parties alone learn
nothing beyond the result, even if all but one pool their shares. An aggregator that deviates *and* one party together
can read everything: the party opens the partial decryptions of whatever ciphertext the aggregator has sent around, or,
as the last to send its parts, chooses their sums.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import msgspec

from fhe_auc.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.manifest import Manifest
from fhe_auc.rlwe.openfhe_joint_keys import BaseJointShare, KeyParts
from fhe_auc.rlwe.polynomials import Sum, Words
from fhe_auc.rounds import Aggregator, Party, R
from fhe_auc.serialise import decode, encode
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.group_sealing import seal_to_all, unseal_mine
from fhe_auc_keys.identity import Identity, signed_bytes
from fhe_auc_keys.joint_computation import JointComputation
from fhe_auc_keys.roster import Contribution, Excerpt, PartyMaterial, Roster, open_excerpt
from fhe_auc_keys.sealed_roles import Result
from fhe_auc_keys.session_keys import COMMON_SECRET_BYTES

_ROUNDS = 4
_KEY_PARTS, _SUBMISSION, _PARTIAL = 1, 2, 3  # what parties send in which round
_RELINEARISATION = KeyParts._fields.index("relinearisation")
_COMMON_SECRET = len(KeyParts._fields)
_FORWARDED = _RELINEARISATION, _COMMON_SECRET  # indices of what all parties see of the first round
_SECRET_PURPOSE = b"part of a common secret 1"
_PARTIAL_PURPOSE = b"partial decryption 1"
_SLACK = 4096  # bytes of envelopes, signatures and names, generously
T = TypeVar("T")


class Task(Protocol):
    """A party's computation on its own rows; the session's `JointComputation` knows what else there is to it."""

    common_secret: bytes
    """What all parties have in common; set before anything is encrypted."""

    @property
    def party(self) -> str:
        """Name of the party."""


class _Own(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    share: bytes | None  # gone once the partial decryption is made
    forwarded: list[bytes]
    secret_part: bytes
    common_secret: bytes
    result: bytes
    partial: bytes
    key_bytes: int

    def __repr__(self) -> str:
        return "<state of a party of a joint session (secret)>"


class JointAggregator(Aggregator):
    """Adds up parts of keys and submissions, and passes on what all parties must see.

    Parameters
    ----------
    manifest : Manifest
        With a plan for joint keys.
    roster : Roster
        Of the manifest's parties.
    computation : JointComputation
        The manifest's.

    Raises
    ------
    InputError
        The manifest is not one for joint keys, or the roster is of other parties.
    """

    rounds = _ROUNDS

    def __init__(self, manifest: Manifest, roster: Roster, computation: JointComputation[Any, Any, Any, Any]) -> None:
        super().__init__(manifest)
        _check(manifest, roster)
        self._computation = computation
        self._roster = roster
        self._binding = roster.binding(manifest)
        setup = computation.setup
        self._keys = [Sum(shape) for shape in setup.key_parts]
        self._relinearisation = Sum(setup.relinearisation_part)
        self._blocks = [Sum(setup.submission_part) for _ in range(computation.blocks)]
        self._passed_on: dict[str, Contribution | Excerpt] = {}
        self.submission_limit = _SLACK + max(
            sum(each.polynomials.packed_size for each in self._keys) + len(manifest.parties) * _SLACK,
            sum(each.polynomials.packed_size for each in (self._relinearisation, *self._blocks)),
            computation.partial_shape.packed_size + len(manifest.parties) * _SLACK,
        )

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == self.rounds:
            return
        contribution = decode(payload, Contribution, "contribution")
        try:
            contribution.check(self._roster, self._binding, self.round, party)
        except KeysError as error:
            raise DeserialisationError(str(error)) from None
        if self.round == _KEY_PARTS:
            *key_parts, sealed = contribution.parts or (b"",)
            if len(sealed) > _SLACK * len(self.manifest.parties):
                raise DeserialisationError("the part of the common secret is too long")
            _add(self._keys, key_parts)
            self._passed_on[party] = contribution.excerpt(*_FORWARDED)
        elif self.round == _SUBMISSION:
            _add([self._relinearisation, *self._blocks], contribution.parts)
        elif len(contribution.parts) == 1:
            self._passed_on[party] = contribution
        else:
            raise DeserialisationError(f"expected one part, got {len(contribution.parts)}")

    def _close(self) -> bytes:
        if self.round == _SUBMISSION:
            keys = [each.words for each in self._keys]
            result = self._computation.result(keys, self._relinearisation.words, [each.words for each in self._blocks])
            return encode(Result(len(self.counted), result))
        in_order = tuple(self._passed_on[party] for party in self.manifest.parties)
        self._passed_on = {}
        return encode(in_order)


class JointParty(Party[R]):
    """Draws a share of the secret key, takes part in making the others' keys, submits, and helps to decrypt.

    Parameters
    ----------
    manifest : Manifest
        With a plan for joint keys.
    roster : Roster
        Of the manifest's parties, each verified by this party.
    identity : Identity
        This party's private keys.
    task
        What to encrypt, and what to read off the result, as the computation takes it.
    computation : JointComputation
        The manifest's.

    Raises
    ------
    InputError
        The manifest is not one for joint keys, the roster is of other parties, or the identity is not in it.
    """

    rounds = _ROUNDS

    def __init__(
        self,
        manifest: Manifest,
        roster: Roster,
        identity: Identity,
        task: Task,
        computation: JointComputation[Any, Any, Any, R],
    ) -> None:
        super().__init__(manifest, task.party)
        _check(manifest, roster)
        mine = roster.signing_keys[task.party], roster.encryption_keys[task.party]
        if identity.name != task.party or mine != (identity.signing_key, identity.encryption_key):
            raise InputError(f"the identity of {identity.name!r} is not that of party {task.party!r} in the session")
        self._roster = roster
        self._identity = identity
        self._task = task
        self._computation = computation
        self._setup = computation.setup
        self._binding = roster.binding(manifest)
        self._share: BaseJointShare[Any] | None = None  # from the first round until the partial decryption
        self._forwarded: list[bytes] = []  # of the first round, digests: what comes back in the second
        self._secret_part = b""
        self._common_secret = b""
        self._result = b""
        self._partial = b""
        self._key_bytes = 0
        parties = len(manifest.parties)
        _, relinearisation, _ = self._setup.key_parts
        longest = max(relinearisation.packed_size, computation.partial_shape.packed_size)
        self.download_limit = parties * (longest + _SLACK * (1 + parties))

    @classmethod
    def from_material(
        cls, manifest: Manifest, material: bytes, task: Task, computation: JointComputation[Any, Any, Any, R]
    ) -> JointParty[R]:
        """Return the party that a serialised `fhe_auc_keys.roster.PartyMaterial` is for; errors as the constructor."""
        try:
            mine = decode(material, PartyMaterial, "party's material")
        except DeserialisationError as error:
            raise InputError(str(error)) from None
        return cls(manifest, mine.roster, Identity.from_bytes(mine.identity), task, computation)

    def __reduce__(self) -> str:
        raise TypeError("a party of a joint session is not pickled or copied: a second one would have the same share")

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        started = time.perf_counter()
        if round_number == _KEY_PARTS:
            self._share = self._computation.new_share()
            parts = self._share.key_parts()
            self._key_bytes = sum(map(len, parts))
            self._secret_part = secrets.token_bytes(COMMON_SECRET_BYTES)
            sealed = self._sealed(_SECRET_PURPOSE, self._secret_part, associated=b"")
            self._forwarded = [_sha256(parts.relinearisation), _sha256(sealed)]
            self._seconds["key parts"] = time.perf_counter() - started
            return self._signed((*parts, sealed))
        if round_number == _SUBMISSION:
            share = self._living_share()
            total, common_secret = self._first_round_of_all(payload)
            relinearisation = share.relinearisation_part(total)
            spent = time.perf_counter() - started
            started = time.perf_counter()
            self._task.common_secret = self._common_secret = common_secret
            blocks = self._computation.encrypted(share, self._task)
            self._seconds["submit"] = time.perf_counter() - started
            self._seconds["key parts"] += spent
            self._key_bytes += len(relinearisation)
            return self._signed((relinearisation, *blocks))
        if round_number == _PARTIAL:
            sealed = self._partial_decryption(payload)
            self._seconds["decrypt"] = time.perf_counter() - started
            return self._signed((sealed,))
        fused = self._computation.fused(self._result, self._all_partials(payload))
        self._partial = b""
        outcome = self._computation.outcome(self._task, fused, len(self.manifest.parties))
        self._seconds["recover"] = time.perf_counter() - started
        self._outcome = replace(outcome, keys="joint", key_bytes_per_party=self._key_bytes, seconds=self._seconds)
        return b""

    def _own_state(self) -> bytes:
        own = _Own(
            share=None if self._share is None else self._share.saved(),
            forwarded=self._forwarded,
            secret_part=self._secret_part,
            common_secret=self._common_secret,
            result=self._result,
            partial=self._partial,
            key_bytes=self._key_bytes,
        )
        return encode(own)

    def _restore_own(self, own: bytes) -> None:
        found = decode(own, _Own, "state of a party of a joint session")
        self._share = None if found.share is None else self._computation.restored_share(found.share)
        self._forwarded, self._secret_part = found.forwarded, found.secret_part
        self._task.common_secret = self._common_secret = found.common_secret
        self._result, self._partial, self._key_bytes = found.result, found.partial, found.key_bytes

    def _living_share(self) -> BaseJointShare[Any]:
        if self._share is None:
            raise EvaluationError(f"party {self.name!r} has no share of the key any more")
        return self._share

    def _first_round_of_all(self, payload: bytes) -> tuple[Words, bytes]:
        """Return the sum of all first parts of the relinearisation key, and the common secret.

        Every part is verified to be its author's own: whoever chose this sum could read this party's share from its
        next answer.
        """
        _, shape, _ = self._setup.key_parts
        total, secret_parts = Sum(shape), []
        for party, excerpt in self._one_of_each(payload, Excerpt):
            with _blaming(party):
                found = open_excerpt(excerpt, self._roster, self._binding, _KEY_PARTS, party, indices=_FORWARDED)
                if party == self.name and [_sha256(each) for each in found] != self._forwarded:
                    raise TamperedError("it is not the one that was sent")
                total.add(total.polynomials.unpack(found[0]))
                secret = self._unsealed(_SECRET_PURPOSE, party, found[1], self._secret_part, associated=b"")
                if len(secret) != COMMON_SECRET_BYTES:
                    raise TamperedError("its part of the common secret has a wrong length")
                secret_parts.append(secret)
        return total.words, _sha256(_SECRET_PURPOSE + self._binding + b"".join(secret_parts))

    def _partial_decryption(self, payload: bytes) -> bytes:
        result = decode(payload, Result, "result")
        if result.parties != len(self.manifest.parties):
            raise DeserialisationError(f"{result.parties} parties counted, of {len(self.manifest.parties)}")
        self._partial = self._computation.partial(self._living_share(), result.ciphertext)
        self._result = result.ciphertext
        self._share = None  # nobody needs it again, and no second result meets it
        return self._sealed(_PARTIAL_PURPOSE, self._partial, associated=_sha256(self._result))

    def _all_partials(self, payload: bytes) -> Iterator[Words]:
        polynomials = self._computation.partial_shape
        for party, contribution in self._one_of_each(payload, Contribution):
            with _blaming(party):
                contribution.check(self._roster, self._binding, _PARTIAL, party)
                if len(contribution.parts) != 1:
                    raise TamperedError("it has not one part")
                associated = _sha256(self._result)
                partial = self._unsealed(
                    _PARTIAL_PURPOSE, party, contribution.parts[0], self._partial, associated=associated
                )
                yield polynomials.unpack(partial)

    def _sealed(self, purpose: bytes, plaintext: bytes, *, associated: bytes) -> bytes:
        """Return `plaintext` sealed to all other parties."""
        others = {name: key for name, key in self._roster.encryption_keys.items() if name != self.name}
        return seal_to_all(others, plaintext, info=self._info(purpose, self.name), associated=associated)

    def _unsealed(self, purpose: bytes, sender: str, sealed: bytes, own: bytes, *, associated: bytes) -> bytes:
        """Return what a party has sealed to the others, `own` for this party's own."""
        if sender == self.name:
            return own
        return unseal_mine(self._identity, sealed, info=self._info(purpose, sender), associated=associated)

    def _one_of_each(self, payload: bytes, shape: type[T]) -> Iterator[tuple[str, T]]:
        parts = decode(payload, tuple[shape, ...], "contributions")  # type: ignore[valid-type]
        if len(parts) != len(self.manifest.parties):
            raise DeserialisationError(f"contributions of {len(parts)} parties, of {len(self.manifest.parties)}")
        return zip(self.manifest.parties, parts, strict=True)

    def _info(self, purpose: bytes, sender: str) -> bytes:
        return signed_bytes(purpose, encode((self._binding, sender)))

    def _signed(self, parts: tuple[bytes, ...]) -> bytes:
        return encode(Contribution.sign(self._identity, self._binding, self._round + 1, parts))


@contextmanager
def _blaming(party: str) -> Iterator[None]:
    """Name the party whose contribution, as the aggregator passed it on, is refused."""
    try:
        yield
    except (DeserialisationError, KeysError) as error:
        raise DeserialisationError(f"contribution of party {party!r}: {error}") from None


def _add(sums: Sequence[Sum], parts: Sequence[bytes]) -> None:
    """Add each part to its sum, or none if one of them is malformed."""
    if len(parts) != len(sums):
        raise DeserialisationError(f"expected {len(sums)} parts, got {len(parts)}")
    words = [total.polynomials.unpack(part) for total, part in zip(sums, parts, strict=True)]
    for total, summand in zip(sums, words, strict=True):
        total.add(summand)


def _check(manifest: Manifest, roster: Roster) -> None:
    plan = manifest.plan
    if plan is None or not plan.joint_keys or manifest.context:
        raise InputError("the session's manifest is not one for joint keys")
    if plan.parties != len(manifest.parties) or manifest.min_parties != len(manifest.parties):
        raise InputError("with joint keys every party of the session takes part, and none can be left out")
    if roster.names != set(manifest.parties):
        raise InputError("the roster names other parties than the session's manifest")


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()

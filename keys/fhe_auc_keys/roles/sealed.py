"""Sealed keys: a key holder makes one secret key for all parties, before the session, and seals it to each.

    1  "begin"                 ->  each party encodes its rows and encrypts, or pads
    2  the encrypted result    ->  (nothing: each party decrypts, and reads the result)

Where the result is checked against an aggregator that may lie, parties compare first what they were given, by an echo:

    2  the encrypted result    ->  an echo: what each party tells the others of the result it was given
    3  all echoes              ->  (nothing: where all were given the same, each party decrypts, and reads the result)

None reads the result unless all were given the same. Without an echo an aggregator that may lie could give each party
another result, and a lie would have as many tries as there are parties. To outsiders an echo tells nothing.

Where parties pad (`SealedPads`), the key holder draws a seed for each party's pad, and makes the pad key, which takes
the sum of all pads off: the aggregator needs it for a result. There is one in a session, so all parties must submit.
Where vectors are added up there are pads alone, and no encryption: the pad key is the plain sum of the pads. There is
no echo then: a lie passes with a probability of 1/t² for each party, whatever the others were given.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Generic, cast
from weakref import WeakValueDictionary

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError, VerificationError
from fhe_auc.base.keystream import COMMON_SECRET_BYTES, KeyStream, derived_key
from fhe_auc.base.names import NAME_BYTES
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator, AggregatorSide, RunningSum
from fhe_auc.session.ckks_computation import CkksComputation, CkksTask
from fhe_auc.session.computation import (
    Decrypted,
    Keys,
    PaddedComputation,
    PaddedTask,
    PartyTask,
    Result,
    Secret,
    Submission,
    Values,
)
from fhe_auc.session.manifest import Manifest, name_of
from fhe_auc.session.messages import Rounds
from fhe_auc.session.party import Party, PartySide, R, WhoCounts
from fhe_auc.session.plan import Plan
from fhe_auc.session.protocol import Announce, KeyKind, Request
from fhe_auc_keys.bundles.session_keys import (
    GENERATE,
    SEED_BYTES,
    DealtSession,
    PartySecrets,
    aggregator_material,
    party_secrets,
    public_context,
)

ECHO_BYTES = 32
_ECHO_LABEL = b"fhe-auc echo 1\0"
_RESULT = 2  # the round whose message carries it
_ALL_MUST_SUBMIT = (
    'min_parties: with keys="sealed" all parties must submit, as the key that takes their pads off is made beforehand; '
    'where sites may be away take a helper: keys="helper" (--keys helper)'
)


class SealedAggregator(AggregatorSide):
    """Adds submissions up as they arrive, then makes the result of their sum; with an `echo`, parties compare it."""

    def __init__(self, total: RunningSum, aggregate: Callable[[list[Words]], bytes], limit: int, *, echo: bool) -> None:
        self.rounds = _rounds(echo=echo)
        self.total = total
        self.aggregate, self._limit = aggregate, limit
        self._echoes: dict[str, bytes] = {}

    def limit(self, number: int) -> int:
        """Return the largest payload of a submission, and of a result."""
        return self._limit

    def accept(self, number: int, party: str, payload: bytes) -> None:
        """Add a submission, or take an echo."""
        if number == 1:
            parts = decode(payload, tuple[memoryview, ...], "submission")
            self.total.add(cast("tuple[bytes, ...]", parts))  # uncopied
            return
        if len(payload) != ECHO_BYTES:
            raise DeserialisationError(f"expected an echo of {ECHO_BYTES} bytes, got {len(payload)}")
        self._echoes[party] = payload

    def close(self, number: int, counted: tuple[str, ...], keep: Callable[[bytes], bytes]) -> bytes:
        """Return the result, or all echoes."""
        if number > 1:
            return encode(tuple([self._echoes[party] for party in counted]))
        return encode(Result(counted, self.aggregate(self.total.totals)))


class _Reading(Generic[R]):
    """What a result says."""

    def __init__(self, outcome: R) -> None:
        self.outcome = outcome


# In one process thousands of parties may be given the same result, and have the same secrets: one of them reads it.
_IN_USE: WeakValueDictionary[tuple[type, bytes, bytes, bytes], _Reading[Any]] = WeakValueDictionary()


class SealedParty(PartySide[R], Generic[Values, Decrypted, R]):
    """Encodes and submits, then decrypts and reads the result; `limit` is the largest payload of a result.

    With an `echo`, parties compare the result, by the common secret of its `own` secrets. `submit` is None where the
    site has submitted already, and has erased the seed of its pad. `decrypt` goes by the secret context alone.
    """

    def __init__(
        self,
        manifest: Manifest,
        task: PartyTask[Values, Decrypted, R],
        own: PartySecrets,
        submit: Callable[[Sequence[Values]], Submission] | None,
        decrypt: Callable[[bytes], Decrypted],
        limit: int,
        *,
        echo: bool,
    ) -> None:
        self.rounds = _rounds(echo=echo)
        # A result names all that count; an echo is shorter than the longest name.
        self.download_limit = limit + NAME_BYTES * len(manifest.parties)
        self._manifest, self._task, self._common_secret = manifest, task, own.common_secret
        self._submit, self._decrypt = submit, decrypt
        self._compared = b""  # the result, until the parties have compared it
        self._secrets_digest = hashlib.sha256(hashlib.sha256(own.context).digest() + own.common_secret).digest()
        self._reading: _Reading[R] | None = None

    def answer(self, number: int, payload: bytes, who: WhoCounts) -> bytes:
        """Return the submission, or the echo of the result."""
        if number == 1:
            if self._submit is None:
                raise EvaluationError(
                    f"party {self._task.party!r} has submitted already: its pad is for one submission"
                )
            return encode(self._submit(self._task.encode(self._common_secret)).parts)
        who.check(decode(payload, Result, "result").counted)
        self._compared = payload
        return self._echoes[self._manifest.parties.index(self._task.party)]

    def read(self, payload: bytes, who: WhoCounts) -> R:
        """Return what the result says, once all parties were given the same."""
        if self.rounds.number == _RESULT:
            digest, result = hashlib.sha256(payload).digest(), decode(payload, Result, "result")
            who.check(result.counted)
        else:
            digest, result = self._compared_digest, decode(self._compared, Result, "result")
            self._compare(decode(payload, tuple[bytes, ...], "echoes"), result.counted)
        name = type(self._task), self._manifest.digest, self._secrets_digest, digest
        self._reading = _IN_USE.get(name)
        if self._reading is None:
            decrypted = self._decrypt(result.content)
            outcome = self._task.read_result(decrypted, result.counted, self._common_secret)
            _IN_USE[name] = self._reading = _Reading(outcome)
        return self._reading.outcome

    def kept(self) -> bytes:
        """Return the result that is being compared."""
        return self._compared

    def restore(self, kept: bytes) -> None:
        """Take it back."""
        self._compared = kept

    @cached_property
    def _compared_digest(self) -> bytes:
        return hashlib.sha256(self._compared).digest()

    @cached_property
    def _echoes(self) -> list[bytes]:
        """Return each party's echo of the result, 32 bytes, in the manifest's order."""
        key = derived_key(self._common_secret, self._manifest.digest, _ECHO_LABEL)
        stream = KeyStream(hmac.digest(key, self._compared_digest, "sha256"))
        return [echo.tobytes() for echo in stream.words(len(self._manifest.parties), ECHO_BYTES // 8)]

    def _compare(self, echoes: tuple[bytes, ...], parties: tuple[str, ...]) -> None:
        """Raise `VerificationError` where a party was given another result; `DeserialisationError` for too few."""
        if len(echoes) != len(parties):
            raise DeserialisationError(f"echoes of {len(echoes)} parties, of {len(parties)}")
        expected = dict(zip(self._manifest.parties, self._echoes, strict=True))
        for party, echo in zip(parties, echoes, strict=True):
            if not hmac.compare_digest(echo, expected[party]):
                raise VerificationError(
                    f"party {party!r} was given another result than this one, or its word was changed on the way: "
                    "no number is given",
                    check="echo",
                )


def _rounds(*, echo: bool) -> Rounds:
    return Rounds(3, unsealed=2) if echo else Rounds(2)  # whoever sees an echo learns nothing from it


@dataclass(frozen=True)
class SealedKeys(KeyKind[R]):
    """A key holder makes the keys, and parties encrypt under them, with CKKS; `task` makes a party's of its rows."""

    computation: Callable[[Manifest], CkksComputation]
    task: Callable[[Manifest, PartyData], CkksTask[R]]
    echo: bool = False

    def prepare(self, plan: Plan, announce: Announce) -> DealtSession:
        """Make the keys."""
        return dealt(plan, announce)

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is a public context."""
        computation = self.computation(manifest)
        keys = computation.keys(material)
        total, aggregate = computation.running_sum(keys), partial(computation.aggregate, keys)
        return Aggregator(manifest, SealedAggregator(total, aggregate, computation.payload_limit, echo=self.echo))

    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return the party; `material` is `fhe_auc_keys.bundles.session_keys.PartySecrets`."""
        task, own = self.task(manifest, data), party_secrets(material, manifest)
        computation = self.computation(manifest)
        secret, limit = computation.secret(own.context), computation.payload_limit
        submit = partial(computation.encrypt, secret, task.party, own.common_secret)
        side = SealedParty(manifest, task, own, submit, partial(computation.decrypt, secret), limit, echo=self.echo)
        return Party(manifest, task.party, side)


@dataclass(frozen=True)
class SealedPads(KeyKind[R], Generic[Keys, Secret, R]):
    """A key holder makes the keys, if there are any, and the pad key; parties pad, and decrypt."""

    computation: Callable[[Manifest], PaddedComputation[Keys, Secret]]
    task: Callable[[Manifest, PartyData], PaddedTask[R]]
    echo: bool = False

    def check(self, request: Request) -> None:
        """Raise `InputError` where a party may be left out."""
        if request.min_parties is not None and request.min_parties < request.size:
            raise InputError(_ALL_MUST_SUBMIT)

    def prepare(self, plan: Plan, announce: Announce) -> DealtSession:
        """Make keys, seeds and the pad key."""
        session = dealt(plan, announce)
        computation = self.computation(session.manifest)
        seeds = {name: secrets.token_bytes(SEED_BYTES) for name in session.manifest.parties}
        secret, pads = computation.secret(session.common.context), computation.sum_of_pads(enumerate(seeds.values()))
        material = aggregator_material(session.aggregator_material, computation.pad_key(secret, pads))
        return replace(session, aggregator_material=material, seeds=seeds)

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is a public context, if there is any, and a pad key."""
        computation, (context, pad_key) = self._checked(manifest), public_context(material)
        aggregate = partial(computation.aggregate, computation.keys(context, pad_key))
        limit = computation.payload_limit
        return Aggregator(manifest, SealedAggregator(computation.running_sum(), aggregate, limit, echo=self.echo))

    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return the party; `material` is `fhe_auc_keys.bundles.session_keys.PartySecrets`, with its seed."""
        task, own, computation = self.task(manifest, data), party_secrets(material, manifest), self._checked(manifest)
        decrypt, limit = partial(computation.decrypt, computation.secret(own.context)), computation.payload_limit
        submit = None
        if own.seed and task.party in manifest.parties:
            submit = partial(computation.under_pad, manifest.parties.index(task.party), own.seed)
        side = SealedParty(manifest, task, own, submit, decrypt, limit, echo=self.echo)
        return Party(manifest, task.party, side)

    def _checked(self, manifest: Manifest) -> PaddedComputation[Keys, Secret]:
        """Return the computation; raise `InputError` for a manifest that lets parties be away, which nobody makes."""
        if manifest.min_parties < len(manifest.parties):
            raise InputError(_ALL_MUST_SUBMIT)
        return self.computation(manifest)


def dealt(plan: Plan, announce: Announce) -> DealtSession:
    """Return a session on fresh keys, if its plan asks for any, with a fresh common secret."""
    common_secret = secrets.token_bytes(COMMON_SECRET_BYTES)
    name = name_of(common_secret)
    if plan.parameters is None:
        return DealtSession(announce(name, name), PartySecrets(b"", common_secret))
    public, secret = GENERATE[plan.parameters.scheme](plan.parameters)
    manifest = announce(public.fingerprint, name)
    return DealtSession(manifest, PartySecrets(secret.to_bytes(), common_secret), public.to_bytes(), loaded=public)

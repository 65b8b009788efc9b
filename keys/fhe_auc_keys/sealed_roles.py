"""Both roles of a session with sealed keys: submissions, then the result.

    1  "begin"                 ->  each party encodes its rows and encrypts
    2  the encrypted result    ->  (nothing: each party decrypts, and reads the result)

Where the result is checked against an aggregator that may lie, parties compare first what they were given
(`SealedComputation.echoed`). Otherwise each of them could be given another result, and a lie would have as many tries
as there are parties.

    2  the encrypted result    ->  an echo: what each party tells the others of the result it was given
    3  all echoes              ->  (nothing: where all were given the same, each party decrypts, and reads the result)

What is computed, and under which scheme, is a `fhe_auc.computation.SealedComputation`. With joint keys:
`fhe_auc_keys.joint_roles`; there a result that some parties were not given cannot be decrypted at all.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fhe_auc.computation import PartyTask, Result, SealedComputation
from fhe_auc.errors import DeserialisationError, EvaluationError, InputError, MessageError, VerificationError
from fhe_auc.keystream import KeyStream, derived_key
from fhe_auc.manifest import Manifest
from fhe_auc.party_names import MAX_CHARACTERS
from fhe_auc.rounds import Aggregator, Party, R, SessionRecord, require_signatures
from fhe_auc.serialise import decode, encode
from fhe_auc_keys.partial_sums import MAX_REASON, PartialSum

_ECHO_BYTES = 32
_ECHO_LABEL = b"fhe-auc echo 1\0"
_NO_RESULT = "a branch has no result of its own; hand its partial sum to the aggregator"
_UTF8_BYTES = 4  # of a character, at most
_NAME_BYTES = _UTF8_BYTES * MAX_CHARACTERS + 8  # of a name, encoded


class SealedAggregator(Aggregator):
    """Adds submissions up as they arrive, then computes the encrypted result.

    `computation` is the manifest's, `keys` come from its `load_public`.
    """

    def __init__(self, manifest: Manifest, computation: SealedComputation[Any, Any, Any, Any], keys: Any) -> None:
        super().__init__(manifest)
        self.rounds = _rounds(computation)
        self.submission_limit = computation.payload_limit
        self._computation = computation
        self._keys = keys
        self._sum = computation.running_sum(keys)
        self._echoes: dict[str, bytes] = {}

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            self._sum.add(decode(payload, tuple[bytes, ...], "submission"))
        elif self._must_answer():
            if len(payload) != _ECHO_BYTES:
                raise DeserialisationError(f"expected an echo of {_ECHO_BYTES} bytes, got {len(payload)}")
            self._echoes[party] = payload

    def _close(self) -> bytes:
        if self.round > 1:
            return encode(tuple(self._echoes[party] for party in self.counted))
        keys = self._keys
        if self._computation.late:
            if self.open_late is None:
                raise EvaluationError("nobody is there to ask for the opening of these parties' pads")
            keys = self._computation.opened(keys, self.open_late(self.counted))
        return encode(Result(self.counted, self._computation.aggregate(keys, self._sum.totals)))

    def _least(self) -> int:
        return self.manifest.min_parties if self.round == 1 else len(self.counted)  # nobody counted may miss the echo

    def receive_partial(self, data: bytes) -> tuple[str, ...]:
        """Take what a branch has added up, all of it or nothing, and return whose submissions that are.

        `data` come from `Branch.partial`. Raise `MessageError` where they are damaged, not signed by the aggregator
        though the session is one between machines, of another session, or count a party that is no party of this
        session or has been counted already: a sum cannot be taken apart. The session is as it was.
        """
        try:
            return self._receive_partial(data)
        except DeserialisationError as error:
            raise MessageError(f"partial sum refused: {error}", field=error.field) from None

    def _receive_partial(self, data: bytes) -> tuple[str, ...]:
        if self.round != 1 or self._ended:
            raise MessageError("the session is not open for submissions", field="round")
        signatures = require_signatures(self.manifest, self.signatures)
        limit = _partial_limit(self.manifest, self._sum.packed_size, self._computation.plan.blocks)
        found = PartialSum.from_bytes(data, limit=limit, signatures=signatures)
        if found.manifest != self.digest:
            raise MessageError("it is of another session", field="manifest")
        counted = found.parties(self.manifest)
        for party in counted:
            if party in self._answered or party not in self._awaited:
                reason = "has been counted already" if party in self._answered else self._stranger
                raise MessageError(f"party {party!r}: {reason}", field="sender")
        if len(found.digests) != (0 if signatures is None else len(counted)):
            raise MessageError("it has not the digest of each submission", field="digests")
        self._sum.add_partial(found.sums)
        self._answered.update(zip(counted, found.digests or [b""] * len(counted), strict=True))
        self._refused.update((party, reason) for party, reason in found.refused if party in self._names)
        return counted


class Branch(SealedAggregator):
    """A part of an aggregator: it adds up the submissions of some `parties` and hands on their sum.

    Every party belongs to one branch, so that none can be counted twice. Branches may hand on to branches, in a tree
    whose root is a `SealedAggregator`. A branch sees what the aggregator sees, and is trusted as far: between machines
    it has the aggregator's `signatures`. Raise `InputError` for a name that is not one of the manifest's parties.
    """

    _stranger = "not a party of this branch"

    def __init__(
        self,
        manifest: Manifest,
        computation: SealedComputation[Any, Any, Any, Any],
        keys: Any,
        parties: Iterable[str],
    ) -> None:
        super().__init__(manifest, computation, keys)
        self._awaited = frozenset(parties)
        if strangers := self._awaited - self._names:
            raise InputError(f"party {min(strangers)!r} is not one of the session's, so no branch takes it")
        self._names = self._awaited
        self.round = 1

    def partial(self) -> bytes:
        """End the branch and return its sum, whose submissions are in it, and what it has refused, signed.

        Raise `EvaluationError` where the branch has ended, or has no key to sign with between machines.
        """
        if self._ended:
            raise EvaluationError("the branch has ended; it hands its sum on once")
        signatures = require_signatures(self.manifest, self.signatures)
        self._ended = True
        refused = tuple((party, reason) for party, reason in self._refused.items())
        digests = self._answered if signatures is not None else {}
        partial = PartialSum.of(self.manifest, self._answered, self._sum.partial(), refused, digests)
        return partial.to_bytes(signatures)

    def finish_round(self) -> bytes | None:
        """Raise `EvaluationError`: a branch has no result; its `partial` goes to the aggregator."""
        raise EvaluationError(_NO_RESULT)

    def result(self) -> SessionRecord:
        """Raise `EvaluationError`: who took part is in the aggregator's record."""
        raise EvaluationError(_NO_RESULT)


class SealedParty(Party[R]):
    """Encrypts its values, then decrypts the result and reads it.

    `computation` is the manifest's, `keys` come from its `load_secret`. All parties of the session have the same
    `common_secret`, 32 bytes.
    """

    def __init__(
        self,
        manifest: Manifest,
        computation: SealedComputation[Any, Any, Any, Any],
        keys: Any,
        task: PartyTask[Any, Any, R],
        *,
        common_secret: bytes,
    ) -> None:
        super().__init__(manifest, task.party)
        self.rounds = _rounds(computation)
        # A result names all that count; an echo is shorter than the longest name.
        self.download_limit = computation.payload_limit + _NAME_BYTES * len(manifest.parties)
        self._computation = computation
        self._keys = keys
        self._task = task
        self._common_secret = common_secret
        self._given = b""  # the result, until it has been compared

    def _own_state(self) -> bytes:
        return self._given

    def _restore_own(self, own: bytes) -> None:
        self._given = own

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        started = time.perf_counter()
        if round_number == 1:
            answer = encode(self._computation.encrypt(self._keys, self._task, self._common_secret))
            self._seconds["submit"] = time.perf_counter() - started
            return answer
        if round_number == self.rounds and self._computation.echoed:
            result = decode(self._given, Result, "result")
            self._compare(decode(payload, tuple[bytes, ...], "echoes"), result.counted)
        else:
            result = decode(payload, Result, "result")
            self._check_named(result.counted)
            if self._computation.echoed:
                self._given = payload
                return self._echoes(self.name)[0]
        decrypted = self._computation.decrypt(self._keys, result.ciphertext)
        outcome = self._task.read(decrypted, result.counted, self._common_secret)
        self._seconds["recover"] = time.perf_counter() - started
        self._outcome = replace(outcome, keys="sealed", seconds=self._seconds)
        return b""

    def _echoes(self, *parties: str) -> list[bytes]:
        """Return what parties that were given the same result tell the others: 32 bytes, nothing to outsiders."""
        key = derived_key(self._common_secret, self.digest, _ECHO_LABEL)
        stream = KeyStream(hmac.digest(key, hashlib.sha256(self._given).digest(), "sha256"))
        of_all = stream.words(len(self.manifest.parties), _ECHO_BYTES // 8).tobytes()
        starts = dict(zip(self.manifest.parties, range(0, len(of_all), _ECHO_BYTES), strict=True))
        return [of_all[starts[party] : starts[party] + _ECHO_BYTES] for party in parties]

    def _compare(self, echoes: tuple[bytes, ...], parties: tuple[str, ...]) -> None:
        """Raise `VerificationError` where one of these was given another result, `DeserialisationError` for too few."""
        if len(echoes) != len(parties):
            raise DeserialisationError(f"echoes of {len(echoes)} parties, of {len(parties)}")
        for party, told, expected in zip(parties, echoes, self._echoes(*parties), strict=True):
            if not hmac.compare_digest(told, expected):
                raise VerificationError(
                    f"party {party!r} was given another result than this one, or its word was changed on the way: "
                    "no number is given",
                    check="echo",
                )


def _rounds(computation: SealedComputation[Any, Any, Any, Any]) -> int:
    return 3 if computation.echoed else 2


def _partial_limit(manifest: Manifest, packed_size: int, parts: int) -> int:
    """Return more bytes than any honest partial sum has: the sum, part by part, a digest a party, and some reasons."""
    each_party = 48 + _UTF8_BYTES * (MAX_CHARACTERS + MAX_REASON)
    return packed_size + 1024 * (1 + parts) + len(manifest.parties) * each_party

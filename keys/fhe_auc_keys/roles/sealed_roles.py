"""Both roles of a session with sealed keys: submissions, then the result.

    1  "begin"                 ->  each party encodes its rows and encrypts
    2  the encrypted result    ->  (nothing: each party decrypts, and reads the result)

Where the result is checked against an aggregator that may lie, parties compare first what they were given
(`SealedComputation.echoed`). Otherwise each of them could be given another result, and a lie would have as many tries
as there are parties.

    2  the encrypted result    ->  an echo: what each party tells the others of the result it was given
    3  all echoes              ->  (nothing: where all were given the same, each party decrypts, and reads the result)

What is computed, and under which scheme, is a `fhe_auc.session.computation.SealedComputation`. With joint keys:
`fhe_auc_keys.roles.joint_roles`; there a result that some parties were not given cannot be decrypted at all.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import replace
from typing import Any

from fhe_auc.base.errors import DeserialisationError, EvaluationError, VerificationError
from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.base.party_names import MAX_CHARACTERS
from fhe_auc.base.serialise import decode, encode
from fhe_auc.session.computation import PartyTask, Result, SealedComputation
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.rounds import Aggregator, Party, R

_ECHO_BYTES = 32
_ECHO_LABEL = b"fhe-auc echo 1\0"
_NAME_BYTES = 4 * MAX_CHARACTERS + 8  # of a name, encoded


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

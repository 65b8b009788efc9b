"""The rounds of an exact session with sealed keys.

    exact      submissions, then the result
    verified   submissions; the result, of which each party tells the others what it was given; and only where all were
               given the same, decryption and verdict

A party that decrypted before it knew that all others have the same result could be made to help an aggregator that
gives each of them another one. The verdict stays with the party: its answer in the last round is empty whatever it is.
"""

from __future__ import annotations

import hmac
import time
from dataclasses import replace

from fhe_auc import bfv
from fhe_auc.errors import DeserialisationError, InputError, VerificationError
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.rounds import Aggregator, Party
from fhe_auc.serialise import decode, encode
from fhe_auc_protocols.exact_auc.encrypted_trapezoid import ExactAggregation
from fhe_auc_protocols.exact_auc.party_task import ExactTask, exact_plan, result_parts
from fhe_auc_protocols.exact_auc.plan import ExactPlan

_ECHO_BYTES = 32


class ExactAggregator(Aggregator):
    """Adds ciphertexts as they arrive, multiplies, and blinds."""

    rounds = 2

    def __init__(self, manifest: Manifest, context: bfv.PublicContext) -> None:
        super().__init__(manifest)
        plan = _plan_of(manifest, context)
        self.submission_limit = plan.submission_bytes + 1024 * (1 + plan.blocks)
        self.aggregation = ExactAggregation(context, plan)

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            self.aggregation.add(decode(payload, tuple[bytes, ...], "submission"))

    def _close(self) -> bytes:
        return encode(self._results())

    def _results(self) -> tuple[bytes, ...]:
        return self.aggregation.result()


class VerifiedAggregator(ExactAggregator):
    """Passes on besides what parties tell each other about the result."""

    rounds = 3

    def __init__(self, manifest: Manifest, context: bfv.PublicContext) -> None:
        super().__init__(manifest, context)
        self._echoes: dict[str, bytes] = {}

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round != 2:
            super()._accept(party, payload)
        elif len(payload) == _ECHO_BYTES:
            self._echoes[party] = payload
        else:
            raise DeserialisationError(f"expected an echo of {_ECHO_BYTES} bytes, got {len(payload)}")

    def _close(self) -> bytes:
        if self.round == 1:
            return super()._close()
        return encode(tuple(self._echoes[party] for party in self.manifest.parties))


class ExactParty(Party[Evaluation]):
    """Encrypts its integers, then decrypts the blinded sums and divides."""

    rounds = 2

    def __init__(
        self, manifest: Manifest, context: bfv.SecretContext, task: ExactTask, *, common_secret: bytes
    ) -> None:
        super().__init__(manifest, task.party)
        plan = _plan_of(manifest, context)
        self.download_limit = plan.result_bytes + (1024 + _ECHO_BYTES) * (len(manifest.parties) + plan.blocks)
        self._common_secret = common_secret
        self._context = context
        self._task = task

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        started = time.perf_counter()
        if round_number == 1:
            answer = encode(
                tuple(self._context.encrypt(values, which) for which, values in self._task.encode(self._common_secret))
            )
            self._seconds["submit"] = time.perf_counter() - started
            return answer
        self._conclude(payload, started)
        return b""

    def _conclude(self, result: bytes, started: float) -> None:
        parts = result_parts(self._task.plan, result)
        decrypted = [self._context.decrypt(each, which) for which, each in enumerate(parts)]
        outcome = self._task.read(decrypted, self.manifest.parties, self._common_secret)
        self._seconds["recover"] = time.perf_counter() - started
        self._outcome = replace(outcome, keys="sealed", seconds=self._seconds)


class VerifiedParty(ExactParty):
    """Decrypts only what all parties were given, and accepts only what the authenticator fits."""

    rounds = 3

    _result = b""

    def _own_state(self) -> bytes:
        return self._result

    def _restore_own(self, own: bytes) -> None:
        self._result = own

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        if round_number == 1:
            return super()._answer(round_number, payload)
        common, parties = self._task.derived(self._common_secret), self.manifest.parties
        if round_number == 2:
            self._result = payload
            return common.echoes(len(parties), payload)[parties.index(self.name)]
        started = time.perf_counter()
        echoes = decode(payload, tuple[bytes, ...], "echoes")
        if len(echoes) != len(parties):
            raise DeserialisationError(f"echoes of {len(echoes)} parties, of {len(parties)}")
        for party, told, expected in zip(parties, echoes, common.echoes(len(parties), self._result), strict=True):
            if not hmac.compare_digest(told, expected):
                raise VerificationError(
                    f"party {party!r} was given another result than this one, or its word was changed on the way: "
                    "no number is given",
                    check="echo",
                )
        self._conclude(self._result, started)
        return b""


def _plan_of(manifest: Manifest, context: bfv.PublicContext | bfv.SecretContext) -> ExactPlan:
    plan = exact_plan(manifest)
    if plan.joint_keys:
        raise InputError("the session's manifest asks for joint keys")
    if plan.parameters != context.parameters:
        raise InputError("the keys were made with other parameters than the session's manifest names")
    if manifest.context != context.fingerprint:
        raise InputError("the keys are not those of this session (fingerprint mismatch)")
    return plan

"""The two rounds of a CKKS protocol whose parties all have the secret key: submissions, then the result.

What differs from protocol to protocol, a party's vectors and what it reads off the decrypted slots, is a `PartyTask`.
The circuit is the same for all.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, TypeAlias, TypeVar

import msgspec

from fhe_auc import ckks
from fhe_auc.circuit import aggregation
from fhe_auc.ckks.polynomials import Polynomials, Words
from fhe_auc.errors import InputError
from fhe_auc.manifest import Manifest
from fhe_auc.planner import Plan
from fhe_auc.rounds import Aggregator, Party, R
from fhe_auc.serialise import decode, encode
from fhe_auc.sums import SumPlan

_ROUNDS = 2


class Result(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the aggregator sends once the circuit is done.

    Attributes
    ----------
    parties : int
        Whose submissions are in it.
    ciphertext : bytes
        From `fhe_auc.ckks.PublicContext.dump_result`.
    """

    parties: int
    ciphertext: bytes


AnyPlan: TypeAlias = "Plan | SumPlan"
P = TypeVar("P", Plan, SumPlan)


class PartyTask(ABC, Generic[R]):
    """What a CKKS protocol has one party compute on its own rows.

    Attributes
    ----------
    party : str
        Name.
    plan : Plan or SumPlan
        The manifest's.
    common_secret : bytes
        32 bytes that all parties of the session have, and the aggregator has not; the role sets it before `blocks`.
    """

    party: str
    plan: AnyPlan
    common_secret: bytes

    @abstractmethod
    def blocks(self) -> list[ckks.Slots]:
        """Return the slot vectors to encrypt, one a block."""

    def masks(self, shape: Polynomials) -> Sequence[Words | None]:
        """Return what to add to each block's ciphertext, of that shape; None adds nothing."""
        return [None] * self.plan.blocks

    @abstractmethod
    def outcome(self, slots: ckks.Slots, parties: int) -> R:
        """Return what the decrypted result of so many parties says; what the session cost is filled in by others.

        Raises
        ------
        EvaluationError
            The result fails a check, or is undefined.
        """


class CkksAggregator(Aggregator):
    """Adds ciphertexts as they arrive, then evaluates, blinds and floods the class totals."""

    rounds = _ROUNDS

    def __init__(self, manifest: Manifest, context: ckks.PublicContext) -> None:
        super().__init__(manifest)
        plan = _plan_of(manifest, context)
        self.submission_limit = payload_limit(plan)
        self._aggregation = aggregation(context, plan)

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            self._aggregation.add(decode(payload, tuple[bytes, ...], "submission"))

    def _close(self) -> bytes:
        return encode(Result(len(self.counted), self._aggregation.result()))


class CkksParty(Party[R]):
    """Encrypts its vectors, then decrypts the blinded totals and divides."""

    rounds = _ROUNDS

    def __init__(
        self, manifest: Manifest, context: ckks.SecretContext, task: PartyTask[R], *, common_secret: bytes
    ) -> None:
        super().__init__(manifest, task.party)
        task.common_secret = common_secret
        self.download_limit = payload_limit(_plan_of(manifest, context))
        self._context = context
        self._task = task
        self._seconds: dict[str, float] = {}

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        started = time.perf_counter()
        if round_number == 1:
            masks = self._task.masks(self._context.mask_shape)
            pairs = zip(self._task.blocks(), masks, strict=True)
            answer = encode(tuple(self._context.encrypt(block, mask) for block, mask in pairs))
            self._seconds["submit"] = time.perf_counter() - started
            return answer
        result = decode(payload, Result, "result")
        self._check_counted(result.parties)
        outcome = self._task.outcome(self._context.decrypt(result.ciphertext), result.parties)
        self._seconds["recover"] = time.perf_counter() - started
        self._outcome = replace(outcome, keys="sealed", seconds=self._seconds)
        return b""


def any_plan_of(manifest: Manifest) -> AnyPlan:
    """Return the manifest's plan; raise `InputError` where it has none, or one that does not fit it."""
    plan = manifest.plan
    if plan is None:
        raise InputError("the session's manifest has no plan for an encrypted computation")
    if plan.thresholds != len(manifest.thresholds):
        raise InputError("the manifest's plan is for another number of thresholds")
    if plan.parties < len(manifest.parties):
        raise InputError("the manifest's plan is for fewer parties")
    return plan


def plan_of(manifest: Manifest, kind: type[P]) -> P:
    """Return the manifest's plan, which must be of that kind; errors as `any_plan_of`."""
    plan = any_plan_of(manifest)
    if not isinstance(plan, kind):
        raise InputError("the session's manifest is for another kind of computation")
    return plan


def payload_limit(plan: AnyPlan) -> int:
    """Return more bytes than any honest submission or result: either has at most two polynomials a block."""
    return 2 * plan.submission_bytes + 1024 * (1 + plan.blocks)


def _plan_of(manifest: Manifest, context: ckks.PublicContext | ckks.SecretContext) -> AnyPlan:
    plan = any_plan_of(manifest)
    if plan.parameters != context.parameters:
        raise InputError("the keys were made with other parameters than the session's manifest names")
    if plan.joint_keys:
        raise InputError("the session's manifest asks for joint keys")
    if manifest.context != context.fingerprint:
        raise InputError("the keys are not those of this session (fingerprint mismatch)")
    return plan

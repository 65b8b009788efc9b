"""The two rounds of a CKKS protocol whose parties all have the secret key: submissions, then the result.

What differs from protocol to protocol, a party's vectors and what it reads off the decrypted slots, is a `PartyTask`.
The circuit is the same for all.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Generic, TypeAlias, TypeVar

import msgspec

from fhe_auc import ckks
from fhe_auc.errors import DeserialisationError, EvaluationError, InputError, MessageError
from fhe_auc.manifest import Manifest
from fhe_auc.names import MAX_CHARACTERS
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rounds import Aggregator, Party, R, SessionRecord
from fhe_auc.serialise import decode, encode
from fhe_auc_keys.partial_sums import MAX_REASON, PartialSum
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import aggregation
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.exact_auc.planner import ExactPlan
from fhe_auc_protocols.histograms.encrypted_sums import SumPlan

_ROUNDS = 2
_NO_RESULT = "a branch has no result of its own; hand its partial sum to the aggregator"
_UTF8_BYTES = 4  # of a character, at most


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


CkksPlan: TypeAlias = "AucPlan | SumPlan"
P = TypeVar("P", AucPlan, SumPlan)


class PartyTask(ABC, Generic[R]):
    """What a CKKS protocol has one party compute on its own rows.

    Attributes
    ----------
    party : str
        Name.
    plan : AucPlan or SumPlan
        The manifest's.
    common_secret : bytes
        32 bytes that all parties of the session have, and the aggregator has not; the role sets it before `blocks`.
    """

    party: str
    plan: CkksPlan
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
        self._plan = plan = _plan_of(manifest, context)
        self.submission_limit = payload_limit(plan)
        self._aggregation = aggregation(context, plan)

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            self._aggregation.add(decode(payload, tuple[bytes, ...], "submission"))

    def _close(self) -> bytes:
        return encode(Result(len(self.counted), self._aggregation.result()))

    def receive_partial(self, data: bytes) -> tuple[str, ...]:
        """Take what a branch has added up, all of it or nothing, and return whose submissions that are.

        Parameters
        ----------
        data : bytes
            From `Branch.partial`, over a link on which nobody else can write: a partial sum is not signed.

        Raises
        ------
        MessageError
            Damaged, of another session, or it counts a party that is no party of this session or has been counted
            already: a sum cannot be taken apart. The session is as it was.
        """
        try:
            return self._receive_partial(data)
        except DeserialisationError as error:
            raise MessageError(f"partial sum refused: {error}", field=error.field) from None

    def _receive_partial(self, data: bytes) -> tuple[str, ...]:
        if self.round != 1 or self._ended:
            raise MessageError("the session is not open for submissions", field="round")
        found = PartialSum.from_bytes(data, limit=partial_limit(self.manifest, self._plan))
        if found.manifest != self._digest:
            raise MessageError("it is of another session", field="manifest")
        counted = found.parties(self.manifest)
        for party in counted:
            if party in self._answered or party not in self._awaited:
                reason = "has been counted already" if party in self._answered else self._stranger
                raise MessageError(f"party {party!r}: {reason}", field="sender")
        self._aggregation.add_partial(found.sums)
        self._answered.update(dict.fromkeys(counted))
        self._refused.update((party, reason) for party, reason in found.refused if party in self._names)
        return counted


class Branch(CkksAggregator):
    """A part of an aggregator: it adds up the submissions of some parties and hands on their sum.

    Every party belongs to one branch, so that none can be counted twice. Branches may hand on to branches, in a tree
    whose root is a `CkksAggregator`. A branch sees what the aggregator sees, and is trusted as far.

    Parameters
    ----------
    manifest : Manifest
    context : PublicContext
    parties : iterable of str
        Whose submissions this branch takes.

    Raises
    ------
    InputError
        A name that is not one of the manifest's parties.
    """

    _stranger = "not a party of this branch"

    def __init__(self, manifest: Manifest, context: ckks.PublicContext, parties: Iterable[str]) -> None:
        super().__init__(manifest, context)
        self._awaited = frozenset(parties)
        if strangers := self._awaited - self._names:
            raise InputError(f"party {min(strangers)!r} is not one of the session's, so no branch takes it")
        self._names = self._awaited
        self.start()

    def partial(self) -> bytes:
        """End the branch and return its sum, whose submissions are in it, and what it has refused.

        Raises
        ------
        EvaluationError
            The branch has ended.
        """
        if self._ended:
            raise EvaluationError("the branch has ended; it hands its sum on once")
        self._ended = True
        refused = tuple((party, reason) for party, reason in self._refused.items())
        return PartialSum.of(self.manifest, self._answered, self._aggregation.partial(), refused).to_bytes()

    def finish_round(self) -> bytes | None:
        """Refuse: a branch has no result; its `partial` goes to the aggregator."""
        raise EvaluationError(_NO_RESULT)

    def result(self) -> SessionRecord:
        """Refuse: who took part is in the aggregator's record."""
        raise EvaluationError(_NO_RESULT)


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


def any_plan_of(manifest: Manifest) -> CkksPlan:
    """Return the manifest's plan; raise `InputError` where it has none, or one that does not fit it."""
    plan = manifest.plan
    if plan is None:
        raise InputError("the session's manifest has no plan for an encrypted computation")
    if isinstance(plan, ExactPlan):
        raise InputError("the session's manifest is for an exact computation")
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


def payload_limit(plan: CkksPlan) -> int:
    """Return more bytes than any honest submission or result: either has at most two polynomials a block."""
    return 2 * plan.submission_bytes + 1024 * (1 + plan.blocks)


def partial_limit(manifest: Manifest, plan: CkksPlan) -> int:
    """Return more bytes than any honest partial sum: two polynomials a block, a bit a party, and some reasons."""
    return payload_limit(plan) + len(manifest.parties) * (1 + _UTF8_BYTES * (MAX_CHARACTERS + MAX_REASON))


def _plan_of(manifest: Manifest, context: ckks.PublicContext | ckks.SecretContext) -> CkksPlan:
    plan = any_plan_of(manifest)
    if plan.parameters != context.parameters:
        raise InputError("the keys were made with other parameters than the session's manifest names")
    if plan.joint_keys:
        raise InputError("the session's manifest asks for joint keys")
    if manifest.context != context.fingerprint:
        raise InputError("the keys are not those of this session (fingerprint mismatch)")
    return plan

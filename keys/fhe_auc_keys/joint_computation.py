"""What a session with joint keys computes: all that its rounds (`fhe_auc_keys.joint_roles`) leave to scheme and protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from fhe_auc.ckks import Slots
from fhe_auc.ckks.flooding import flooding_layers
from fhe_auc.ckks.openfhe_joint_keys import JointSetup, JointShare
from fhe_auc.ckks.openfhe_partial_decryption import fuse, partial_decryption
from fhe_auc.errors import InputError
from fhe_auc.manifest import Manifest
from fhe_auc.rlwe.openfhe_joint_keys import BaseJointSetup
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rounds import R
from fhe_auc_keys.sealed_roles import PartyTask, any_plan_of
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import aggregation
from fhe_auc_protocols.blinded_auc.plan import AucPlan

T = TypeVar("T")
S = TypeVar("S")
F = TypeVar("F")


class JointComputation(ABC, Generic[T, S, F, R]):
    """One session's computation; everything about it is public.

    T is a party's task, S its share of the secret key, F a decrypted result, R what the party makes of it.

    Attributes
    ----------
    setup : BaseJointSetup
        Common polynomials and shapes.
    blocks : int
        Ciphertexts of a submission.
    partial_shape : Polynomials
        Shape of a party's partial decryption of the whole result.
    """

    setup: BaseJointSetup[Any]
    blocks: int
    partial_shape: Polynomials

    @abstractmethod
    def new_share(self) -> S:
        """Return a fresh share of the secret key."""

    @abstractmethod
    def restored_share(self, saved: bytes) -> S:
        """Return a share that has been kept; raise `DeserialisationError` where it is none."""

    @abstractmethod
    def encrypted(self, share: S, task: T) -> list[bytes]:
        """Return a party's parts of all ciphertexts of the submission."""

    @abstractmethod
    def result(self, key_parts: Sequence[Words], relinearisation_part: Words, totals: Sequence[Words]) -> bytes:
        """Return the encrypted result, from the sums of all parties' parts of keys and of ciphertexts."""

    @abstractmethod
    def partial(self, share: S, result: bytes) -> bytes:
        """Return a party's partial decryption, smudged.

        Raises
        ------
        DeserialisationError
            Not a result of this computation.
        """

    @abstractmethod
    def fused(self, result: bytes, partials: Iterable[Words]) -> F:
        """Return the decrypted result, from all partial decryptions, each once."""

    @abstractmethod
    def outcome(self, task: T, fused: F, parties: int) -> R:
        """Return what a party reads off the decrypted result."""


class CkksComputation(JointComputation["PartyTask[R]", JointShare, Slots, R]):
    """That of the CKKS protocols.

    Parameters
    ----------
    manifest : Manifest
        With a plan for joint keys.

    Raises
    ------
    InputError
        The manifest has no such plan.
    """

    setup: JointSetup

    def __init__(self, manifest: Manifest) -> None:
        self._plan = plan = any_plan_of(manifest)
        if not plan.joint_keys:
            raise InputError("the session's manifest is not one for joint keys")
        self.setup = JointSetup(plan.parameters, manifest.session, multiplies=isinstance(plan, AucPlan))
        self.blocks = plan.blocks
        self.partial_shape = self.setup.submission_part

    def new_share(self) -> JointShare:
        """Return a fresh share of the secret key."""
        return JointShare(self.setup)

    def restored_share(self, saved: bytes) -> JointShare:
        """Return a share that has been kept."""
        return JointShare.restored(self.setup, saved)

    def encrypted(self, share: JointShare, task: PartyTask[R]) -> list[bytes]:
        """Return a party's parts of all blocks."""
        masks = task.masks(self.setup.submission_part)
        pairs = enumerate(zip(task.blocks(), masks, strict=True))
        shift = self._plan.shift_bits
        return [share.encrypt(block, number, mask, shift_bits=shift) for number, (block, mask) in pairs]

    def result(self, key_parts: Sequence[Words], relinearisation_part: Words, totals: Sequence[Words]) -> bytes:
        """Return the encrypted result of the plan's circuit."""
        context = self.setup.public_context(key_parts, relinearisation_part)
        aggregated = aggregation(context, self._plan)
        blocks = enumerate(totals)
        aggregated.add([self.setup.submission(total, block, context.fingerprint) for block, total in blocks])
        return aggregated.result()

    def partial(self, share: JointShare, result: bytes) -> bytes:
        """Return a party's partial decryption."""
        plan = self._plan
        layers = flooding_layers(plan.parameters.slots, plan.smudging_deviation, unit=plan.unit)
        return partial_decryption(share, result, layers)

    def fused(self, result: bytes, partials: Iterable[Words]) -> Slots:
        """Return the slots."""
        return fuse(self.setup, result, partials)

    def outcome(self, task: PartyTask[R], fused: Slots, parties: int) -> R:
        """Return what the task reads off the slots."""
        return task.outcome(fused, parties)

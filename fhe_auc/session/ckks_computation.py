"""Computations under CKKS: the parties' values in one ciphertext a block, and sums of squares of their sums."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.base.keystream import derived_key
from fhe_auc.ckks.context import PublicContext, SecretContext
from fhe_auc.ckks.encoding import Slots
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.session.aggregator import RunningSum
from fhe_auc.session.computation import PartyTask, Submission
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.plan import Plan

_MASK = b"fhe-auc zero-sum mask 1\0"
Sums: TypeAlias = NDArray[np.complex128]  # of `SecretContext.decrypt_sums`
CkksTask: TypeAlias = PartyTask[Slots, Sums, R]  # encodes the slots of each block, and reads the result's sums
Circuit: TypeAlias = Callable[[PublicContext, Sequence[Words]], bytes]
"""From the sums of all submissions, block by block, to the result, of `PublicContext.dump_sums`."""


class CkksComputation:
    """A computation under a key holder's CKKS keys; the plan is the manifest's.

    A submission has so many ciphertexts, `blocks`, and a result so many sums of squares. Where it is `masked`,
    ciphertexts get masks, which vanish in the sum over all parties alone. Methods that take keys raise
    `DeserialisationError` for damaged or other bytes, `InputError` for another session's.
    """

    def __init__(
        self, manifest: Manifest, plan: Plan, circuit: Circuit, *, blocks: int, squares: int, masked: bool = False
    ) -> None:
        self._manifest, self._plan, self._circuit = manifest, plan, circuit
        self._blocks, self._squares, self.masked = blocks, squares, masked

    @property
    def payload_limit(self) -> int:
        """More bytes than any honest submission or result has: at most two polynomials a part."""
        return 2 * self._plan.submission_bytes + 1024 * (1 + self._blocks)

    def keys(self, context: bytes) -> PublicContext:
        """Return what the aggregator computes with."""
        public = ckks.load_public(context)
        self._manifest.check_keys(self._plan, public.parameters, public.fingerprint)
        return public

    def secret(self, context: bytes) -> SecretContext:
        """Return the secret key."""
        secret = ckks.load_secret(context)
        self._manifest.check_keys(self._plan, secret.parameters, secret.fingerprint)
        return secret

    def running_sum(self, keys: PublicContext) -> RunningSum:
        """Return an empty sum of submissions."""
        return running_sum(keys, self._blocks)

    def encrypt(self, secret: SecretContext, party: str, common_secret: bytes, values: Sequence[Slots]) -> Submission:
        """Return a ciphertext a block."""
        masks: Sequence[Words | None] = [None] * self._blocks
        if self.masked:
            masks = zero_sum_masks(secret.mask_shape, self._manifest, party, common_secret, blocks=self._blocks)
        return Submission(tuple([secret.encrypt(*each) for each in zip(values, masks, strict=True)]))

    def aggregate(self, keys: PublicContext, totals: Sequence[Words]) -> bytes:
        """Return the encrypted result of the circuit."""
        return self._circuit(keys, totals)

    def decrypt(self, secret: SecretContext, result: bytes) -> Sums:
        """Return the result's sums over slots."""
        return secret.decrypt_sums(result, self._squares)


def running_sum(context: PublicContext, blocks: int) -> RunningSum:
    """Return an empty sum of submissions of so many blocks, made for this context."""
    return RunningSum([context.ciphertext_shape] * blocks, lambda _, block, into: context.read_submission(block, into))


def zero_sum_masks(
    shape: Polynomials, manifest: Manifest, party: str, common_secret: bytes, *, blocks: int
) -> list[Words]:
    """Return a party's masks for its ciphertexts, of that shape, one a block; all parties have to take part.

    Party i adds G_i − G_{i+1}, where the G are uniform modulo Q. In the sum over all parties they vanish exactly; a sum
    in which a party is missing, counted twice or replaced stays uniform. Raises ValueError where the manifest has no
    such party.
    """
    parties = manifest.parties
    index = parties.index(party)
    masks = []
    for block in range(blocks):
        owners = index, (index + 1) % len(parties)
        keys = (derived_key(common_secret, manifest.digest, _MASK, owner, block) for owner in owners)
        mask, next_pad = map(shape.uniform, keys)  # G of this party, and of the next one
        shape.subtract_in_place(mask, next_pad)
        masks.append(mask)
    return masks

"""Exact sums of integers with joint keys: plan, and what is computed, on our own arithmetic (`fhe_auc.bfv.joint_keys`).

Slots hold integers modulo t, from -t/2 to t/2. The aggregator adds ciphertexts up, and a fresh encryption of zero, so
that what parties decrypt together with is no longer what a party's submission was made with. The noise of a sum is what
encryption drew, independent of what is encrypted: nothing has to hide it. What could tell a party's share, its smudging
hides: ±2^c, with c ≥ λ + log2 N + log2 X of noise up to X, and X + n·2^c of n parties below Q/2t.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import CapacityError, DeserialisationError, EvaluationError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.bfv.ciphertext_noise import check_joint_room, hidden_by, kept_capacity_bits, sum_bound
from fhe_auc.bfv.joint_evaluation import JointEvaluator
from fhe_auc.bfv.joint_keys import JointSetup, JointShare, fuse
from fhe_auc.bfv.parameters import JOINT_CHAINS, JOINT_SUM_CHAIN, BfvParameters
from fhe_auc.rlwe.modular import Residues, residues
from fhe_auc.rlwe.parameters import BackendName
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.primes import primes_above
from fhe_auc.rlwe.statistical_security import DEFAULT_SMUDGING_BITS, check_smudging
from fhe_auc.session.ckks_computation import masks_of
from fhe_auc.session.computation import JointComputation, PartyTask
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import (
    Keys,
    Parameter,
    describe_download,
    describe_ring,
    describe_smudging,
    describe_upload,
    ring_as_dict,
)
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS
from fhe_auc_protocols.histograms.encrypted_sums import NO_SUM, Sums

(_MODULUS,) = primes_above(2**49, 1, JOINT_SUM_CHAIN.ring_dimension)
_UNUSED_BITS = 10  # of the modulus at least: a slot of nonsense passes for a sum once in so many powers of two
_SMUDGING_SHARE = 3 / 4  # of the capacity, for all parties together


class JointSumPlan(Sums, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything public that parties and aggregator must agree on for an encrypted sum under joint keys.

    Raises `CapacityError`: the parts do not fit together. A plan comes from whoever wrote the manifest.
    """

    kind: ClassVar[str] = "joint sums"
    keys: ClassVar[Keys] = "joint"

    parameters: BfvParameters
    """Of a chain for joint keys, with one plaintext modulus."""

    smudging_bits: int
    """λ of partial decryptions, 30 to 80."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_smudging(True, self.smudging_bits)
        if not self.parameters.joint_keys or self.parameters.plain_moduli != (_MODULUS,):
            raise CapacityError("the plan's parameters are not those of sums with joint keys")
        if 2 * self.parties * self.max_total > _MODULUS >> _UNUSED_BITS:
            raise CapacityError("the plan's sums do not fit its modulus")
        check_joint_room(
            self.parameters,
            self.noise_bound,
            len(self.parameters.modulus_bits),
            shares=self.parties,
            flooding=0,
            smudging=self.smudging_exponent,
        )
        if self.smudging_margin < self.smudging_bits:
            raise CapacityError(
                f"{self.parties:,} parties make so much noise that smudging hides it by {self.smudging_margin:.1f} "
                f"bits only, {self.smudging_bits} are asked for; take fewer parties"
            )

    @property
    def blocks(self) -> int:
        """Ciphertexts of a submission."""
        return -(-self.integers // self.parameters.slots)

    @property
    def noise_bound(self) -> float:
        """X: no coefficient of the noise of a sum is larger."""
        return sum_bound(self.parameters, self.parties)

    @property
    def smudging_exponent(self) -> int:
        """c: a party's smudging is uniform on [-2^c, 2^c)."""
        capacity = kept_capacity_bits(self.parameters, len(self.parameters.modulus_bits))
        return math.floor(capacity + math.log2(_SMUDGING_SHARE / self.parties))

    @property
    def smudging_margin(self) -> float:
        """λ that smudging reaches, at least `smudging_bits`."""
        return hidden_by(self.parameters, self.smudging_exponent, self.noise_bound)

    @property
    def submission_bytes(self) -> int:
        """Bytes of one party's ciphertexts, without envelope."""
        return self.blocks * self.parameters.submission_bytes

    @property
    def key_bytes(self) -> int:
        """Bytes of one party's part of the public key, without envelope."""
        return self.parameters.submission_bytes

    @property
    def download_bytes(self) -> int:
        """Bytes that a party receives, without envelopes: the result, and all partial decryptions."""
        return (2 + self.parties) * self.submission_bytes

    def pack(self, integers: ArrayLike) -> list[Residues]:
        """Return the slots of each ciphertext, of integers as `checked` takes them; errors likewise."""
        slots = np.zeros((self.blocks, self.parameters.slots), np.int64)
        slots.ravel()[: self.integers] = self.checked(integers).ravel()
        return [residues(each, _MODULUS) for each in slots]

    def sums_of_any_size(self, slots: Sequence[Residues]) -> NDArray[np.int64]:
        """Return the sums, shape (vectors, thresholds), up to `max_total` of each party, from the decrypted slots.

        Raises `EvaluationError`: the slots are not those of sums.
        """
        found = np.concatenate(slots).astype(np.int64)
        found[found > _MODULUS // 2] -= _MODULUS
        if np.abs(found).max() > self.parties * self.max_total:
            raise EvaluationError(NO_SUM)
        return self.unpacked(found)

    def describe(self) -> list[Parameter]:
        """Return the parameters with their reasons."""
        return [
            *describe_ring(self.parameters, "N integers a ciphertext", "the room for sums, and for what hides"),
            self.describe_sums(),
            Parameter("ciphertexts", f"{self.blocks}", "as many as the sums need"),
            describe_upload(self, "all ciphertexts"),
            describe_download(self),
            describe_smudging(math.floor(self.smudging_margin)),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters as plain data."""
        return {
            **ring_as_dict(self, smudging_bits=self.smudging_margin),
            "key_bytes": self.key_bytes,
            "sums": self.integers,
        }


def plan_joint_sum(
    *,
    thresholds: int,
    vectors: int,
    parties: int,
    backend: BackendName,
    max_total: int = DEFAULT_MAX_ROWS,
    smudging_bits: int = DEFAULT_SMUDGING_BITS,
) -> JointSumPlan:
    """Return the plan with the smallest upload; parameters as of `JointSumPlan`.

    Raises `CapacityError`: an argument is out of range, or no parameters with 128-bit security do.
    """
    reason: CapacityError | None = None
    for chain in (JOINT_SUM_CHAIN, *JOINT_CHAINS):
        parameters = BfvParameters(backend, chain.ring_dimension, chain.modulus_bits, chain.special_bits, (_MODULUS,))
        try:
            return JointSumPlan(
                thresholds=thresholds,
                vectors=vectors,
                parties=parties,
                max_total=max_total,
                parameters=parameters,
                smudging_bits=smudging_bits,
            )
        except CapacityError as error:
            reason = error
    raise CapacityError(f"no parameters with 128-bit security do for these sums: {reason}")


class JointSums(JointComputation[PartyTask[Any, Any, Any], JointEvaluator, "list[Residues]"]):
    """The sum of all parties' integers under joint keys; `binding` as `JointSetup` takes it."""

    plan: JointSumPlan
    setup: JointSetup

    def __init__(self, manifest: Manifest, binding: bytes) -> None:
        self._manifest = manifest
        self.plan = manifest.decoded_plan(JointSumPlan)
        kept = len(self.plan.parameters.modulus_bits)
        self.setup = JointSetup(self.plan.parameters, binding, products=0, kept=kept)
        half = self.setup.result_part
        self.partial_shape = Polynomials(half.ring_dimension, self.plan.blocks * half.moduli)
        self._no_mask = np.zeros(half.ring_dimension, np.uint64)

    def encrypt(self, keys: JointShare, task: PartyTask[Any, Any, Any], common_secret: bytes) -> tuple[bytes, ...]:
        """Return a party's parts of all ciphertexts, masked if the task says so."""
        masks = masks_of(task, self.setup.submission_part, self._manifest, self.plan.blocks, common_secret)
        pairs = enumerate(zip(task.encode(common_secret), masks, strict=True))
        return tuple(keys.encrypt(values, 0, block, mask) for block, (values, mask) in pairs)

    def public_keys(self, key_parts: Sequence[Words], relinearisation_part: Words) -> JointEvaluator:
        """Return what the aggregator computes with."""
        return JointEvaluator(self.setup, key_parts, relinearisation_part)

    def aggregate(self, keys: JointEvaluator, totals: Sequence[Words]) -> bytes:
        """Return the encrypted sums."""
        results = []
        for block, total in enumerate(totals):
            result = keys.total(total, block)
            keys.flood(result, 0)
            results.append(keys.dump_result(result, 0))
        return encode(tuple(results))

    def partial_decryption(self, share: JointShare, result: bytes) -> bytes:
        """Return a party's partial decryptions, one for each ciphertext."""
        exponent = self.plan.smudging_exponent
        return b"".join(
            share.partial_decryption(each, 0, exponent, self._no_mask) for each in self._result_parts(result)
        )

    def combine(self, result: bytes, partials: Iterable[Words]) -> list[Residues]:
        """Return the decrypted slots of each ciphertext."""
        by_party = [np.split(each, self.plan.blocks) for each in partials]
        return [
            fuse(self.setup, each, 0, [parts[block] for parts in by_party])
            for block, each in enumerate(self._result_parts(result))
        ]

    def _result_parts(self, result: bytes) -> tuple[bytes, ...]:
        parts = decode(result, tuple[bytes, ...], "result")
        if len(parts) != self.plan.blocks:
            raise DeserialisationError(f"a result of {len(parts)} ciphertexts, of {self.plan.blocks}")
        return parts

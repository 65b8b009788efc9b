"""Exact sessions with joint keys: in the rounds of `fhe_auc_keys.joint_roles`, what is computed.

The echo of sealed sessions is in these rounds: a party seals its partial decryption to the others together with the
digest of the result that it was given, so that nobody who was given another one can open it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fhe_auc.bfv import PublicContext
from fhe_auc.bfv.openfhe_joint_keys import JointSetup, JointShare
from fhe_auc.bfv.openfhe_partial_decryption import fuse, partial_decryption
from fhe_auc.computation import JointComputation
from fhe_auc.errors import InputError
from fhe_auc.manifest import Manifest
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.serialise import encode
from fhe_auc_protocols.exact_auc.encrypted_trapezoid import ExactAggregation
from fhe_auc_protocols.exact_auc.party_task import ExactTask, exact_plan, result_parts
from fhe_auc_protocols.exact_auc.plan import ExactPlan


class ExactComputation(JointComputation[ExactTask, PublicContext, JointShare, "list[Residues]"]):
    """That of the exact protocols, `binding` as `JointSetup` takes it.

    Raises `InputError` where the manifest has no exact plan for joint keys.
    """

    plan: ExactPlan
    setup: JointSetup
    share_type = JointShare

    def __init__(self, manifest: Manifest, binding: bytes) -> None:
        self.plan = plan = exact_plan(manifest)
        if not plan.joint_keys:
            raise InputError("the session's manifest asks for sealed keys")
        self.setup = JointSetup(plan.parameters, binding)
        half = self.setup.submission_part
        self.partial_shape = Polynomials(half.ring_dimension, plan.primes * half.moduli)

    def encrypt(self, keys: JointShare, task: ExactTask, common_secret: bytes) -> tuple[bytes, ...]:
        """Return a party's parts of all ciphertexts."""
        vectors = enumerate(task.encode(common_secret))
        return tuple(keys.encrypt(values, which, block) for block, (which, values) in vectors)

    def aggregate(self, keys: PublicContext, totals: Sequence[Words]) -> bytes:
        """Return the blinded products."""
        aggregation = ExactAggregation(keys, self.plan)
        each_prime = len(totals) // self.plan.primes
        aggregation.add(
            [
                self.setup.submission(total, block, block // each_prime, keys.fingerprint)
                for block, total in enumerate(totals)
            ]
        )
        return encode(aggregation.result())

    def partial_decryption(self, share: JointShare, result: bytes) -> bytes:
        """Return a party's partial decryptions, one for each prime."""
        parts = enumerate(result_parts(self.plan, result))
        return b"".join(partial_decryption(share, each, which, self.plan.smudging_exponent) for which, each in parts)

    def combine(self, result: bytes, partials: Iterable[Words]) -> list[Residues]:
        """Return the decrypted slots, shape (slots,), for each prime."""
        by_party = [np.split(each, self.plan.primes) for each in partials]
        return [
            fuse(self.setup, each, which, [parts[which] for parts in by_party])
            for which, each in enumerate(result_parts(self.plan, result))
        ]

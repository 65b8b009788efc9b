"""Exact sessions with joint keys: in the rounds of `fhe_auc_keys.joint_roles`, what is computed.

The echo of sealed sessions is in these rounds: a party seals its partial decryption to the others together with the
digest of the result that it was given, so that nobody who was given another one can open it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fhe_auc.bfv.openfhe_joint_keys import JointSetup, JointShare
from fhe_auc.bfv.openfhe_partial_decryption import fuse, partial_decryption
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.serialise import encode
from fhe_auc_keys.joint_computation import JointComputation
from fhe_auc_protocols.exact_auc.encrypted_trapezoid import ExactAggregation
from fhe_auc_protocols.exact_auc.task import ExactTask, exact_plan, result_parts


class ExactComputation(JointComputation[ExactTask, JointShare, "list[Residues]", Evaluation]):
    """That of the exact protocols.

    Parameters
    ----------
    manifest : Manifest
        With an exact plan for joint keys.

    Raises
    ------
    InputError
        The manifest has no such plan.
    """

    setup: JointSetup

    def __init__(self, manifest: Manifest) -> None:
        self._plan = plan = exact_plan(manifest, joint_keys=True)
        self.setup = JointSetup(plan.parameters, manifest.session)
        self.blocks = plan.blocks
        half = self.setup.submission_part
        self.partial_shape = Polynomials(half.ring_dimension, plan.primes * half.moduli)

    def new_share(self) -> JointShare:
        """Return a fresh share of the secret key."""
        return JointShare(self.setup)

    def restored_share(self, saved: bytes) -> JointShare:
        """Return a share that has been kept."""
        return JointShare.restored(self.setup, saved)

    def encrypted(self, share: JointShare, task: ExactTask) -> list[bytes]:
        """Return a party's parts of all ciphertexts."""
        return [share.encrypt(values, which, block) for block, (which, values) in enumerate(task.vectors())]

    def result(self, key_parts: Sequence[Words], relinearisation_part: Words, totals: Sequence[Words]) -> bytes:
        """Return the blinded products."""
        context = self.setup.public_context(key_parts, relinearisation_part)
        aggregation = ExactAggregation(context, self._plan)
        each_prime = len(totals) // self._plan.primes
        aggregation.add(
            [
                self.setup.submission(total, block, block // each_prime, context.fingerprint)
                for block, total in enumerate(totals)
            ]
        )
        return encode(aggregation.result())

    def partial(self, share: JointShare, result: bytes) -> bytes:
        """Return a party's partial decryptions, one for each prime."""
        parts = enumerate(result_parts(self._plan, result))
        return b"".join(partial_decryption(share, each, which, self._plan.smudging_exponent) for which, each in parts)

    def fused(self, result: bytes, partials: Iterable[Words]) -> list[Residues]:
        """Return the slots for each prime."""
        by_party = [np.split(each, self._plan.primes) for each in partials]
        return [
            fuse(self.setup, each, which, [parts[which] for parts in by_party])
            for which, each in enumerate(result_parts(self._plan, result))
        ]

    def outcome(self, task: ExactTask, fused: list[Residues], parties: int) -> Evaluation:
        """Return AUC and resolution."""
        return task.outcome(fused)

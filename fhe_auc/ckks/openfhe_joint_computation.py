"""Computations under CKKS with joint keys: `fhe_auc.ckks.computation`, where each party holds a share of the key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fhe_auc.ckks.computation import Circuit, CkksTask, JointCkksPlan, masks_of
from fhe_auc.ckks.context import PublicContext, Slots
from fhe_auc.ckks.flooding import flooding_layers
from fhe_auc.ckks.openfhe_joint_keys import JointSetup, JointShare
from fhe_auc.ckks.openfhe_partial_decryption import fuse, partial_decryption
from fhe_auc.computation import JointComputation
from fhe_auc.errors import InputError
from fhe_auc.manifest import Manifest
from fhe_auc.rlwe.polynomials import Words


class JointCkks(JointComputation[CkksTask, PublicContext, JointShare, Slots]):
    """A computation under the parties' CKKS keys; the plan is the manifest's, `binding` as `JointSetup` takes it.

    Raises `InputError` where the plan is not one for joint keys.
    """

    plan: JointCkksPlan
    setup: JointSetup
    share_type = JointShare

    def __init__(self, manifest: Manifest, plan: JointCkksPlan, circuit: Circuit, binding: bytes) -> None:
        if plan.keys != "joint":
            raise InputError("the session's manifest is not one for joint keys")
        self._manifest = manifest
        self.plan = plan
        self._circuit = circuit
        self.setup = JointSetup(plan.parameters, binding)
        self.partial_shape = self.setup.result_part

    def encrypt(self, keys: JointShare, task: CkksTask, common_secret: bytes) -> tuple[bytes, ...]:
        """Return a party's parts of all blocks, masked if the task says so."""
        masks = masks_of(task, self.setup.submission_part, self._manifest, self.plan.blocks, common_secret)
        pairs = enumerate(zip(task.encode(common_secret), masks, strict=True))
        return tuple(keys.encrypt(block, number, mask) for number, (block, mask) in pairs)

    def public_keys(self, key_parts: Sequence[Words], relinearisation_part: Words) -> PublicContext:
        """Return the aggregator's context."""
        return self.setup.public_context(key_parts, relinearisation_part)

    def aggregate(self, keys: PublicContext, totals: Sequence[Words]) -> bytes:
        """Return the encrypted result of the circuit."""
        blocks = (self.setup.submission(total, block, keys.fingerprint) for block, total in enumerate(totals))
        return keys.dump_result(self._circuit(keys, [keys.load_submission(block) for block in blocks]))

    def partial_decryption(self, share: JointShare, result: bytes) -> bytes:
        """Return a party's partial decryption."""
        plan = self.plan
        layers = flooding_layers(plan.parameters.slots, plan.smudging_deviation, unit=plan.unit)
        return partial_decryption(share, result, layers)

    def combine(self, result: bytes, partials: Iterable[Words]) -> Slots:
        """Return the result's slots."""
        return fuse(self.setup, result, partials)

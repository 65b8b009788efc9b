"""Exact sessions with several helpers: in the rounds of `fhe_auc_keys.joint_helper_roles`, what is computed.

A party's pad is the sum of one for each helper, M_j is the sum of helper j's for the parties that count, V that of
their padded sketches. Before it knows whose pads it will open, helper j encrypts a blind R_j, which is random; then it
says -M_j - R_j, which with R_j hidden tells nothing. So everybody has the encrypted sum of the sketches,

    W = V + Σ (-M_j - R_j) + Σ R_j

as both factors of every product, which are linear in it (`joint_computation`): the first two are added in the clear.
Each helper adds noise and a mask of its own to its partial decryption; an aggregator's would be worth nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fhe_auc.bfv.joint_evaluation import JointEvaluator
from fhe_auc.bfv.joint_keys import JointSetup, JointShare
from fhe_auc.computation import HelpersComputation
from fhe_auc.manifest import Manifest
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.serialise import encode
from fhe_auc.submissions import RunningSum
from fhe_auc.sums.residues import pack
from fhe_auc_protocols.exact_auc.joint_computation import ExactJointComputation
from fhe_auc_protocols.exact_auc.padded_computation import PaddedComputation


class ExactHelpersComputation(HelpersComputation[JointShare]):
    """That of the exact protocols, `binding` as `JointSetup` takes it.

    Raises `InputError` where the manifest has no exact plan for several helpers.
    """

    setup: JointSetup
    share_type = JointShare

    def __init__(self, manifest: Manifest, binding: bytes) -> None:
        self._padded = PaddedComputation(manifest)
        self._joint = ExactJointComputation(manifest, binding)
        self.setup, self.partial_shape = self._joint.setup, self._joint.partial_shape
        plan = self._padded.plan
        self._primes = plan.parameters.plain_moduli
        _, keys, _ = self.setup.key_parts
        self._shapes = [keys] + [self.setup.submission_part] * (2 * plan.layout.ciphertexts * plan.primes)
        self.revealed = len(self._shapes)
        self.payload_limit = self._padded.payload_limit + sum(shape.packed_size + 1024 for shape in self._shapes)

    def parts(self, share: JointShare, blind: bytes, *, first: bool) -> tuple[bytes, ...]:
        """Return the first part of the relinearisation key, and parts of all ciphertexts, of the blind."""
        sketch = self._padded.pads(0, blind)
        return (share.key_parts().relinearisation, *self._joint.encrypted(share, sketch, first=first))

    def remainder(self, seeds: Mapping[str, bytes], blind: bytes) -> tuple[bytes, ...]:
        """Return -M_j - R_j for each prime."""
        pads, blinds = self._padded.pads_of(seeds), self._padded.pads(0, blind)
        return tuple(
            pack(_negative(modular.add(left, right, prime), prime), prime)
            for left, right, prime in zip(pads, blinds, self._primes, strict=True)
        )

    def check(self, parts: Sequence[bytes]) -> None:
        """Raise `DeserialisationError` unless these are one helper's, and behind them its remainder."""
        RunningSum(self._shapes).add(parts[: self.revealed])
        self._padded.running_sum(None).add(parts[self.revealed :])

    def packed(self, totals: Sequence[Words]) -> tuple[bytes, ...]:
        """Return the sum of all submissions, packed as these are."""
        return tuple(pack(words[0], prime) for words, prime in zip(totals, self._primes, strict=True))

    def result(self, padded: Sequence[bytes], parts: Sequence[Sequence[bytes]]) -> tuple[bytes, Words]:
        """Return the encrypted sums for each prime, without the second part of the relinearisation key."""
        encrypted, clear = RunningSum(self._shapes), self._padded.running_sum(None)
        clear.add(padded)
        for each in parts:
            encrypted.add(each[: self.revealed])
            clear.add(each[self.revealed :])
        keys, *totals = encrypted.totals
        nothing = self.setup.nothing.zeros()
        evaluator = JointEvaluator(self.setup, (nothing, keys, nothing), self.setup.relinearisation_part.zeros())
        results = []
        for which, words in enumerate(clear.totals):
            blocks = [totals[block] for block in self.setup.blocks(which)]
            for total, values in zip(blocks, self._joint.factors(words[0], which, first=False), strict=True):
                evaluator.add_to_total(total, values, which)
            results.append(evaluator.dump_result(evaluator.product(blocks, which), which))
        return encode(tuple(results)), keys

    def partial(self, share: JointShare, result: bytes, keys: Words) -> bytes:
        """Return a helper's partial decryptions for each prime, with its second part of the relinearisation key.

        That part is one of the result's first polynomial, to which both are added: so it needs no round of its own,
        and shows under the smudging only.
        """
        shape = self.partial_shape
        found = shape.unpack(self._joint.partial_decryption(share, result))
        shape.add_in_place(found, self.setup.relinearisation_part.unpack(share.relinearisation_part(keys)))
        return shape.pack(found)

    def combine(self, result: bytes, partials: Iterable[Words]) -> list[Residues]:
        """Return the result's sums for each prime, shape (sums,)."""
        return self._joint.combine(result, partials)


def _negative(values: Residues, prime: int) -> Residues:
    return modular.subtract(modular.residues([0], prime), values, prime)

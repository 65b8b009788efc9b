"""Masks that vanish in the sum over all parties, exactly, and in nothing less than it.

Party i adds G_i − G_{i+1} to its ciphertexts, where the G are uniform modulo Q and derived from the secret that all
parties have in common. What is left of a sum in which a party is missing, counted twice or replaced is uniform.
"""

from __future__ import annotations

from collections.abc import Sequence

from fhe_auc.manifest import Manifest
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rounds import R
from fhe_auc_keys.sealed_roles import PartyTask
from fhe_auc_protocols.blinded_auc.split_shares import Stream

__all__ = ["MaskedTask", "zero_sum"]


class MaskedTask(PartyTask[R]):
    """A sum of which nothing less than the whole can be decrypted, where all parties have to take part.

    Where some may be missing there are no masks: nobody knows beforehand over whom they would have to vanish.
    """

    _manifest: Manifest

    def masks(self, shape: Polynomials) -> Sequence[Words | None]:
        """Return masks that vanish in nothing less than the sum over all parties, where all have to take part."""
        if self._manifest.min_parties < len(self._manifest.parties):
            return super().masks(shape)
        return zero_sum(shape, self._manifest, self.party, self.common_secret, blocks=self.plan.blocks)


def zero_sum(shape: Polynomials, manifest: Manifest, party: str, common_secret: bytes, *, blocks: int) -> list[Words]:
    """Return a party's masks for its ciphertexts, of that shape; all parties of the manifest have to take part."""
    parties = manifest.parties
    index = parties.index(party)

    def pad(owner: int, block: int) -> Words:
        return shape.uniform(Stream(common_secret, manifest.digest, "mask", owner, block).key)

    masks = []
    for block in range(blocks):
        mask = pad(index, block)
        shape.subtract_in_place(mask, pad((index + 1) % len(parties), block))
        masks.append(mask)
    return masks

"""Masks that vanish in the sum over all parties, exactly, and in nothing less than it.

Party i adds G_i − G_{i+1} to its ciphertexts, where the G are uniform modulo Q and derived from the secret that all
parties have in common. What is left of a sum in which a party is missing, counted twice or replaced is uniform.
"""

from __future__ import annotations

from fhe_auc.manifest import Manifest
from fhe_auc.rlwe.polynomials import Polynomials, Words
from protocols.disguise import Stream

__all__ = ["zero_sum"]


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

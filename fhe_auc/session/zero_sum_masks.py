"""Masks that vanish in the sum over all parties, exactly, and in nothing less than it.

Party i adds G_i − G_{i+1} to its ciphertexts, where the G are uniform modulo Q and derived from the secret that all
parties have in common. What is left of a sum in which a party is missing, counted twice or replaced is uniform.
"""

from __future__ import annotations

from fhe_auc.base.keystream import derived_key
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.session.manifest import Manifest


def zero_sum_masks(
    shape: Polynomials, manifest: Manifest, party: str, common_secret: bytes, *, blocks: int
) -> list[Words]:
    """Return a party's masks for its ciphertexts, of that shape, one a block; all parties have to take part.

    `common_secret` is 32 bytes that the aggregator has not. ValueError where the manifest has no such party.
    """
    parties = manifest.parties
    index = parties.index(party)
    masks = []
    for block in range(blocks):
        mask, next_pad = (
            shape.uniform(pad_key(common_secret, manifest, owner, block))
            for owner in (index, (index + 1) % len(parties))
        )
        shape.subtract_in_place(mask, next_pad)
        masks.append(mask)
    return masks


def pad_key(common_secret: bytes, manifest: Manifest, owner: int, block: int) -> bytes:
    """Return the key, 32 bytes, from which G of the party with this index is expanded for a block."""
    return derived_key(common_secret, manifest.digest, b"fhe-auc zero-sum mask 1\0", owner, block)

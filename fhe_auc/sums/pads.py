"""One-time pads: a party's own, from its seed; and pads that add up to zero over all parties (joint keys).

With a pad, uniform and used once, a vector is as secret as with any encryption, in as many bytes as it has in the
clear. Two vectors under the same pad tell their difference.

Pads that add up to zero need no opening: each is made of a mask with every other party. Two parties expand their mask
from a secret that they share (X25519, RFC 7748), what names the session and all that they were shown, both names and
both public keys. The party with the lower position adds it, the other subtracts it (Bonawitz et al. 2017, section 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues

_LABEL, _PAIRWISE_LABEL = b"fhe-auc pad 1\0", b"fhe-auc pairwise mask 1\0"
_KEY_BYTES = 32


def pad(seed: bytes, session: bytes, party: int, prime: int, modulus: int, size: int) -> Residues:
    """Return the pad of one party for one prime, shape (size,), uniform in [0, modulus).

    The `seed`, 32 bytes (`InputError` for another length), is known to the party and to the role that opens. `session`
    is the session's random id, which is known before the opening is made. `party` and `prime` are indices, `modulus` is
    the prime itself.
    """
    return modular.uniform(KeyStream(derived_key(seed, session, _LABEL, party, prime)), modulus, size)


class MaskingParty(NamedTuple):
    """What all parties know of one: its position in the manifest, its name, and its public key in this session."""

    position: int
    name: str
    public_key: bytes  # X25519, 32 bytes


def pairwise_pad(
    own: MaskingParty, shared: Mapping[MaskingParty, bytes], digest: bytes, modulus: int, size: int
) -> Residues:
    """Return a party's pad, shape (size,): uniform to everybody who lacks one of its shared secrets.

    `shared` has the secret of 32 bytes that the party shares with each other party of the session; `digest` is 32 bytes
    that name the session and all that its parties have shown one another; `modulus` is the prime.

    Raises `InputError`, which names the other party, for a secret or a public key that has not 32 bytes, a secret of
    zeros, no other parties, or two with one position or name.
    """
    parties = [own, *shared]
    positions, names, _ = zip(*parties, strict=True)
    if len(parties) < 2 or min(len(set(positions)), len(set(names))) < len(parties):
        raise InputError("pairwise masks need two or more parties, each with a position and a name of its own")
    total: Residues = np.zeros(size, np.uint64)
    for peer, secret in shared.items():
        if {len(secret), len(own.public_key), len(peer.public_key)} != {_KEY_BYTES}:
            raise InputError(f"party {peer.name!r}: public keys and shared secrets have {_KEY_BYTES} bytes")
        if not any(secret):
            raise InputError(f"party {peer.name!r} has sent a public key with which everybody knows what is shared")
        lower, higher = sorted((own, peer))
        names_and_keys = lower.name, higher.name, lower.public_key.hex(), higher.public_key.hex()
        mask = modular.uniform(KeyStream(derived_key(secret, digest, _PAIRWISE_LABEL, *names_and_keys)), modulus, size)
        total = (modular.add if own == lower else modular.subtract)(total, mask, modulus)
    return total

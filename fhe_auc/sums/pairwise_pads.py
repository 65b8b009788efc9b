"""Pads that add up to zero over all parties, each made of a mask with every other party: joint keys need no opening.

Two parties expand their mask from a secret that they share (X25519, RFC 7748), what names the session and all that they
were shown, both names and both public keys. The party with the lower position adds it, the other subtracts it (Bonawitz
et al. 2017, section 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues

_LABEL = b"fhe-auc pairwise mask 1\0"
_KEY_BYTES = 32


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
    pad: Residues = np.zeros(size, np.uint64)
    for other, secret in shared.items():
        lower, higher = sorted((own, other))
        key = _mask_key(secret, digest, lower, higher, other)
        mask = modular.uniform(KeyStream(key), modulus, size)
        pad = (modular.add if own == lower else modular.subtract)(pad, mask, modulus)
    return pad


def _mask_key(secret: bytes, digest: bytes, lower: MaskingParty, higher: MaskingParty, other: MaskingParty) -> bytes:
    if {len(secret), len(lower.public_key), len(higher.public_key)} != {_KEY_BYTES}:
        raise InputError(f"party {other.name!r}: public keys and shared secrets have {_KEY_BYTES} bytes")
    if not any(secret):
        raise InputError(f"party {other.name!r} has sent a public key with which everybody knows what is shared")
    names, keys = (lower.name, higher.name), (lower.public_key.hex(), higher.public_key.hex())
    return derived_key(secret, digest, _LABEL, *names, *keys)

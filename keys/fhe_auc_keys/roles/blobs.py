"""What parties and a fleet's devices seal to the helper, and what they read of the sums that it seals to them.

A blob holds the seed of a pad and a response key. It is signed, as HPKE does not say who has sealed it, and bound to
what it is about: the party; in a fleet the member and its sealed sketch. The signature is also for both parts of a
proof's joint randomness, which the helper is given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.modular import Residues
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.trust.sealing import seal
from fhe_auc_keys.trust.signatures import has_signed, signed_bytes

RESPONSE_KEY_BYTES = 32
SIGNATURE_BYTES = 64
_BLOB = b"helper's blob 1"


class Unseals(Protocol):
    """The private keys of a role, or its identity."""

    def unseal(self, sealed: bytes, *, info: bytes) -> bytes:
        """As `fhe_auc_keys.trust.sealing.PrivateKeys.unseal`."""


def sealed_blob(
    helper: bytes, signing: Ed25519PrivateKey, secret: bytes, *, about: bytes, randomness: bytes = b""
) -> tuple[bytes, bytes]:
    """Return what is `secret` to all but the helper with this encryption key, and the signature of who seals it."""
    blob = seal(helper, secret, info=blob_info(about))
    return blob, signing.sign(signed_bytes(_BLOB, _signed(about, blob, randomness)))


def is_signed(key: bytes, blob: bytes, signature: bytes, *, about: bytes, randomness: bytes = b"") -> bool:
    """Return whether who has this signing key, 32 bytes, has signed the blob."""
    return has_signed(key, _BLOB, _signed(about, blob, randomness), signature)


def secret_in(blob: bytes, helper: Unseals, *, about: bytes) -> bytes | None:
    """Return what is in a blob, for the helper, by its private keys; None where it is sealed otherwise."""
    try:
        return helper.unseal(blob, info=blob_info(about))
    except TamperedError:
        return None


def blob_info(about: bytes) -> bytes:
    """Return for what a blob is sealed."""
    return signed_bytes(_BLOB, about)


def bytes_of(totals: Iterable[Residues]) -> tuple[bytes, ...]:
    """Return the sums for each prime as the helper seals them."""
    return tuple([np.ascontiguousarray(total, "<u8").tobytes() for total in totals])


def totals_of(parts: Sequence[bytes]) -> list[Residues]:
    """Return the sums that a helper has sealed, for each prime; raise `DeserialisationError` where they are none."""
    if any(len(part) % 8 for part in parts):
        raise DeserialisationError("the helper's sums have not 8 bytes each")
    return [np.frombuffer(part, "<u8") for part in parts]


def _signed(about: bytes, blob: bytes, randomness: bytes) -> bytes:
    return about + hashlib.sha256(blob).digest() + randomness

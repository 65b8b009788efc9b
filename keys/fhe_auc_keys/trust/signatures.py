"""Signatures: Ed25519 (RFC 8032), each for one purpose; what is signed, and whether a signature is genuine.

What carries them: `message_signatures`, `signed_documents`, `signed_json`, and the lines of `members`.
"""

from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def signed_bytes(purpose: bytes, data: bytes) -> bytes:
    """Return what is signed: the purpose separates one kind of signature from all others."""
    if b"\0" in purpose:
        raise ValueError("a purpose holds no zero byte")
    return b"fhe-auc " + purpose + b"\0" + data


def has_signed(key: bytes, purpose: bytes, data: bytes, signature: bytes) -> bool:
    """Return whether `PrivateKeys.sign` has made a signature with this public key, 32 bytes, for that purpose."""
    try:
        _public_key(key).verify(signature, signed_bytes(purpose, data))
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=4096)  # of a session's roles, who sign in every round
def _public_key(raw: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(raw)

"""Sealing bytes to one recipient: HPKE (RFC 9180), base mode, X25519 / HKDF-SHA256 / ChaCha20-Poly1305.

Base mode does not say who sealed; the sender's signature over the whole does (`fhe_auc_keys.bundles.sealed_bundles`).
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey, PyHPKEError

from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.trust.public_keys import encryption_key

_SUITE = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.CHACHA20_POLY1305)
_ENCAPSULATED = 32

OVERHEAD = _ENCAPSULATED + 16
"""By so many bytes is what is sealed longer than the plaintext: the encapsulated key, and the tag."""


def seal(recipient: bytes, plaintext: bytes, *, info: bytes, associated: bytes) -> bytes:
    """Return `plaintext` sealed to an X25519 public key of 32 bytes, as encapsulated key | ciphertext.

    The opener must know and state alike `info`, bound into the key, and `associated`, bound into the ciphertext. Raise
    `UnfitCertificateError` where the recipient's is no X25519 key, or a point of small order.
    """
    key = KEMKey.from_pyca_cryptography_key(encryption_key(recipient))
    encapsulated, context = _SUITE.create_sender_context(key, info=info)
    return encapsulated + context.seal(plaintext, aad=associated)


def unseal(recipient: X25519PrivateKey, sealed: bytes, *, info: bytes, associated: bytes) -> bytes:
    """Return what `seal` sealed; `TamperedError` for another key, other `info` or `associated`, or altered bytes."""
    key = KEMKey.from_pyca_cryptography_key(recipient)
    try:
        context = _SUITE.create_recipient_context(sealed[:_ENCAPSULATED], key, info=info)
        return context.open(sealed[_ENCAPSULATED:], aad=associated)
    except (PyHPKEError, ValueError):
        raise TamperedError("sealed bytes are damaged, or were sealed to another key or for another purpose") from None

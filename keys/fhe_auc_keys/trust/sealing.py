"""Sealing bytes to one recipient: HPKE (RFC 9180), base mode, HKDF-SHA256, ChaCha20-Poly1305.

The KEM is MLKEM768-X25519 (draft-ietf-hpke-pq; it is X-Wing, draft-connolly-cfrg-xwing-kem): who records what is sealed
and gets a better machine years later has to break ML-KEM-768 and X25519 both. It is a draft, and its labels may change:
tests/test_wire_formats.py opens bytes that were sealed before.

Base mode does not say who sealed; the sender's signature over the whole does.
"""

from __future__ import annotations

from functools import lru_cache

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, Suite

from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.trust.public_keys import NO_HYBRID, encryption_key

OVERHEAD = 1136
"""Bytes by which `seal` makes a text longer: ML-KEM's ciphertext (1,088), an X25519 key (32), the tag (16)."""

_SUITE = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


class PrivateKey:
    """The private key that opens what is sealed to its public one; `KeysError` where the library has no ML-KEM."""

    __slots__ = ("_hybrid", "_ml_kem", "_x25519")

    def __init__(self, ml_kem: MLKEM768PrivateKey, x25519: X25519PrivateKey) -> None:
        self._ml_kem, self._x25519 = ml_kem, x25519
        self._hybrid = MLKEM768X25519PrivateKey(ml_kem, x25519)

    def __reduce__(self) -> str:
        raise TypeError("private keys are not pickled or copied; keep them in a key store")

    @classmethod
    def generate(cls) -> PrivateKey:
        """Return a fresh one."""
        require_hybrid()
        return cls(MLKEM768PrivateKey.generate(), X25519PrivateKey.generate())

    @classmethod
    def from_components(cls, ml_kem: bytes, x25519: bytes) -> PrivateKey:
        """Return the key of ML-KEM's seed, 64 bytes, and X25519's 32 bytes; raise ValueError for other lengths."""
        require_hybrid()
        return cls(MLKEM768PrivateKey.from_seed_bytes(ml_kem), X25519PrivateKey.from_private_bytes(x25519))

    @property
    def components(self) -> tuple[bytes, bytes]:
        """What `from_components` takes, in the clear."""
        return self._ml_kem.private_bytes_raw(), self._x25519.private_bytes_raw()

    @property
    def public(self) -> bytes:
        """The public key, 1,216 bytes."""
        return self._ml_kem.public_key().public_bytes_raw() + self._x25519.public_key().public_bytes_raw()

    def unseal(self, sealed: bytes, *, info: bytes) -> bytes:
        """Return what `seal` sealed; `TamperedError` for another key, another `info` or altered bytes."""
        try:
            return _SUITE.decrypt(sealed, self._hybrid, info=info)
        except (InvalidTag, ValueError):
            raise TamperedError("sealed bytes are damaged, or sealed to another key or for another purpose") from None


def seal(recipient: bytes, plaintext: bytes, *, info: bytes) -> bytes:
    """Return `plaintext` sealed to a key (`UnfitCertificateError` for none), `OVERHEAD` longer, bound to `info`."""
    return _SUITE.encrypt(plaintext, encryption_key(recipient), info=info)


@lru_cache(maxsize=1)
def require_hybrid() -> None:
    """Seal and open once; raise `KeysError` where the installed library cannot, rather than seal to less than both."""
    try:
        key = PrivateKey(MLKEM768PrivateKey.generate(), X25519PrivateKey.generate())
        works = key.unseal(seal(key.public, b"once", info=b"start"), info=b"start") == b"once"
    except (UnsupportedAlgorithm, KeysError, AttributeError):
        works = False
    if not works:
        raise KeysError(NO_HYBRID)

"""Sealing one long text to several recipients: encrypted once under a fresh key, which is encrypted for each.

ChaCha20-Poly1305 commits to no key: a sender can make a ciphertext that opens to two texts under two keys, and seal one
to some recipients, the other to others. So with the ciphertext goes a commitment to the key, which every opener checks:

    HKDF-SHA256(content key)  ->  encryption key, 32 bytes | commitment, 32 bytes        sent: commitment | ciphertext

Two content keys with one commitment are a collision of HMAC-SHA256; so all who can open it read the same text. (The
generic repair of Albertini et al., "How to abuse and fix authenticated encryption without key commitment", 2022.)
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fhe_auc_keys.errors import TamperedError

_KEY_BYTES = _COMMITMENT_BYTES = 32
_NONCE = bytes(12)  # every key encrypts one text


def seal_under(
    keys: Iterable[bytes], plaintext: bytes, *, associated: bytes, content_key: bytes
) -> tuple[bytes, list[bytes]]:
    """Return `plaintext` sealed under several secret keys, 32 bytes each: once, and a part of 48 bytes for each.

    Each of these keys, and `content_key`, 32 random bytes, is for this alone. `associated` is what an opener must state
    alike. All being the same, so are the bytes.
    """
    ciphertext, digest = _encrypted(content_key, plaintext, associated)
    return ciphertext, [ChaCha20Poly1305(each).encrypt(_NONCE, content_key, digest) for each in keys]


def unseal_under(key: bytes, part: bytes, ciphertext: bytes, *, associated: bytes) -> bytes:
    """Return what `seal_under` sealed; raise `TamperedError` for another key, altered bytes or another purpose."""
    try:
        content_key = ChaCha20Poly1305(key).decrypt(_NONCE, part, hashlib.sha256(ciphertext).digest())
    except (InvalidTag, ValueError):
        raise TamperedError("sealed bytes are damaged, or were sealed under another key") from None
    return _opened(content_key, ciphertext, associated)


def _encrypted(key: bytes, plaintext: bytes, associated: bytes) -> tuple[bytes, bytes]:
    """Return the ciphertext, behind the commitment, and its SHA-256."""
    encryption_key, commitment = _derived(key)
    ciphertext = commitment + ChaCha20Poly1305(encryption_key).encrypt(_NONCE, plaintext, associated)
    return ciphertext, hashlib.sha256(ciphertext).digest()


def _opened(key: bytes, ciphertext: bytes, associated: bytes) -> bytes:
    encryption_key, commitment = _derived(key)
    if not hmac.compare_digest(commitment, ciphertext[:_COMMITMENT_BYTES]):
        raise TamperedError("the text is sealed under another key than the one given to this recipient")
    try:
        return ChaCha20Poly1305(encryption_key).decrypt(_NONCE, ciphertext[_COMMITMENT_BYTES:], associated)
    except (InvalidTag, ValueError):
        raise TamperedError("sealed bytes are damaged, or were sealed for another purpose") from None


def _derived(key: bytes) -> tuple[bytes, bytes]:
    """Return encryption key and commitment."""
    drawn = HKDF(hashes.SHA256(), _KEY_BYTES + _COMMITMENT_BYTES, None, b"fhe-auc group sealing 2").derive(key)
    return drawn[:_KEY_BYTES], drawn[_KEY_BYTES:]

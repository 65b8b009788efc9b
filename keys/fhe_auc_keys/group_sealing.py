"""Sealing one long text to several recipients: encrypted once under a fresh key, which is sealed to each (HPKE)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fhe_auc.errors import DeserialisationError
from fhe_auc.serialise import decode, encode
from fhe_auc_keys import sealing
from fhe_auc_keys.errors import TamperedError, WrongRecipientError
from fhe_auc_keys.identity import Identity

_NONCE = bytes(12)  # every key encrypts one text


class _Sealed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    keys: dict[str, bytes]  # the content key, sealed to each recipient
    ciphertext: bytes


def seal_to_all(recipients: Mapping[str, bytes], plaintext: bytes, *, info: bytes, associated: bytes) -> bytes:
    """Return `plaintext` sealed to several X25519 public keys, by name: 80 bytes and a name longer for each.

    `info` and `associated` are what an opener must state alike. Errors as `fhe_auc_keys.sealing.seal`.
    """
    key = ChaCha20Poly1305.generate_key()
    ciphertext = ChaCha20Poly1305(key).encrypt(_NONCE, plaintext, associated)
    digest = hashlib.sha256(ciphertext).digest()
    sealed = {
        name: sealing.seal(public, key, info=_info(info, name), associated=digest)
        for name, public in recipients.items()
    }
    return encode(_Sealed(sealed, ciphertext))


def unseal_mine(identity: Identity, sealed: bytes, *, info: bytes, associated: bytes) -> bytes:
    """Return what `seal_to_all` sealed.

    Raise `WrongRecipientError` where it is not sealed to this identity's name; `TamperedError` where it is damaged,
    sealed to another key, or for another purpose.
    """
    try:
        parts = decode(sealed, _Sealed, "sealed text")
    except DeserialisationError as error:
        raise TamperedError(str(error)) from None
    if identity.name not in parts.keys:
        raise WrongRecipientError(f"not sealed to {identity.name!r}")
    digest = hashlib.sha256(parts.ciphertext).digest()
    key = identity.unseal(parts.keys[identity.name], info=_info(info, identity.name), associated=digest)
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, parts.ciphertext, associated)
    except (InvalidTag, ValueError):
        raise TamperedError("sealed bytes are damaged, or were sealed for another purpose") from None


def _info(info: bytes, recipient: str) -> bytes:
    return encode((info, recipient))

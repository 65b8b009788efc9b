"""Sealing to one recipient: it is HPKE as published, and opens for nobody else and nothing else."""

from __future__ import annotations

import random

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fhe_auc_keys.errors import TamperedError, UnfitCertificateError
from fhe_auc_keys.trust.sealing import seal, unseal

# RFC 9180, appendix A.2.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, base mode, sequence number 0.
RFC_KEY = X25519PrivateKey.from_private_bytes(
    bytes.fromhex("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb")
)
RFC_PUBLIC = bytes.fromhex("4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a")
RFC_ENCAPSULATED = bytes.fromhex("1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a")
RFC_CIPHERTEXT = bytes.fromhex(
    "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28"
)
RFC_INFO = b"Ode on a Grecian Urn"
RFC_ASSOCIATED = b"Count-0"
RFC_SEALED = RFC_ENCAPSULATED + RFC_CIPHERTEXT

KEY = X25519PrivateKey.generate()
PUBLIC = KEY.public_key().public_bytes_raw()
HIGHEST_BIT = bytes(31) + b"\x80"


def test_the_published_ciphertext_opens() -> None:
    assert RFC_KEY.public_key().public_bytes_raw() == RFC_PUBLIC
    opened = unseal(RFC_KEY, RFC_SEALED, info=RFC_INFO, associated=RFC_ASSOCIATED)
    assert opened == b"Beauty is truth, truth beauty"


def test_any_other_binding_key_or_byte_is_refused() -> None:
    good = {"info": RFC_INFO, "associated": RFC_ASSOCIATED}
    for changed in ({"info": b""}, {"associated": b""}, {"info": RFC_ASSOCIATED, "associated": RFC_INFO}):
        with pytest.raises(TamperedError):
            unseal(RFC_KEY, RFC_SEALED, **{**good, **changed})
    with pytest.raises(TamperedError):
        unseal(KEY, RFC_SEALED, **good)
    for position in range(len(RFC_SEALED)):
        for bit in range(8):
            bad = bytearray(RFC_SEALED)
            bad[position] ^= 1 << bit
            with pytest.raises(TamperedError):
                unseal(RFC_KEY, bytes(bad), **good)
        with pytest.raises(TamperedError):
            unseal(RFC_KEY, RFC_SEALED[:position], **good)
    with pytest.raises(TamperedError):
        unseal(RFC_KEY, RFC_SEALED + b"\0", **good)


def test_what_is_sealed_opens_and_no_two_sealings_are_alike() -> None:
    sealed = {seal(PUBLIC, b"secret", info=b"i", associated=b"a") for _ in range(8)}
    assert len({each[:32] for each in sealed}) == len({each[32:] for each in sealed}) == 8
    assert {unseal(KEY, each, info=b"i", associated=b"a") for each in sealed} == {b"secret"}


def test_random_bytes_and_keys_of_small_order_are_refused_with_our_own_error() -> None:
    generator = random.Random(9180)
    odd = [generator.randbytes(length) for length in range(80)]
    for data in (*odd, bytes(64), b"\x01" + bytes(63), b"\xff" * 64):
        with pytest.raises(TamperedError):
            unseal(KEY, data, info=b"", associated=b"")


def test_no_key_to_seal_to() -> None:
    for recipient in (b"", PUBLIC[:-1], PUBLIC + b"\0", bytes(32), b"\x01" + bytes(31), b"\xff" * 32):
        with pytest.raises(UnfitCertificateError, match="X25519"):
            seal(recipient, b"secret", info=b"", associated=b"")


def test_a_second_spelling_of_a_key_is_refused() -> None:
    """X25519 ignores the highest bit, so that one key could pass for two."""
    twin = bytes(a ^ b for a, b in zip(PUBLIC, HIGHEST_BIT, strict=True))
    with pytest.raises(UnfitCertificateError, match="not reduced"):
        seal(twin, b"secret", info=b"", associated=b"")

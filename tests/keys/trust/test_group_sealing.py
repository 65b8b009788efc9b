"""Sealing one text under several keys: it opens to all who have one, to the same text, and to nobody else."""

import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.trust.sealing import seal_under, unseal_under
from tests.support.wire import flipped

KEYS = [bytes([number]) * 32 for number in (1, 2, 3)]
TEXT = bytes(range(256)) * 8
ABOUT: dict[str, Any] = {"associated": b"result 1"}
SEALED, PARTS = seal_under(KEYS, TEXT, content_key=bytes([9]) * 32, **ABOUT)


def test_every_key_opens_it_by_its_own_part_and_nothing_else_does() -> None:
    assert [unseal_under(key, part, SEALED, **ABOUT) for key, part in zip(KEYS, PARTS, strict=True)] == [TEXT] * 3
    again, others = seal_under(KEYS, TEXT, content_key=bytes([8]) * 32, **ABOUT)
    wrong = [
        *((KEYS[0], PARTS[0], SEALED, other) for other in (b"result 2", b"")),
        (bytes(32), PARTS[0], SEALED, ABOUT["associated"]),
        *((KEYS[0], part, SEALED, ABOUT["associated"]) for part in (PARTS[1], others[0], b"", PARTS[0][:-1])),
        (KEYS[0], PARTS[0], again, ABOUT["associated"]),
        *((KEYS[0], flipped(PARTS[0], at), SEALED, ABOUT["associated"]) for at in range(len(PARTS[0]))),
        *((KEYS[0], PARTS[0], flipped(SEALED, at), ABOUT["associated"]) for at in range(0, len(SEALED), 7)),
        *((KEYS[0], PARTS[0], SEALED[:at], ABOUT["associated"]) for at in range(0, len(SEALED), 97)),
    ]
    for key, part, sealed, associated in wrong:
        with pytest.raises(TamperedError, match="sealed"):
            unseal_under(key, part, sealed, associated=associated)


def parts_for(keys: list[bytes], sealed: bytes) -> list[bytes]:
    """A part for each recipient with a content key of its own: what an honest sender never makes."""
    digest = hashlib.sha256(sealed).digest()
    return [ChaCha20Poly1305(own).encrypt(bytes(12), key, digest) for own, key in zip(KEYS, keys, strict=False)]


def test_a_sender_cannot_let_two_recipients_open_two_texts() -> None:
    """Sealed honestly to one, and to another with the same commitment and a key of its own, which may open it, too."""
    north, south = parts_for([bytes([9]) * 32, bytes(32)], SEALED)
    assert unseal_under(KEYS[0], north, SEALED, **ABOUT) == TEXT
    with pytest.raises(TamperedError, match="another key"):
        unseal_under(KEYS[1], south, SEALED, **ABOUT)

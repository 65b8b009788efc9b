"""Sealing one text under several keys: it opens to all who have one, to the same text, and to nobody else."""

import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
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


def _poly1305_key(key: bytes) -> tuple[int, int]:
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(32))
    r, s = (int.from_bytes(part, "little") for part in (stream[:16], stream[16:]))
    return r & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF, s


def _opening_under_both(keys: list[bytes], associated: bytes) -> bytes:
    """A ciphertext of ChaCha20-Poly1305 (RFC 8439, all-zero nonce) that opens under two keys, to different texts.

    Its tag is linear in the blocks: one of them is chosen so that both keys have the same tag.
    """
    prime, marker = 2**130 - 5, 2**128
    padded = associated + bytes(-len(associated) % 16)
    lengths = len(associated).to_bytes(8, "little") + (32).to_bytes(8, "little")
    (r1, s1), (r2, s2) = map(_poly1305_key, keys)

    def digest(r: int, text: bytes) -> int:
        total, data = 0, padded + text + lengths
        for start in range(0, len(data), 16):
            total = (total + int.from_bytes(data[start : start + 16], "little") + marker) * r % prime
        return total

    for attempt in range(10_000):
        head = attempt.to_bytes(16, "little")
        others = digest(r1, head + bytes(16)) - digest(r2, head + bytes(16))  # the second block still zero
        slope = (pow(r1, 2, prime) - pow(r2, 2, prime)) % prime
        block = (s2 - s1 - others) * pow(slope, -1, prime) % prime
        if block < marker:
            text = head + block.to_bytes(16, "little")
            tags = {(digest(r, text) + s) % marker for r, s in ((r1, s1), (r2, s2))}
            if len(tags) == 1:
                return text + tags.pop().to_bytes(16, "little")
    raise AssertionError("no such ciphertext was found")


def parts_for(keys: list[bytes], sealed: bytes) -> list[bytes]:
    """A part for each recipient with a content key of its own: what an honest sender never makes."""
    digest = hashlib.sha256(sealed).digest()
    return [ChaCha20Poly1305(own).encrypt(bytes(12), key, digest) for own, key in zip(KEYS, keys, strict=False)]


def test_a_sender_cannot_let_two_recipients_open_two_texts() -> None:
    """The ciphertext is one, and bound into each recipient's part: under each key it opens, to another text."""
    keys = [bytes([1]) * 32, bytes([2]) * 32]
    ciphertext = _opening_under_both(keys, ABOUT["associated"])
    texts = {ChaCha20Poly1305(key).decrypt(bytes(12), ciphertext, ABOUT["associated"]) for key in keys}
    assert len(texts) == 2
    for body in (ciphertext, bytes(32) + ciphertext):  # without a commitment, and with something in its place
        for own, part in zip(KEYS, parts_for(keys, body), strict=False):
            with pytest.raises(TamperedError, match="another key"):
                unseal_under(own, part, body, **ABOUT)


def test_a_key_that_the_text_is_not_committed_to_is_refused_even_where_it_opens_the_text() -> None:
    """Sealed honestly to one, and to another with the same commitment and a key of its own."""
    north, south = parts_for([bytes([9]) * 32, bytes(32)], SEALED)
    assert unseal_under(KEYS[0], north, SEALED, **ABOUT) == TEXT
    with pytest.raises(TamperedError, match="another key"):
        unseal_under(KEYS[1], south, SEALED, **ABOUT)

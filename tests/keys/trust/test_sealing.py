"""Sealing to one recipient is HPKE as published; what is sealed opens for nobody else, to nothing else."""

import hashlib
import hmac
import json
import random
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from fhe_auc_keys.errors import KeysError, TamperedError, UnfitError
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.sealing import OVERHEAD, PrivateKeys, seal, seal_under, unseal_under
from tests.support.certified import Consortium
from tests.support.wire import flipped

KEY = PrivateKeys.generate()
INFO, SECRET = b"Ode on a Grecian Urn", b"Beauty is truth, truth beauty"
SEALED = seal(KEY.encryption_key, SECRET, info=INFO)


VECTORS = json.loads((Path(__file__).parent / "vectors" / "hpke.json").read_text("utf-8"))


def shared_secret(keys: PrivateKeys, enc: bytes) -> bytes:
    """X-Wing's combiner."""
    _, (ml_kem, x25519) = keys.components
    lattice, curve = MLKEM768PrivateKey.from_seed_bytes(ml_kem), X25519PrivateKey.from_private_bytes(x25519)
    both = lattice.decapsulate(enc[:1088]) + curve.exchange(X25519PublicKey.from_public_bytes(enc[1088:]))
    return hashlib.sha3_256(both + enc[1088:] + curve.public_key().public_bytes_raw() + b"\\.//^\\").digest()


def key_and_nonce(shared: bytes, info: bytes) -> tuple[bytes, bytes]:
    """RFC 9180's key schedule, base mode."""
    suite = b"HPKE" + bytes.fromhex("647a 0001 0003")

    def extract(salt: bytes, label: bytes, material: bytes) -> bytes:
        return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + material, "sha256")

    def expand(key: bytes, label: bytes, context: bytes, length: int) -> bytes:
        labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + context
        return HKDFExpand(hashes.SHA256(), length, labelled).derive(key)

    context = b"\0" + extract(b"", b"psk_id_hash", b"") + extract(b"", b"info_hash", info)
    secret = extract(shared, b"secret", b"")
    return expand(secret, b"key", context, 32), expand(secret, b"base_nonce", context, 12)


def test_it_is_the_hybrid_of_the_drafts_in_the_key_schedule_of_the_standard() -> None:
    key, nonce = key_and_nonce(shared_secret(KEY, SEALED[:1120]), INFO)
    assert ChaCha20Poly1305(key).decrypt(nonce, SEALED[1120:], b"") == SECRET
    assert (len(SEALED), OVERHEAD, len(KEY.encryption_key)) == (len(SECRET) + 1136, 1136, 1216)


@pytest.mark.parametrize("told", [*VECTORS["HPKE"], *VECTORS["X-Wing"]], ids=lambda told: str(told["draft"]))
def test_what_the_drafts_publish_is_unsealed(told: dict[str, str]) -> None:
    """With no associated data: theirs, which HPKE's vectors have, is never used here."""
    own = {name: bytes.fromhex(value) for name, value in told.items() if name != "draft"}
    drawn = hashlib.shake_256(own["seed"]).digest(96)
    keys = PrivateKeys.from_components(bytes(32), (drawn[:64], drawn[64:]))
    assert keys.encryption_key == own["public"]
    assert shared_secret(keys, own["enc"]) == own["shared"]
    info, text = own.get("info", INFO), own.get("text", SECRET)
    key, nonce = key_and_nonce(own["shared"], info)
    if "key" in own:
        assert (key, nonce) == (own["key"], own["nonce"])
        assert ChaCha20Poly1305(key).encrypt(nonce, text, own["aad"]) == own["ciphertext"]
    assert keys.unseal(own["enc"] + ChaCha20Poly1305(key).encrypt(nonce, text, b""), info=info) == text


def test_a_library_that_seals_by_another_draft_seals_nothing_and_makes_and_reads_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It opens what it has sealed itself: but for the known text, two sites would each tell the other of damage."""
    sealing.require_hybrid()
    other = Suite(KEM.MLKEM768_X25519, KDF.SHAKE256, AEAD.CHACHA20_POLY1305)
    monkeypatch.setattr(sealing, "_HYBRID", other)
    assert KEY.unseal(seal(KEY.encryption_key, SECRET, info=INFO), info=INFO) == SECRET
    sealing.require_hybrid.cache_clear()
    for attempt in (
        PrivateKeys.generate,
        lambda: PrivateKeys.from_components(*KEY.components),
        lambda: seal(KEY.encryption_key, SECRET, info=INFO),
    ):
        with pytest.raises(KeysError, match="by another draft"):
            attempt()


def test_no_two_sealings_are_alike() -> None:
    sealed = {seal(KEY.encryption_key, b"secret", info=b"i") for _ in range(8)}
    assert len({each[:1088] for each in sealed}) == len({each[1088:1120] for each in sealed}) == 8
    assert {KEY.unseal(each, info=b"i") for each in sealed} == {b"secret"}


def test_any_other_info_key_or_byte_is_refused() -> None:
    other, generator = PrivateKeys.generate(), random.Random(9180)
    odd = [generator.randbytes(length) for length in (*range(80), 1119, 1120, 1135, 1136, 2000)]
    odd += [bytes(1200), bytes(1088) + b"\x01" + bytes(63), b"\xff" * 1200]  # keys of small order among them
    changed = [bad for at in range(0, len(SEALED), 7) for bad in (flipped(SEALED, at), SEALED[:at])]
    for key, data, info in (
        *((KEY, SEALED, info) for info in (b"", INFO + b"\0", INFO[:-1])),
        (other, SEALED, INFO),
        *((KEY, data, INFO) for data in (*changed, SEALED + b"\0", *odd)),
    ):
        with pytest.raises(TamperedError):
            key.unseal(data, info=info)


def test_one_component_s_key_opens_nothing() -> None:
    """Whoever has broken one of the two, and has its private key, still lacks the other."""
    (signing, (ml_kem, x25519)), (_, other) = KEY.components, PrivateKeys.generate().components
    for half in ((ml_kem, other[1]), (other[0], x25519)):
        with pytest.raises(TamperedError):
            PrivateKeys.from_components(signing, half).unseal(SEALED, info=INFO)
    assert PrivateKeys.from_components(signing, (ml_kem, x25519)).unseal(SEALED, info=INFO) == SECRET


def test_no_x25519_or_ml_kem_key_to_seal_to_and_no_second_spelling_of_one() -> None:
    """X25519 ignores the highest bit, so that one key could pass for two."""
    lattice, curve = KEY.encryption_key[:1184], KEY.encryption_key[1184:]
    for ending in (b"", bytes(32), b"\x01" + bytes(31), b"\xff" * 32, bytes(33)):
        with pytest.raises(UnfitError, match="X25519"):
            seal(lattice + ending, b"secret", info=b"")
    second_spelling = KEY.encryption_key[:-1] + bytes([KEY.encryption_key[-1] ^ 0x80])
    for key, why in ((curve, "ML-KEM-768"), (b"\xff" * 1184 + curve, "ML-KEM-768"), (second_spelling, "not reduced")):
        with pytest.raises(UnfitError, match=why):
            seal(key, b"secret", info=b"")


def missing(*_: object, **__: object) -> bytes:
    raise sealing.UnsupportedAlgorithm("ML-KEM-768 is not supported by this backend")


def test_where_the_library_has_no_ml_kem_no_key_is_made_or_read_and_nobody_let_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on Intel Macs and Windows on Arm: nothing falls back to X25519 alone."""
    made = Consortium("north")
    monkeypatch.setattr(sealing.MLKEM768PrivateKey, "from_seed_bytes", missing)
    sealing.require_hybrid.cache_clear()
    for make in (PrivateKeys.generate, lambda: PrivateKeys.from_components(*KEY.components)):
        with pytest.raises(KeysError, match="nothing is sealed to less"):
            make()
    monkeypatch.undo()
    PrivateKeys.generate()
    monkeypatch.setattr(sealing.MLKEM768PublicKey, "from_public_bytes", missing)
    sealing.encryption_key.cache_clear()
    with pytest.raises(KeysError, match="nothing is sealed to less"):
        made.identities["north"].line.check()


KEYS = [bytes([number]) * 32 for number in (1, 2, 3)]
TEXT = bytes(range(256)) * 8
ABOUT: dict[str, Any] = {"associated": b"result 1"}
SHARED, PARTS = seal_under(KEYS, TEXT, content_key=bytes([9]) * 32, **ABOUT)


def test_every_key_opens_it_by_its_own_part_and_nothing_else_does() -> None:
    assert [unseal_under(key, part, SHARED, **ABOUT) for key, part in zip(KEYS, PARTS, strict=True)] == [TEXT] * 3
    again, others = seal_under(KEYS, TEXT, content_key=bytes([8]) * 32, **ABOUT)
    wrong = [
        *((KEYS[0], PARTS[0], SHARED, other) for other in (b"result 2", b"")),
        (bytes(32), PARTS[0], SHARED, ABOUT["associated"]),
        *((KEYS[0], part, SHARED, ABOUT["associated"]) for part in (PARTS[1], others[0], b"", PARTS[0][:-1])),
        (KEYS[0], PARTS[0], again, ABOUT["associated"]),
        *((KEYS[0], flipped(PARTS[0], at), SHARED, ABOUT["associated"]) for at in range(len(PARTS[0]))),
        *((KEYS[0], PARTS[0], flipped(SHARED, at), ABOUT["associated"]) for at in range(0, len(SHARED), 7)),
        *((KEYS[0], PARTS[0], SHARED[:at], ABOUT["associated"]) for at in range(0, len(SHARED), 97)),
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
    north, south = parts_for([bytes([9]) * 32, bytes(32)], SHARED)
    assert unseal_under(KEYS[0], north, SHARED, **ABOUT) == TEXT
    with pytest.raises(TamperedError, match="another key"):
        unseal_under(KEYS[1], south, SHARED, **ABOUT)

#!/usr/bin/env bash
# cryptography-vectors 50.0.2 has two files of HPKE's test vectors, with the same names of fields: RFC 9180's, and those
# of draft-ietf-hpke-pq. `info` and `pt` of the latter are hex of hex; `aad`, keys and ciphertexts are hex once, as in
# the former.
#
# Seen: RFC 9180's info is "Ode on a Grecian Urn", the draft's "4f6465206f6e2061…", which is what went into its keys.
# Why it matters: a reader of either file that turns all fields into bytes finds the draft's right. One that takes the
# well-known text of both, or compares what it has decrypted with it, finds a sound implementation wrong.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check cryptography-vectors==50.0.2
"$folder/venv/bin/python" - <<'PY'
import hmac
import json
from pathlib import Path

import cryptography_vectors

folder = Path(cryptography_vectors.__file__).parent / "HPKE"
standard, draft = (json.loads((folder / f"{name}test-vectors.json").read_text()) for name in ("", "hpke-pq-"))


def texts(vectors, unhexed):
    return {(unhexed(own["info"]), unhexed(own["encryptions"][0]["pt"])) for own in vectors if own["encryptions"]}


def base_nonce(own, info):
    """RFC 9180's key schedule in base mode, HKDF-SHA256, ChaCha20-Poly1305."""
    def labelled(label):
        suite = b"".join(own[name].to_bytes(2, "big") for name in ("kem_id", "kdf_id", "aead_id"))
        return b"HPKE-v1HPKE" + suite + label

    def extract(salt, label, material):
        return hmac.digest(salt or bytes(32), labelled(label) + material, "sha256")

    secret = extract(bytes.fromhex(own["shared_secret"]), b"secret", b"")
    context = b"\0" + extract(b"", b"psk_id_hash", b"") + extract(b"", b"info_hash", info)
    return hmac.digest(secret, b"\0\x0c" + labelled(b"base_nonce") + context + b"\1", "sha256")[:12].hex()


once = texts(standard, bytes.fromhex)
twice = texts(draft, lambda text: bytes.fromhex(bytes.fromhex(text).decode()))
print("RFC 9180, hex once:", once)
print("the draft, hex twice:", twice)
assert once == twice == {(b"Ode on a Grecian Urn", b"Beauty is truth, truth beauty")}
(own,) = (own for own in draft if (own["kem_id"], own["kdf_id"]) == (0x647A, 1))
info = bytes.fromhex(own["info"])
print("what went into the keys:", info)
assert own["encryptions"][0]["aad"] == b"Count-0".hex()
assert base_nonce(own, info) == own["base_nonce"] != base_nonce(own, bytes.fromhex(info.decode()))
PY

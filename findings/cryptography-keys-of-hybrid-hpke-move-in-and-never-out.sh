#!/usr/bin/env bash
# cryptography 50.0.2: a private key of HPKE's MLKEM768-X25519 (KEM 0x647a) is two keys, of 64 and 32 bytes. The
# draft's, draft-ietf-hpke-pq, is 32 bytes, from which SHAKE-256 draws these two. No function of cryptography takes the
# draft's or gives it, and neither half of the hybrid's objects can be read back.
#
# Seen: the published private key, expanded by hand, has the published public key; a key that was generated has no 32
# bytes at all, as nobody finds what SHAKE-256 would draw two given keys from. The objects have one method:
# `public_key`.
# Why it matters: keys of other HPKE libraries can be taken over, and those made as cryptography's documentation makes
# them never leave it. Who may have to change the library draws 32 bytes first and keeps them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check cryptography==50.0.2 cryptography-vectors==50.0.2
"$folder/venv/bin/python" - <<'PY'
import hashlib
import json
from pathlib import Path

import cryptography_vectors
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

file = Path(cryptography_vectors.__file__).parent / "HPKE" / "hpke-pq-test-vectors.json"
(own,) = (own for own in json.loads(file.read_text()) if (own["kem_id"], own["kdf_id"]) == (0x647A, 1))
seed = bytes.fromhex(own["skRm"])
drawn = hashlib.shake_256(seed).digest(96)
ml_kem, x25519 = MLKEM768PrivateKey.from_seed_bytes(drawn[:64]), X25519PrivateKey.from_private_bytes(drawn[64:])
public = ml_kem.public_key().public_bytes_raw() + x25519.public_key().public_bytes_raw()
print(f"the draft's private key: {len(seed)} bytes; its two: {len(ml_kem.private_bytes_raw())}, "
      f"{len(x25519.private_bytes_raw())}")
assert len(seed) == 32 and public.hex() == own["pkRm"]

made = hpke.MLKEM768X25519PrivateKey(MLKEM768PrivateKey.generate(), X25519PrivateKey.generate())
methods = [[name for name in dir(key) if name[0] != "_"] for key in (made, made.public_key())]
print("methods of a private key, and of its public key:", methods)
assert methods == [["public_key"], []]
try:
    hpke.MLKEM768X25519PrivateKey(seed)
except TypeError as error:
    print("of the seed:", error)
else:
    raise SystemExit("a seed is taken")
PY

#!/usr/bin/env bash
# tuf 7.0.1 (The Update Framework): a root's keys are counted by their identifiers, which whoever writes the root chooses.
# One key that stands there under two identifiers is two signers of a threshold of two.
#
# Seen: "2 of 2 must sign" is verified with one key's one signature, written twice.
# Why it matters: who may propose a root (a tool, an assistant of the signers) makes four eyes two. The specification lets
# identifiers be anything unique; a client that relies on the threshold has to compare the keys themselves.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tuf==7.0.1 securesystemslib==1.6.0 cryptography==50.0.2
"$folder/venv/bin/python" - <<'PY'
from datetime import datetime, timezone

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner, Key, Signature
from tuf.api.metadata import Metadata, Root

signer = CryptoSigner(Ed25519PrivateKey.generate())
root = Root(1, expires=datetime(2040, 1, 1, tzinfo=timezone.utc))
root.add_key(signer.public_key, 'root')
root.add_key(Key.from_dict('another', signer.public_key.to_dict()), 'root')
root.roles['root'].threshold = 2
metadata = Metadata(root)
once = metadata.sign(signer)
read = Metadata.from_bytes(metadata.to_bytes())
assert not read.signed.get_root_verification_result(None, read.signed_bytes, read.signatures).verified
metadata.signatures['another'] = Signature('another', once.signature)
read = Metadata.from_bytes(metadata.to_bytes())
verified = read.signed.get_root_verification_result(None, read.signed_bytes, read.signatures).verified
print(f'two of two, one key: verified {verified}')
assert verified
PY

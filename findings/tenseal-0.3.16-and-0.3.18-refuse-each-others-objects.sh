#!/usr/bin/env bash
# TenSEAL 0.3.16 and 0.3.18: neither reads a key or a vector that the other wrote. Both say "incompatible version".
# 0.3.17 and 0.3.18 read each other's.
#
# 0.3.16 carries SEAL 4.1, and 0.3.17 SEAL 4.3. SEAL writes its version before every object and reads no other.
# Why it matters: pip takes 0.3.16 on Python 3.10, which later ones have no wheels for, and 0.3.18 on 3.11. So two sites
# that install the same requirement may not read each other's keys and vectors, and a site that moves to another Python
# loses what it has stored. Coefficients travel well, objects do not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
for version in 0.3.16 0.3.17 0.3.18; do
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --target "$folder/$version" \
        "tenseal==$version" numpy==2.2.6
done
cat >"$folder/write.py" <<'PY'
import sys

import tenseal as ts

context = ts.context(ts.SCHEME_TYPE.BFV, 4096, plain_modulus=1032193)
objects = context.serialize(save_secret_key=True), ts.bfv_vector(context, [1, 2, 3]).serialize()
for kind, data in zip(("key", "vector"), objects):
    with open(f"{sys.argv[1]}/{ts.__version__}.{kind}", "wb") as file:
        file.write(data)
PY
cat >"$folder/read.py" <<'PY'
import sys

import tenseal as ts


def objects(version):
    for kind in ("key", "vector"):
        with open(f"{sys.argv[1]}/{version}.{kind}", "rb") as file:
            yield file.read()


own, _ = objects(ts.__version__)
for version in ("0.3.16", "0.3.17", "0.3.18"):
    key, vector = objects(version)
    alike = (version == "0.3.16") == (ts.__version__ == "0.3.16")
    said = []
    for read in (
        lambda: "a key" if ts.context_from(key).is_private() else "no key",
        lambda: ts.bfv_vector_from(ts.context_from(key if alike else own), vector).decrypt(),
    ):
        try:
            said.append(read())
        except RuntimeError as error:
            said.append(str(error))
    print(f"{ts.__version__} reads of {version}: {said[0]}, {said[1]}")
    assert said == (["a key", [1, 2, 3]] if alike else ["incompatible version"] * 2)
PY
for step in write read; do
    for version in 0.3.16 0.3.17 0.3.18; do
        PYTHONPATH="$folder/$version" "$folder/venv/bin/python" "$folder/$step.py" "$folder"
    done
done

#!/usr/bin/env bash
# TenSEAL 0.3.18: a BFV vector takes any 64-bit integer, and reduces it modulo the plain modulus t. From about 4·t on the
# other values of the vector come out wrong, too: of [8·t + 3, 5, 7] 3 is right, and 5 and 7 become 250028 and 500053.
#
# Nothing is logged and nothing raised. Up to 2·t + 3 all values are right, which makes a quick test of the wrap pass.
# Why it matters: one party with one count that does not fit spoils all counts that it sends, not this one alone. So a
# party must reduce its numbers, or refuse them, before they are encoded.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tenseal==0.3.18 numpy==2.2.6
"$folder/venv/bin/python" - <<'PY'
import tenseal as ts

t = 1032193
context = ts.context(ts.SCHEME_TYPE.BFV, 4096, plain_modulus=t)
read = {}
for times in (1, 2, 8):
    read[times] = ts.bfv_vector(context, [times * t + 3, 5, 7]).decrypt()
    print(f"[{times}·t + 3, 5, 7] becomes {read[times]}")
assert read[1] == read[2] == [3, 5, 7]
assert read[8][0] == 3 and read[8][1] != 5 and read[8][2] != 7
PY

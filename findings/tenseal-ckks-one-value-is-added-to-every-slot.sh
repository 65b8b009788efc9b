#!/usr/bin/env bash
# TenSEAL 0.3.18: a CKKS vector of one value, added to a longer one, is added to every slot of it, without a warning.
#
# It happens where the context holds Galois keys. Without them the sum fails, and the message speaks of the missing keys,
# not of the lengths. Two vectors of 3 and 2 values are refused. So 3 counts plus 1 count is a wrong sum, not an error.
# Why it matters: a server that adds parties' encrypted counts must compare their lengths itself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tenseal==0.3.18 numpy==2.2.6
"$folder/venv/bin/python" - <<'PY'
import tenseal as ts

context = ts.context(ts.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 40, 60])
context.global_scale = 2.0**40


def refused(left, right):
    try:
        ts.ckks_vector(context, left) + ts.ckks_vector(context, right)
    except Exception as error:
        return str(error)
    return ""


without = refused([1, 2, 3], [10])
print("no Galois keys, 3 values + 1 value:", without)
assert "Galois" in without
context.generate_galois_keys()
total = ts.ckks_vector(context, [1, 2, 3]) + ts.ckks_vector(context, [10])
print("Galois keys,    3 values + 1 value:", [round(value, 3) for value in total.decrypt()])
assert [round(value) for value in total.decrypt()] == [11, 12, 13]
print("Galois keys,    3 values + 2 values:", refused([1, 2, 3], [10, 20]))
assert "different sizes" in refused([1, 2, 3], [10, 20])
PY

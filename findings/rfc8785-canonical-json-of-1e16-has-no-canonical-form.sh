#!/usr/bin/env bash
# rfc8785 0.1.4 writes whole floats from 1e16 to below 1e21 as integers, as RFC 8785 has it. Read again by Python's json
# these are int, and rfc8785 refuses those beyond 2^53. So do files that jq 1.6 or JavaScript has rewritten: they put
# 1e16 down with all its digits, too.
#
# Seen: {"weights":1e16} becomes {"weights":10000000000000000}; of that: IntegerDomainError. 2^60 becomes
# 1152921504606847000, which is another integer.
# Why it matters: a signature over the canonical form of a result verifies where it was made; where the result was
# loaded and saved by another tool, verifying ends with an error that says nothing of the signature.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check rfc8785==0.1.4
"$folder/venv/bin/python" - <<'PY'
import json

import rfc8785

for number, digits in ((1e16, "10000000000000000"), (2.0**60, "1152921504606847000")):
    written = rfc8785.dumps({"weights": number})
    try:
        again = rfc8785.dumps(json.loads(written)).decode()
    except rfc8785.IntegerDomainError as error:
        again = type(error).__name__
    print(f"{number!r} -> {written.decode()} -> {again}; the same integer: {int(digits) == int(number)}")
    assert written.decode() == f'{{"weights":{digits}}}' and again == "IntegerDomainError"
assert int("1152921504606847000") != 2**60
PY

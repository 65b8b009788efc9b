#!/usr/bin/env bash
# lightphe 0.0.27: a fraction in a Paillier ciphertext of its own is an element modulo n. 0.76 decrypts to a number of
# some 300 digits, and so does half of an odd count; half of an even one is right. In a list of one value all are right.
#
# Seen: 0.5 * 100 is 50, 0.5 * 101 has over 200 digits; 1.05 * 1,000 is 1050, 1.05 * 1,001 is not. As lists: [50.5],
# [0.76]. But lists keep five decimals, cut off: 0.000001 is 0.0, and 1.005 + 1.0 is 2.00499.
# Why it matters: ties count one half in an AUC. Tried with an even number it works, and risks below 0.00001 are 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check lightphe==0.0.27 sympy==1.14.0
"$folder/venv/bin/python" - <<'PY'
from functools import partial

from lightphe import LightPHE

system = LightPHE(algorithm_name="Paillier", key_size=1024)
encrypt, decrypt = partial(system.encrypt, silent=True), system.decrypt
even, odd, score = decrypt(encrypt(100) * 0.5), decrypt(encrypt(101) * 0.5), decrypt(encrypt(0.76))
lists = decrypt(encrypt([101]) * 0.5), decrypt(encrypt([0.76]))
small, added = decrypt(encrypt([0.000001])), decrypt(encrypt([1.005]) + encrypt([1.0]))
print(f"half of 100: {even}; half of 101: {len(str(odd))} digits; 0.76: {len(str(score))} digits")
print("in lists:", *lists, "but 0.000001 is", small, "and 1.005 + 1.0 is", added)
assert even == 50 and len(str(odd)) > 200 and len(str(score)) > 200
assert lists == ([50.5], [0.76]) and small == [0.0] and added == [2.00499]
PY

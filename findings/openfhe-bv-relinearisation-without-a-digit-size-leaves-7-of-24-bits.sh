#!/usr/bin/env bash
# OpenFHE 1.6.1: CKKS products relinearised by `BV` key switching are right to 7 bits, where HYBRID, and BV with
# a digit size, give 24; with a first prime of 60 bits, the usual one, they are right to 3. No warning is given.
#
# The digit size of BV is 0 unless told, which means whole primes: what a switch adds is as large as the largest prime
# (2^56 here) times a key's errors, and the product's scale is 2^70. EvalMultNoRelin alone is right to 24 bits.
# Why it matters: BV is the way without a special modulus, which halves the ring (4096, not 8192, here) and so the
# ciphertexts. Whoever takes it for that must call SetDigitSize, or not relinearise.
# Needs Python 3.10, or 3.12 with glibc 2.38, for one of which each of its wheels is; it looks for one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for python in "${PYTHON:-python3}" python3.10 python3.12 ~/.pyenv/versions/3.1[02].*/bin/python; do
    wheel=$("$python" -c 'import sys; print({10: 22, 12: 24}[sys.version_info[1]])' 2>/dev/null) || continue
    rm -rf "$folder/venv"
    "$python" -m venv "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check "openfhe==1.6.1.0.$wheel.4" || continue
    "$folder/venv/bin/python" -c 'import openfhe' && break
done
[ -d "$folder/venv" ] || { echo "No Python 3.10 or 3.12 here: PYTHON=... says where one is." >&2; exit 1; }
"$folder/venv/bin/python" - <<'PY'
import math
import statistics

import openfhe as o

VALUES = [1.0, 0.5, -0.25, 0.75, 1 / 3, -2 / 3, 0.1, 0.9]


def bits(technique, digits=None, first=56, relinearise=True):
    """The median, over five fresh keys, of how many bits of squares are right; and the ring's size."""
    settings = o.CCParamsCKKSRNS()
    settings.SetMultiplicativeDepth(1)
    settings.SetFirstModSize(first)
    settings.SetScalingModSize(35)
    settings.SetScalingTechnique(o.FLEXIBLEAUTO)
    settings.SetBatchSize(len(VALUES))
    settings.SetKeySwitchTechnique(technique)
    if digits is not None:
        settings.SetDigitSize(digits)
    context = o.GenCryptoContext(settings)
    for feature in (o.PKE, o.KEYSWITCH, o.LEVELEDSHE):
        context.Enable(feature)
    found = []
    for _ in range(5):
        keys = context.KeyGen()
        context.EvalMultKeyGen(keys.secretKey)
        sent = context.Encrypt(keys.publicKey, context.MakeCKKSPackedPlaintext(VALUES))
        square = (context.EvalMult if relinearise else context.EvalMultNoRelin)(sent, sent)
        read = context.Decrypt(square, keys.secretKey)
        read.SetLength(len(VALUES))
        errors = [abs(each - value**2) for each, value in zip(read.GetRealPackedValue(), VALUES)]
        found.append(-math.log2(max(errors)))
    return statistics.median(found), context.GetRingDimension()


for name, expected, *told in (
    ("BV", 7, o.BV),
    ("BV, digit size 0", 7, o.BV, 0),
    ("BV, first prime of 60 bits", 3, o.BV, None, 60),
    ("BV, not relinearised", 24, o.BV, None, 56, False),
    ("BV, digit size 10", 24, o.BV, 10),
    ("HYBRID", 24, o.HYBRID),
):
    right, size = bits(*told)
    print(f"{name}: right to {right:.0f} bits, N = {size}")
    assert abs(right - expected) < 3
PY

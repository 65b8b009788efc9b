#!/usr/bin/env bash
# openfhe 1.6.1: BFV takes a plaintext modulus of 51 bits, makes keys, encrypts and decrypts with it, and what comes
# back is noise. No check, no message: parameters are chosen by the library itself, for 128 bits of security.
#
# Seen: 1, 2, 3, 4, encrypted, added to themselves and decrypted. Modulo a prime just below or just above 2^50: 2, 4, 6,
# 8. Modulo one just below 2^51, just above it, or above 2^52: four large numbers that have nothing to do with them.
# Why it matters: numerators of an AUC, counts of pairs times two, ask for such moduli from some fifty million rows on.
# Sums have to be split over smaller primes, and a known number decrypted beside them.
# Needs Python 3.10, whose binary is all that this wheel holds; it looks for one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fits='import sys; sys.exit(sys.version_info[:2] != (3, 10))'
for python in "${PYTHON:-python3}" python3.10 ~/.pyenv/versions/3.10.*/bin/python; do
  "$python" -c "$fits" 2>/dev/null && break
done
"$python" -c "$fits" 2>/dev/null || { echo "No Python 3.10 here: PYTHON=... says where one is." >&2; exit 1; }
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check openfhe==1.6.1.0.22.4 sympy==1.14.0
"$folder/venv/bin/python" - <<'PY'
import openfhe
import sympy

STEP = 2 * 16384  # primes of which slots can be packed


def prime(start, step):
    candidate = start // STEP * STEP + 1
    while not sympy.isprime(candidate) or (candidate - start) * step < 0:
        candidate += step
    return candidate


def doubled(modulus):
    settings = openfhe.CCParamsBFVRNS()
    settings.SetPlaintextModulus(modulus)
    settings.SetMultiplicativeDepth(1)
    settings.SetSecurityLevel(openfhe.HEStd_128_classic)
    context = openfhe.GenCryptoContext(settings)
    for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE):
        context.Enable(feature)
    keys = context.KeyGen()
    encrypted = context.Encrypt(keys.publicKey, context.MakePackedPlaintext([1, 2, 3, 4]))
    decrypted = context.Decrypt(keys.secretKey, context.EvalAdd(encrypted, encrypted))
    decrypted.SetLength(4)
    return decrypted.GetPackedValue()


right = []
for power, step in ((50, -STEP), (50, STEP), (51, -STEP), (51, STEP), (52, STEP)):
    modulus = prime(2**power, step)
    found = doubled(modulus)
    right.append(found == [2, 4, 6, 8])
    print(f"modulo {modulus}, {modulus.bit_length()} bits: {found}")
assert right == [True, True, False, False, False]
PY

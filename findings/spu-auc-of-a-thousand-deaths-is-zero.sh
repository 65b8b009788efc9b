#!/usr/bin/env bash
# spu 0.9.5 (SecretFlow): a quotient whose denominator is large is 0, without a warning. Its fractions have 18 bits in a
# ring of 64 (FM64), 26 in one of 128: the reciprocal, from which a quotient is made, no longer fits. Products wrap.
#
# Seen: an AUC of 0.76 as numerator / (positives * negatives), three parties, ABY3. FM64: 100 and 900 rows: 0.76; 1,000
# and 9,000: 0.0. FM128: 1,000 and 9,000: 0.76; 10,000 and 90,000: 0.0. The product of 20,000 and 80,000 in FM64 is no
# 1.6e9, and mostly negative.
# Why it matters: an AUC in secret shares is right on the test's hundred rows and 0 on the study's thousands. Open
# numerator, positives and negatives as integers, and divide in the clear.
# Needs Python 3.10 or 3.11, as its wheels do; it looks for one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fits='import sys; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))'
for python in "${PYTHON:-python3}" python3.11 python3.10 ~/.pyenv/versions/3.1[01].*/bin/python; do
  "$python" -c "$fits" 2>/dev/null && break
done
"$python" -c "$fits" 2>/dev/null || { echo "No Python 3.10 or 3.11 here: PYTHON=... says where one is." >&2; exit 1; }
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check spu==0.9.5 numpy==1.26.4 jax==0.4.34 jaxlib==0.4.34
"$folder/venv/bin/python" - <<'PY'
import numpy as np
import spu
import spu.utils.simulation as simulation


def run(field, function, *numbers):
    parties = simulation.Simulator.simple(3, spu.ProtocolKind.ABY3, field)
    return float(simulation.sim_jax(parties, function)(*map(np.float32, numbers)))


def auc(wins, positives, negatives):
    return wins / (positives * negatives)


found = {}
for name, field in (("FM64", spu.FieldType.FM64), ("FM128", spu.FieldType.FM128)):
    for positives, negatives in ((100, 900), (1_000, 9_000), (10_000, 90_000)):
        got = run(field, auc, 0.76 * positives * negatives, positives, negatives)
        print(f"{name}: {positives:,} positives, {negatives:,} negatives: AUC {got:.4f}")
        found[name, positives] = round(got, 2)
product = run(spu.FieldType.FM64, lambda a, b: a * b, 20_000, 80_000)
print(f"FM64: 20,000 * 80,000 = {product:,.0f}")
assert (found["FM64", 100], found["FM64", 1_000]) == (0.76, 0.0)
assert (found["FM128", 1_000], found["FM128", 10_000]) == (0.76, 0.0)
assert abs(product) < 2e8
PY

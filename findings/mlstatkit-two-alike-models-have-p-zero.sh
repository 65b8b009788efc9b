#!/usr/bin/env bash
# MLstatkit 0.1.91: DeLong's test of two models that rank all rows alike, as a model and its recalibrated self, returns
# z = 0 and p = 0.
#
# Seen: Delong_test(labels, scores, 2 * scores + 1) is (0.0, 0.0): the strongest evidence of a difference of exactly 0.
# Why it matters: the standard error is 0, and 0/0 is no p-value. It has to be withheld, or be 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check MLstatkit==0.1.91 scikit-learn==1.6.1 numpy==2.2.6 scipy==1.15.3 pandas==2.2.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from MLstatkit import Delong_test

rng = np.random.default_rng(0)
scores = rng.normal(size=500)
labels = (rng.random(500) < 1 / (1 + np.exp(-scores))).astype(int)
z, p = Delong_test(labels, scores, 2 * scores + 1)[:2]
print(f'z {z}, p {p}')
assert z == 0 and p == 0
PY

#!/usr/bin/env bash
# diffprivlib 0.6.6: histogram takes weights, cuts each bin's sum down to a whole number, and then adds noise. And it
# cuts noisy counts below 0 off, so that empty bins count for rows on average.
#
# Seen: bins with sums of weights .9 and 1.5: 0 and 1, with so large an epsilon that there is no noise. 100 rows in one
# of 1,000 bins at epsilon 1: 527 rows on average; at epsilon .1, 5,109.
# Why it matters: of weights that add up to less than 1 in a bin nothing is left. And an AUC of fine bins is drawn
# towards one half by rows that nobody has; noisy counts are unbiased only if they may be negative.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check diffprivlib==0.6.6 \
  scikit-learn==1.7.2 numpy==2.3.5 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from diffprivlib.tools import histogram

scores = np.repeat([0.25, 0.75], [3, 5])
exact = np.histogram(scores, 2, (0, 1), weights=np.full(8, 0.3))[0]
weighted, _ = histogram(scores, epsilon=1e9, bins=2, range=(0, 1), weights=np.full(8, 0.3), random_state=1)
print(f"sums of weights {exact.round(2)}: {weighted}")
rows = {}
for epsilon in (1.0, 0.1):
    drawn = [histogram(np.full(100, 0.5), epsilon, 1000, (0, 1), random_state=seed)[0].sum() for seed in range(20)]
    rows[epsilon] = float(np.mean(drawn))
    print(f"epsilon {epsilon}: {rows[epsilon]:.0f} rows of 100")
assert weighted.tolist() == [0, 1] and np.allclose(exact, [0.9, 1.5])
assert rows[1.0] > 400 and rows[0.1] > 4000
PY

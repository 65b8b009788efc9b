#!/usr/bin/env bash
# numpy 2.4.6: histogram sums weights in their own type. Of uint8 weights each bin is counted modulo 256, without a
# warning; histogram2d and bincount sum in float64.
#
# Seen: 300 rows of weight 1 in one bin: histogram has 44, histogram2d 300, bincount 300.0; pandas sums them to 300,
# too.
# Why it matters: frequency weights come as the smallest integers (pandas downcast, Parquet, Stata bytes). A calibration
# curve or a weighted count is wrong in just the full bins. Weights to float64 first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np

scores, weights = np.full(300, 0.2), np.ones(300, np.uint8)
one = np.histogram(scores, [0, 0.5, 1], weights=weights)[0]
even = np.histogram(scores, 2, (0, 1), weights=weights)[0]
two = np.histogram2d(scores, scores, [[0, 0.5, 1], [0, 1]], weights=weights)[0]
counted = np.bincount((scores > 0.5).astype(int), weights)
print(f'histogram {one}, of even bins {even}; histogram2d {two.ravel()}, bincount {counted}')
assert one.tolist() == even.tolist() == [44, 0] and two.sum() == counted.sum() == 300
PY

#!/usr/bin/env bash
# scikit-learn 1.9.1: roc_auc_score refuses noisy counts of bins as sample_weight: negative ones make the curve fall.
# average_precision_score takes them, and gives more than 1 without a warning.
#
# Seen: 100 positives and 1,900 negatives in 50 bins, average precision 0.47. With discrete Laplace noise of epsilon 0.3
# 22 of 300 releases are above 1, up to 2.94. roc_auc_score raises an error for all 300.
# Why it matters: private counts are unbiased only if they may be negative. Precision divides by noisy sums that are
# near 0 in the highest bins. Counts have to be made consistent before a curve is drawn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6 \
  scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import warnings

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

rng, middles = np.random.default_rng(5), np.linspace(0.01, 0.99, 50)


def bell(rows, centre):
    law = np.exp(-(((middles - centre) / 0.15) ** 2))
    return np.round(rows * law / law.sum())


counts, labels, scores = np.r_[bell(100, 0.6), bell(1900, 0.4)], np.repeat([1, 0], 50), np.tile(middles, 2)
exact = average_precision_score(labels, scores, sample_weight=counts)
found, refused = [], 0
for _ in range(300):
    up, down = rng.geometric(1 - np.exp(-0.3), (2, 100))
    noisy = counts + up - down
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        score = average_precision_score(labels, scores, sample_weight=noisy)
    if score > 1 and not told:
        found.append(float(score))
    try:
        roc_auc_score(labels, scores, sample_weight=noisy)
    except ValueError:
        refused += 1
print(f"exact {exact:.2f}; {len(found)} of 300 above 1 and untold, up to {max(found):.2f}; {refused} AUCs refused")
assert len(found) > 10 and refused == 300
PY

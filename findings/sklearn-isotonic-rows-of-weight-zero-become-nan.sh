#!/usr/bin/env bash
# scikit-learn 1.9.1: IsotonicRegression leaves out rows of weight 0 before it looks how far scores reach. It then has
# no value for scores of its own training rows beyond the others: fit_transform gives NaN, without a warning.
#
# Seen: weights 0, 1, 1, 0 (rows censored before the horizon have 0): fit_transform of the same four scores is [nan, .5,
# .5, nan]; with weights of 1e-9 all four are numbers.
# Why it matters: inverse probability of censoring weights are 0 for many rows. The lowest or the highest scores get no
# calibrated probability, and a mean by nanmean leaves these patients out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from sklearn.isotonic import IsotonicRegression

scores, labels = np.array([0.1, 0.2, 0.3, 0.9]), np.array([0.0, 1, 0, 1])
zero = IsotonicRegression().fit_transform(scores, labels, sample_weight=[0, 1, 1, 0])
tiny = IsotonicRegression().fit_transform(scores, labels, sample_weight=[1e-9, 1, 1, 1e-9])
print(f'weight 0: {zero}; weight 1e-9: {tiny}')
assert np.isnan(zero).tolist() == [True, False, False, True] and not np.isnan(tiny).any()
PY

#!/usr/bin/env bash
# scikit-learn 1.9.1: IsotonicRegression takes scores for equal that are less than 1e-6 apart, if they are float32
# (1e-15, if float64). It measures the distance, not the ratio: scores of rare events are all one score.
#
# Seen: ten scores from 1e-8 to 9e-7, with shares of events that rise: as float32 the map is constant, their mean; as
# float64 it is the ten shares.
# Why it matters: networks and boosted trees give float32, and rare outcomes such probabilities. The map ranks nobody,
# and its AUC is 0.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from sklearn.isotonic import IsotonicRegression

scores, shares = np.linspace(1e-8, 9e-7, 10), np.linspace(0.0, 0.9, 10)
kinds = (np.float32, np.float64)
single, double = (IsotonicRegression().fit_transform(scores.astype(kind), shares) for kind in kinds)
print(f'float32 {single}\nfloat64 {double}')
assert len(set(single.tolist())) == 1 and np.abs(double - shares).max() < 1e-12
PY

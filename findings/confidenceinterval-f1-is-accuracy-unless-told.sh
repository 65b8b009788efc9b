#!/usr/bin/env bash
# confidenceinterval 1.0.4: f1_score, precision_score and recall_score have scikit-learn's names, and other defaults: they
# average over both labels ('micro'), where all three are the accuracy.
#
# Seen: 10 events among 100 rows: F1 .42 by scikit-learn, .81 by confidenceinterval, and precision and recall the same .81.
# Why it matters: swapping the import to get an interval changes the number in the paper.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check confidenceinterval==1.0.4 scikit-learn==1.6.1 numpy==1.26.4 scipy==1.13.1 setuptools==80.9.0 wheel==0.45.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import confidenceinterval as ci
import sklearn.metrics as sk

labels = np.r_[np.ones(10, int), np.zeros(90, int)]
chosen = np.r_[np.ones(7, int), np.zeros(3, int), np.ones(16, int), np.zeros(74, int)]
theirs = [float(getattr(ci, name)(labels, chosen)[0]) for name in ('f1_score', 'precision_score', 'recall_score')]
usual = [float(getattr(sk, name)(labels, chosen)) for name in ('f1_score', 'precision_score', 'recall_score')]
print(f'confidenceinterval {theirs}; scikit-learn {usual}; accuracy {(labels == chosen).mean()}')
assert np.allclose(theirs, (labels == chosen).mean()) and abs(usual[0] - 0.4242) < 1e-4
PY

#!/usr/bin/env bash
# river 0.26.1: the streaming metrics.ROCAUC compares scores at 10 thresholds, evenly spread from 0 to 1, unless told
# otherwise. Of a model for a rare outcome, whose risks all lie between two of them, it says 0.5 without a warning.
#
# Seen: risks of 0.03 to 0.05, AUC 0.77 by scikit-learn 1.7.2, 0.5 by river; with n_thresholds=1000 the two nearly agree.
# Why it matters: clinical risks are like that. A binned AUC needs a bound of its binning error beside it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check river==0.26.1 scikit-learn==1.7.2
"$folder/venv/bin/python" - <<'PY'
import numpy as np
from river import metrics
from sklearn.metrics import roc_auc_score

rng = np.random.default_rng(1)
labels = rng.random(2000) < 0.3
risks = 0.03 + 0.02 * np.clip(rng.normal(0.4 + 0.15 * labels, 0.15), 0, 1)


def streamed(metric):
    for label, risk in zip(labels, risks):
        metric.update(bool(label), float(risk))
    return metric.get()


expected, usual, fine = roc_auc_score(labels, risks), streamed(metrics.ROCAUC()), streamed(metrics.ROCAUC(1000))
print(f"scikit-learn {expected:.4f}; river {usual:.4f}; river at 1,000 thresholds {fine:.4f}")
assert usual == 0.5 and expected > 0.7 and abs(fine - expected) < 0.02
PY

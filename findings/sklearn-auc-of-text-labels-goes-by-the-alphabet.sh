#!/usr/bin/env bash
# scikit-learn 1.6.1: roc_auc_score takes labels that are text, and the last by the alphabet is the positive one.
# average_precision_score, brier_score_loss and roc_curve of the same labels raise instead.
#
# Seen: cases score above all controls: the AUC of labels 'case' and 'control' is 0.0, without a warning.
# Why it matters: a registry's labels are such words. A model looks reversed, or a reversed one perfect.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-learn==1.6.1 numpy==2.2.6 scipy==1.15.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

labels = np.array(['case', 'control'] * 50)
scores = np.where(labels == 'case', 0.8, 0.2)
try:
    average_precision_score(labels, scores)
    refused = False
except ValueError as error:
    refused = 'pos_label' in str(error)
print(f'AUC {roc_auc_score(labels, scores)}; average precision refused: {refused}')
assert roc_auc_score(labels, scores) == 0 and refused
PY

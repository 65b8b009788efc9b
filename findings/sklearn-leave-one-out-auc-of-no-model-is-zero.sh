#!/usr/bin/env bash
# scikit-learn 1.9.1: cross_val_predict puts the predictions of all folds into one column. A model that knows nothing
# predicts the prevalence of the other rows, which is lower where the row that is left out is a positive: so it ranks
# positives below negatives.
#
# Seen: DummyClassifier on 200 rows: the AUC of its leave-one-out predictions is 0.0, not .5; of twelve hospitals left
# out in turn, .33. The mean of the hospitals' own AUCs is .5.
# Why it matters: leaving one site out is how models of several sites are tested. A pooled AUC of such predictions is
# too low, most of all for weak models and small sites; one far below one half says nothing of the model.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6 \
  scipy==1.17.1
"$folder/venv/bin/python" - <<'PY'
import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut, cross_val_predict

rng = np.random.default_rng(1)
hospital = np.repeat(np.arange(12), 50)
died = (rng.random(600) < rng.uniform(0.05, 0.35, 12)[hospital]).astype(int)
nothing = np.zeros((600, 1))


def predicted(rows, **folds):
    return cross_val_predict(DummyClassifier(), nothing[rows], died[rows], method="predict_proba", **folds)[:, 1]


first = slice(200)
single = roc_auc_score(died[first], predicted(first, cv=LeaveOneOut()))
left_out = predicted(slice(None), cv=LeaveOneGroupOut(), groups=hospital)
pooled = roc_auc_score(died, left_out)
each = np.mean([roc_auc_score(died[hospital == site], left_out[hospital == site]) for site in range(12)])
print(f"rows left out in turn: AUC {single}; hospitals: {pooled:.2f} pooled, {each} on average")
assert single == 0 and pooled < 0.4 and each == 0.5
PY

#!/usr/bin/env bash
# scikit-learn 1.9.1: of labels 1 and 2, as SPSS and SAS have them, roc_auc_score takes 2 for the positive one, and
# average_precision_score, f1_score, precision and recall take 1. So do the scorers of cross_val_score, by name.
# precision_recall_curve and roc_curve refuse the labels.
#
# Seen: 2,000 rows, 10 % with the event (2): AUC .78 either way, but average precision .82 where labels 0 and 1 have
# .32; F1 of the same decisions .89 where it is .34. No warning.
# Why it matters: one table has an AUC of those who died beside a precision of those who did not, and a useless model
# for a rare outcome has an average precision of .9. Make labels 0 and 1 first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6 \
  scipy==1.17.1 2>/dev/null
"$folder/venv/bin/python" - <<'PY'
import numpy as np
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score, roc_curve

rng = np.random.default_rng(1)
died = (rng.random(2000) < 0.1).astype(int)
scores = rng.normal(died)
chosen = (scores > 1).astype(int)
found = {
    name: (float(of(died, values)), float(of(died + 1, values + shift)))
    for name, of, values, shift in (
        ("AUC", roc_auc_score, scores, 0),
        ("average precision", average_precision_score, scores, 0),
        ("F1", f1_score, chosen, 1),
    )
}
for name, (usual, coded) in found.items():
    print(f"{name}: {usual:.2f} with labels 0 and 1, {coded:.2f} with 1 and 2")
try:
    roc_curve(died + 1, scores)
except ValueError as error:
    print("roc_curve:", str(error)[:40], "...")
else:
    raise AssertionError("roc_curve takes the labels")
assert found["AUC"][0] == found["AUC"][1]
assert found["average precision"][1] == average_precision_score(1 - died, scores)
assert found["average precision"][1] > 0.8 > 0.4 > found["average precision"][0] and found["F1"][1] > 2 * found["F1"][0]
PY

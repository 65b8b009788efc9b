#!/usr/bin/env bash
# catboost 1.2.10: PRAUC draws its curve from precision 1 at recall 0, straight to the first real point. With tied
# scores that point is far away: a constant gets (1 + prevalence) / 2.
#
# Seen: 2,000 rows, 9 % events: a constant has PRAUC .55, where scikit-learn's average precision is .09; a good model
# has .32 by both; rounded to five points .25 for .18.
# Why it matters: a model that knows nothing beats a good one. Few trees and score cards tie many rows, too, so that
# early stopping by PRAUC ends before there is a model. The AUC of the same library counts ties as one half.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check catboost==1.2.10 scikit-learn==1.9.1 \
  numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from catboost.utils import eval_metric
from sklearn.metrics import average_precision_score, roc_auc_score

rng = np.random.default_rng(1)
died = (rng.random(2000) < 0.1).astype(int)
scores = rng.normal(died)
coarse = {"constant": np.zeros(2000), "five points": np.clip(np.round(scores / 2), -2, 2)}
found = {}
for name, values in {**coarse, "as they are": scores}.items():
    found[name] = eval_metric(list(died), list(values), "PRAUC")[0], average_precision_score(died, values)
    assert np.isclose(eval_metric(list(died), list(values), "AUC")[0], roc_auc_score(died, values))
    print("%s: PRAUC %.3f, average precision %.3f" % (name, *found[name]))
assert np.isclose(found["constant"][0], (1 + died.mean()) / 2) and np.isclose(found["constant"][1], died.mean())
assert found["five points"][0] > found["five points"][1] + 0.05 and abs(np.subtract(*found["as they are"])) < 0.02
PY

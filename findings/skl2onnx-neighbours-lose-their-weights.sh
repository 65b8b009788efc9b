#!/usr/bin/env bash
# skl2onnx 1.20.0: KNeighborsClassifier(weights="distance") becomes an ONNX file of neighbours that all count the same,
# without a warning. A function for weights is refused.
#
# Seen: 25 neighbours, 1,000 new rows: 846 different risks by scikit-learn, 19 in ONNX, which are those of
# weights="uniform"; up to .12 apart. Of rows that were fitted AUC is 1.0 by scikit-learn, .83 in ONNX.
# Why it matters: a site that evaluates the file evaluates another model, with ties where the model that was published
# has none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check skl2onnx==1.20.0 onnx==1.23.2 \
  onnxruntime==1.32.0 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

rng = np.random.default_rng(0)
rows = rng.normal(size=(2000, 4)).astype(np.float32)
died = (rng.random(2000) < 1 / (1 + np.exp(2 - rows[:, 0] - rows[:, 1]))).astype(int)


def risks(weights):
    model = KNeighborsClassifier(25, weights=weights).fit(rows[:1000], died[:1000])
    converted = to_onnx(model, rows[:1], options={"zipmap": False})
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    return model.predict_proba(rows)[:, 1], session.run(["probabilities"], {"X": rows})[0][:, 1]


plain, plain_onnx = risks("uniform")
assert np.abs(plain - plain_onnx).max() < 1e-6
ours, theirs = risks("distance")
values = [len(np.unique(each[1000:])) for each in (ours, theirs)]
fitted = [round(float(roc_auc_score(died[:1000], each[:1000])), 2) for each in (ours, theirs)]
apart = float(np.abs(ours - theirs)[1000:].max())
print(f"different risks {values}, up to {apart:.2f} apart; AUC of fitted rows {fitted}")
assert np.abs(theirs - plain_onnx).max() < 1e-6 and values[0] > 500 > 30 > values[1] and apart > 0.05
PY

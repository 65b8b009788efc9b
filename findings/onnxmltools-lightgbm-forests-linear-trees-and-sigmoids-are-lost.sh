#!/usr/bin/env bash
# onnxmltools 1.16.0, LightGBM 4.7.0: convert_lightgbm leaves out what a model does besides adding up constants of
# trees: the mean over trees of a random forest, the lines in leaves of linear_tree, the slope of sigmoid. No error, no
# warning.
#
# Seen: 1,000 new rows, 18.7 % events, LightGBM's mean risk and AUC, and those of the ONNX file: forest .219 and .779,
# .001 and .659; linear trees .184 and .774, .175 and .763; sigmoid=2 .180 and .771, .291 and .771. A usual model agrees
# to 1e-7.
# Why it matters: ONNX is how a model travels to sites that shall not run Python. What they evaluate is another model,
# and its name is the same. Compare risks of some rows before and after.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check onnxmltools==1.16.0 onnx==1.23.2 \
  onnxruntime==1.32.0 lightgbm==4.7.0 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import lightgbm
import numpy as np
import onnxruntime
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType
from sklearn.metrics import roc_auc_score

rng = np.random.default_rng(0)
rows = rng.normal(size=(2000, 4)).astype(np.float32)
died = (rng.random(2000) < 1 / (1 + np.exp(2 - rows[:, 0] - rows[:, 1]))).astype(int)
new = slice(1000, 2000)


def risks(**options):
    fixed = {"n_estimators": 30, "num_leaves": 7, "n_jobs": 1, "random_state": 0, "verbose": -1}
    model = lightgbm.LGBMClassifier(**fixed, **options).fit(rows[:1000], died[:1000])
    converted = convert_lightgbm(model, initial_types=[("rows", FloatTensorType([None, 4]))], zipmap=False)
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    return model.predict_proba(rows[new])[:, 1], session.run(["probabilities"], {"rows": rows[new]})[0][:, 1]


found = {}
for name, options in {
    "usual": {},
    "forest": {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "linear trees": {"linear_tree": True},
    "sigmoid": {"sigmoid": 2.0},
}.items():
    both = risks(**options)
    found[name] = [(float(each.mean()), float(roc_auc_score(died[new], each))) for each in both]
    print("%s: LightGBM mean %.3f, AUC %.3f" % (name, *found[name][0]), "ONNX mean %.3f, AUC %.3f" % found[name][1])
    assert (np.abs(both[0] - both[1]).max() < 1e-6) == (name == "usual")
assert found["forest"][1][0] < 0.01 and found["forest"][1][1] < found["forest"][0][1] - 0.05
assert found["linear trees"][1][1] < found["linear trees"][0][1] - 0.005 and found["sigmoid"][1][0] > 0.25
PY

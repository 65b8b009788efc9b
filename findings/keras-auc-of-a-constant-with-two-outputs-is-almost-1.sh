#!/usr/bin/env bash
# keras 3.15.1 (and scikit-learn 1.9.1 with average="micro"): metrics.AUC takes a network's two outputs, the
# probabilities of both classes, for two rows each. Most of what it then ranks is "this row has the common class", which
# the prevalence alone gets right. multi_label=True has the usual AUC.
#
# Seen: 20,000 rows, 1.7 % events: a constant, the prevalence for everybody, has AUC .98, right risks .99; of the column
# of events alone .50 and .73. Average precision (curve="PR") is .98 and .99.
# Why it matters: a softmax over two classes with one-hot labels is how most networks are built. The rarer the outcome,
# the better they all look, and a site with fewer events looks best.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check keras==3.15.1 jax==0.10.2 \
  jaxlib==0.10.2 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
KERAS_BACKEND=jax JAX_PLATFORMS=cpu KERAS_HOME=$folder "$folder/venv/bin/python" -W ignore - <<'PY'
import keras
import numpy as np
from sklearn.metrics import roc_auc_score

rng = np.random.default_rng(1)
risks = 1 / (1 + np.exp(4.5 - rng.normal(size=20_000)))
died = (rng.random(20_000) < risks).astype(int)


def auc(labels, scores, **how):
    metric = keras.metrics.AUC(**how)
    metric.update_state(labels, scores)
    return round(float(metric.result()), 2)


found = {}
for name, scores in (("constant", np.full(20_000, died.mean())), ("right risks", risks)):
    both = np.c_[1 - died, died], np.c_[1 - scores, scores]
    found[name] = auc(*both), auc(*both, curve="PR"), auc(died, scores), auc(*both, multi_label=True)
    print("%s: two outputs %.2f (PR %.2f), one %.2f; multi_label %.2f" % (name, *found[name]))
    micro = roc_auc_score(*both, average="micro")
    assert abs(micro - found[name][0]) < 0.01
assert found["constant"] == (0.98, 0.98, 0.5, 0.5)
assert found["right risks"] == (0.99, 0.99, 0.73, 0.73)
PY

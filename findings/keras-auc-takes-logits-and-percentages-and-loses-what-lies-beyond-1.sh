#!/usr/bin/env bash
# keras 3.15.1: metrics.AUC compares scores with 200 thresholds from 0 to 1, and takes any numbers. All below 0 are
# tied, and so are all above 1: no error, no warning.
#
# Seen: a model whose AUC is .86: its logits have .81; logits of a rare outcome, nearly all below 0, .50; percentages
# .51. from_logits=True has .86 of the logits.
# Why it matters: a network without a last sigmoid, or one site that writes percentages, has an AUC that is believable
# and too low.
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
logits = 2 * rng.normal(size=5000)
died = (rng.random(5000) < 1 / (1 + np.exp(-logits))).astype(int)


def auc(scores, **how):
    metric = keras.metrics.AUC(**how)
    metric.update_state(died, scores)
    return round(float(metric.result()), 2)


found = {
    "probabilities": auc(1 / (1 + np.exp(-logits))),
    "logits": auc(logits),
    "logits below 0": auc(logits - 6),
    "percentages": auc(100 / (1 + np.exp(-logits))),
    "from_logits": auc(logits, from_logits=True),
    "of the rows": round(float(roc_auc_score(died, logits)), 2),
}
print(found)
assert found["probabilities"] == found["from_logits"] == found["of the rows"]
assert found["logits"] < found["of the rows"] - 0.04
assert max(found["logits below 0"], found["percentages"]) < 0.56
PY

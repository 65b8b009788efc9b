#!/usr/bin/env bash
# sf-sml 0.1.0.dev20250623 (SecretFlow's secure scikit-learn): where scores tie, its roc_auc_score is too low. Each tie
# leaves points (0, 0) behind, which are sorted by their false positive rate alone, and so come after the curve's first
# rise. With SPU, whose sort keeps no order among equals, even untied rows give another AUC each time.
#
# Seen, the same in JAX without SPU: 2 of 2 positives at 0.9, 2 of 2 negatives at 0.1: 0.5, scikit-learn says 1. Points
# from 0 to 3: 0.75 where 0.917 is right. In SPU 0.9.5 a hundred untied rows, ten times over: several numbers.
# Why it matters: points and rounded risks tie, and the highest are mostly true: the better the score, the more is lost.
# Needs Python 3.10 or 3.11, as its wheels do; it looks for one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fits='import sys; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))'
for python in "${PYTHON:-python3}" python3.11 python3.10 ~/.pyenv/versions/3.1[01].*/bin/python; do
  "$python" -c "$fits" 2>/dev/null && break
done
"$python" -c "$fits" 2>/dev/null || { echo "No Python 3.10 or 3.11 here: PYTHON=... says where one is." >&2; exit 1; }
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check spu==0.9.5 numpy==1.26.4 pandas==1.5.3 \
  scikit-learn==1.5.2 jax==0.4.34 jaxlib==0.4.34
# The development version of SPU that it asks for is not on the index.
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps sf-sml==0.1.0.dev20250623
"$folder/venv/bin/python" - <<'PY'
import jax.numpy as jnp
import numpy as np
import sklearn.metrics
import spu
import spu.utils.simulation as simulation
from sml.metrics.classification.classification import roc_auc_score


def both(labels, scores):
    right = sklearn.metrics.roc_auc_score(labels, scores)
    return round(float(roc_auc_score(jnp.array(labels), jnp.array(scores, jnp.float32))), 3), round(float(right), 3)


perfect = both([1, 1, 0, 0], [0.9, 0.9, 0.1, 0.1])
points = both([1, 1, 0, 1, 0, 0, 0], [3, 3, 1, 1, 1, 0, 0])
print("two and two, perfectly told apart, and points of 0 to 3: (sml, scikit-learn)", perfect, points)
assert perfect == (0.5, 1.0) and points[0] < points[1]

random = np.random.default_rng(1)
labels = np.float32(np.r_[np.ones(20), np.zeros(80)])
scores = np.float32(random.normal(labels))
parties = simulation.Simulator.simple(3, spu.ProtocolKind.ABY3, spu.FieldType.FM64)
secure = simulation.sim_jax(parties, roc_auc_score)
runs = [round(float(secure(labels, scores)), 4) for _ in range(20)]
print("a hundred untied rows in SPU:", sorted(set(runs)), "right:", sklearn.metrics.roc_auc_score(labels, scores))
assert max(runs) - min(runs) > 2e-4
PY

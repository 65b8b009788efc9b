#!/usr/bin/env bash
# fedbiomed 6.4.1: RECALL, PRECISION and F1_SCORE of labels 0 and 1 are those of label 0, the first one in order, unless
# pos_label is told, though its docstring, and scikit-learn's, to which it points, say that 1 is the default. At a node
# whose rows all have label 1 they are those of 1.
#
# Seen: of 10 ill patients 2 are found, of 90 healthy ones 89: RECALL 0.989, F1_SCORE 0.952; with pos_label=1 0.2 and
# 0.308. Five ill patients alone, 2 found: 0.4.
# Why it matters: a model that misses four of five is validated as nearly perfect, and the average over nodes mixes
# sensitivity with specificity.
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
# What its metrics import is all that is needed here.
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check packaging==24.2 scikit-learn==1.7.2 numpy==2.2.6
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps fedbiomed==6.4.1
"$folder/venv/bin/python" - <<'PY'
import numpy as np
from fedbiomed.common.metrics import Metrics, MetricTypes

labels = np.array([1] * 10 + [0] * 90)
told = np.array([1] * 2 + [0] * 8 + [0] * 89 + [1])
metrics = Metrics()
kinds = MetricTypes.RECALL, MetricTypes.F1_SCORE
found = [round(float(metrics.evaluate(labels, told, kind)), 3) for kind in kinds]
right = [round(float(metrics.evaluate(labels, told, kind, pos_label=1)), 3) for kind in kinds]
ill = float(metrics.evaluate(np.ones(5, int), np.array([1, 1, 0, 0, 0]), MetricTypes.RECALL))
print(f"recall and F1: {found}; with pos_label=1: {right}; recall at a node where all are ill: {ill}")
assert found == [0.989, 0.952] and right == [0.2, 0.308] and ill == 0.4
PY

#!/usr/bin/env bash
# fairlearn 0.12.0: a group without one positive row has a true positive rate of 0, not none, and no warning says so. Two
# groups of equal recall and a third without events then differ by all of it.
#
# Seen: recalls of .9 and .9, and 20 rows without an event: equal_opportunity_difference is .9 and its ratio 0; without
# the third group 0 and 1.
# Why it matters: a small group decides the fairness table. A measure over groups has to say which groups it leaves out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check fairlearn==0.12.0 scikit-learn==1.6.1 numpy==2.2.6 scipy==1.15.3 pandas==2.2.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from fairlearn.metrics import equal_opportunity_difference, true_positive_rate, MetricFrame

groups = np.array(['a'] * 100 + ['b'] * 100 + ['c'] * 20)
labels = np.r_[[1] * 50, [0] * 50, [1] * 50, [0] * 50, [0] * 20]
predicted = np.r_[[1] * 45, [0] * 55, [1] * 45, [0] * 55, [0] * 20]
every = equal_opportunity_difference(labels, predicted, sensitive_features=groups)
two = equal_opportunity_difference(labels[:200], predicted[:200], sensitive_features=groups[:200])
by_group = MetricFrame(metrics=true_positive_rate, y_true=labels, y_pred=predicted, sensitive_features=groups).by_group
print(f'three groups {every}, two groups {two}; recall by group {by_group.to_dict()}')
assert every == 0.9 and two == 0 and by_group['c'] == 0
PY

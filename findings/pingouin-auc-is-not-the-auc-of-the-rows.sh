#!/usr/bin/env bash
# pingouin 0.7.0: compute_effsize(..., eftype="AUC") does not rank rows: it computes Cohen's d and what the AUC would be
# if both groups were normal with one variance. The AUC of the rows is eftype="CLES".
#
# Seen: 300 rows each of a skewed marker (log-normal): "AUC" .57, "CLES" .64, as scikit-learn has it; after taking
# logarithms, which changes no rank, "AUC" is .64, too. A rare huge value among the negatives: .48 for .63.
# Why it matters: laboratory values and risks are skewed. What is called AUC there changes with units of the score.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check pingouin==0.7.0 scikit-learn==1.9.1 \
  pandas==2.3.3 pandas-flavor==0.8.1 statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from pingouin import compute_effsize
from sklearn.metrics import roc_auc_score

rng = np.random.default_rng(1)
cases, controls = rng.lognormal(1, 1.5, 300), rng.lognormal(0.1, 1.5, 300)


def found(cases, controls):
    ours = roc_auc_score(np.repeat([1, 0], 300), np.r_[cases, controls])
    return [float(compute_effsize(cases, controls, eftype=name)) for name in ("AUC", "CLES")] + [float(ours)]


marker, logs = found(cases, controls), found(np.log(cases), np.log(controls))
outlier = found(cases, np.r_[controls[:-1], 1e4])
for name, (auc, cles, ours) in {"marker": marker, "its logarithm": logs, "one outlier": outlier}.items():
    print(f"{name}: AUC {auc:.2f}, CLES {cles:.2f}, of the rows {ours:.2f}")
assert all(np.isclose(cles, ours) for _, cles, ours in (marker, logs, outlier))
assert logs[0] - marker[0] > 0.04 and abs(logs[0] - logs[2]) < 0.02 and outlier[0] < 0.5 < outlier[2]
PY

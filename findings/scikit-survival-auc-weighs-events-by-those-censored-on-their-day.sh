#!/usr/bin/env bash
# scikit-survival 0.28.0: cumulative_dynamic_auc weighs an event at T by 1/G(T), the censoring curve after that day's
# censorings. R's riskRegression and timeROC take G(T-), before them.
#
# Seen: eight patients, with an event and a censoring on each of days 1 to 3: AUC at day 3 is .697; by G(T-) .678, by
# G(T) .697.
# Why it matters: with times in days the two differ in the fifth digit, with months or visits in the second. Two
# programs that cite one paper do not agree, and the difference is no bug of yours.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-survival==0.28.0 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from sksurv.metrics import cumulative_dynamic_auc
from sksurv.util import Surv

time, event = np.array([1, 1, 2, 2, 3, 3, 4, 4]), np.array([1, 0, 1, 0, 1, 0, 0, 0], bool)
score = np.array([0.9, 0.5, 0.2, 0.6, 0.8, 0.4, 0.3, 0.25])
outcome = Surv.from_arrays(event, time)
theirs = cumulative_dynamic_auc(outcome, outcome, score, [3])[0][0]
before, after, left = {}, {}, 1.0
for day in np.unique(time):  # events first: they leave the set at risk
    before[day] = left
    left *= 1 - ((time == day) & ~event).sum() / ((time >= day).sum() - ((time == day) & event).sum())
    after[day] = left
cases = np.flatnonzero(event & (time <= 3))
own = []
for curve in (before, after):
    weights = np.array([1 / curve[day] for day in time[cases]])
    wins = np.array([(score[case] > score[time > 3]).mean() for case in cases])
    own.append(float(weights @ wins / weights.sum()))
print(f'scikit-survival {theirs:.4f}; by G(T-) {own[0]:.4f}, by G(T) {own[1]:.4f}')
assert abs(theirs - own[1]) < 1e-12 and abs(own[0] - own[1]) > 0.015
PY

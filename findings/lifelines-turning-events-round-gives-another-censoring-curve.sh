#!/usr/bin/env bash
# lifelines 0.30.3 and most others: KaplanMeierFitter of the turned indicator (1 - event) is not the censoring curve
# where events and censorings share a day. It takes censorings before events; events come first, and leave the set at
# risk (scikit-survival 0.28.0 has reverse=True for that).
#
# Seen: eight patients with times 1 and 2: .75 and .375 by turning the indicator round, .667 and 0 by the reverse
# estimator.
# Why it matters: with times in months most times are shared. Inverse probability of censoring weights are too small,
# here 1.33 for 1.5 after the first month.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check lifelines==0.30.3 scikit-survival==0.28.0 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from lifelines import KaplanMeierFitter
from sksurv.nonparametric import kaplan_meier_estimator

time, event = np.array([1, 1, 1, 1, 2, 2, 2, 2]), np.array([1, 1, 0, 0, 1, 1, 0, 0])
turned = KaplanMeierFitter().fit(time, 1 - event).survival_function_.iloc[1:, 0].to_numpy()
reverse = kaplan_meier_estimator(event.astype(bool), time, reverse=True)[1]
print(f'turned round {turned}, reverse {reverse}; weights after day 1: {1 / turned[0]:.2f} and {1 / reverse[0]:.2f}')
assert np.allclose(turned, [0.75, 0.375]) and np.allclose(reverse, [2 / 3, 0])
PY

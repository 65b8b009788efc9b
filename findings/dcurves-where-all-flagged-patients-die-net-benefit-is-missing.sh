#!/usr/bin/env bash
# dcurves 1.1.7 (Python), with a time: where everybody above a threshold has the event before that time, the
# Kaplan-Meier risk of these is 1, but nobody is left to ask: true positives and net benefit are NaN.
#
# Seen: 30 of 200 patients with risk .9, who all die on day 1: at 50 %, by day 5, net benefit is NaN; it is .15, the
# most there can be.
# Why it matters: the figure ends where the model is at its best, and two models are compared only where neither is
# perfect.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check dcurves==1.1.7 lifelines==0.30.3 statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import dcurves
import numpy as np
import pandas as pd

data = pd.DataFrame({'days': [1] * 30 + [8] * 170, 'death': [1] * 30 + [0] * 170, 'risk': [0.9] * 30 + [0.1] * 170})
asked = {'outcome': 'death', 'modelnames': ['risk'], 'thresholds': [0.05, 0.5]}
at_five = dcurves.dca(data=data, time=5, time_to_outcome_col='days', **asked)
binary = dcurves.dca(data=data, **asked)  # nobody is censored before day 5: the same question
found, same = (each[each.model == 'risk'].net_benefit.to_numpy() for each in (at_five, binary))
print(f'by day 5 {found}, without time {same}')
assert np.isclose(found[0], same[0]) and np.isnan(found[1]) and np.isclose(same[1], 0.15)
PY

#!/usr/bin/env bash
# statsmodels 0.15.0: SurvfuncRight and survdiff add up the status as it is: code 2 (death of another cause, or R's code
# of a death) is two deaths of one patient. PHReg of the same library takes every code but 1 for censored.
#
# Seen: five patients with status 1, 2, 0, 1, 0: the curve goes .8, .4, .2 where one death each gives .8, .6, .3. With
# all codes doubled survdiff has chi squared .393 for .145. lifelines 0.30.3 takes every code but 0 for one event.
# Why it matters: three functions read one column in three ways, and none refuses it. Make the status 0 and 1 before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check statsmodels==0.15.0 lifelines==0.30.3 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from lifelines import KaplanMeierFitter
from statsmodels.api import PHReg
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

time, status = np.arange(1.0, 6), np.array([1, 2, 0, 1, 0])
ours, once = (SurvfuncRight(time, each).surv_prob for each in (status, (status > 0).astype(int)))
theirs = KaplanMeierFitter().fit(time, status).survival_function_.iloc[[1, 2, 4], 0].to_numpy()
group, deaths = np.repeat([0, 1], 5), np.tile(status > 0, 2).astype(int)
tests = [survdiff(np.r_[time, time + 1], factor * deaths, group)[0] for factor in (1, 2)]
x, t, codes = np.random.default_rng(0).normal(size=40), np.arange(1.0, 41), np.tile(status[:4], 10)
readings = (codes, (codes == 1).astype(int), (codes > 0).astype(int))
cox = [PHReg(t, x[:, None], status=each).fit().params[0] for each in readings]
print(f'codes {ours}, events {once}, lifelines {theirs}; survdiff {np.round(tests, 3)}; PHReg {np.round(cox, 3)}')
assert np.allclose(ours, [0.8, 0.4, 0.2]) and np.allclose(once, [0.8, 0.6, 0.3]) and np.allclose(theirs, once)
assert tests[1] > 2 * tests[0] and np.isclose(cox[0], cox[1]) and not np.isclose(cox[0], cox[2])
PY

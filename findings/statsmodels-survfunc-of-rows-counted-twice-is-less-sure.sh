#!/usr/bin/env bash
# statsmodels 0.15.0: SurvfuncRight with freq_weights computes its standard errors wrongly. Where every row counts twice
# they are not those of the rows written twice, and can be larger than without weights.
#
# Seen: five rows, last step: standard error .239; with freq_weights of 2 it is .420, of the same rows written twice
# .169. With weights of .2 it is 1.33, of a probability. The curve itself is right each time.
# Why it matters: the documentation calls them frequency weights and says nothing of errors; CumIncidenceRight gives
# none with weights.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from statsmodels.duration.survfunc import SurvfuncRight

time, status = np.arange(1.0, 6), np.array([1, 1, 0, 1, 0])
plain = SurvfuncRight(time, status)
twice = SurvfuncRight(np.repeat(time, 2), np.repeat(status, 2))
counted, parts = (SurvfuncRight(time, status, freq_weights=np.full(5, weight)) for weight in (2.0, 0.2))
print(*(f'{each.surv_prob[-1]:.2f} +- {each.surv_prob_se[-1]:.3f}' for each in (plain, counted, twice, parts)))
assert all(np.allclose(each.surv_prob, plain.surv_prob) for each in (twice, counted, parts))
assert twice.surv_prob_se[-1] < plain.surv_prob_se[-1] < counted.surv_prob_se[-1] and parts.surv_prob_se[-1] > 1
PY

#!/usr/bin/env bash
# statsmodels 0.14.5: nonparametric.lowess reweighs residuals three times unless told otherwise (it=3). Of a rare outcome
# every event is then an outlier, and the smoothed calibration curve is 0 everywhere.
#
# Seen: 5,000 rows, 3 % events, risks that are exactly right: the curve is 0.0 from end to end and the integrated
# calibration index .028, nearly the prevalence; with it=0, as R's val.prob of rms smooths, it is .004.
# Why it matters: the usual recipe makes a good model for a rare outcome look useless, without a warning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check statsmodels==0.14.5 numpy==2.2.6 scipy==1.15.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from statsmodels.nonparametric.smoothers_lowess import lowess

rng = np.random.default_rng(2)
risks = 1 / (1 + np.exp(-(rng.normal(size=5000) - 4)))
events = (rng.random(5000) < risks).astype(float)
usual, plain = (lowess(events, risks, it=times, return_sorted=False) for times in (3, 0))
index = [float(np.abs(curve - risks).mean()) for curve in (usual, plain)]
print(f'events {events.mean():.4f}; usual curve {usual.min()} to {usual.max()}, index {index[0]:.4f}; it=0 {index[1]:.4f}')
assert usual.max() == 0 and index[0] > 5 * index[1]
PY

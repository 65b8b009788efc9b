#!/usr/bin/env bash
# scikit-survival 0.28.0: cumulative_dynamic_auc needs a censoring weight of every event, also of those after the
# horizon, which do not count there. Where follow-up ends for all on one day, with an event on that day, G is 0 there,
# and every horizon is refused.
#
# Seen: rossi (lifelines 0.30.3, 432 men, all left after 52 weeks): ValueError "censoring survival function is zero" at
# weeks 20 and 45; with the arrests of week 52 taken for censored, AUC .613 at week 45. By the papers' G(T-) no such
# weight is 0.
# Why it matters: administrative censoring is the rule. Who cuts the data until it runs drops the last events, and
# changes every weight.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check lifelines==0.30.3 scikit-survival==0.28.0 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from lifelines.datasets import load_rossi
from sksurv.metrics import cumulative_dynamic_auc
from sksurv.util import Surv

data = load_rossi()
refused = []
outcome = Surv.from_arrays(data.arrest.astype(bool), data.week)
for week in (20, 45):
    try:
        cumulative_dynamic_auc(outcome, outcome, data.prio, [week])
    except ValueError as error:
        refused.append(str(error))
cut = Surv.from_arrays(data.arrest.astype(bool) & (data.week < 52), data.week)
auc = cumulative_dynamic_auc(cut, cut, data.prio, [45])[0][0]
print(f'{refused}; without the arrests of week 52 {auc:.3f}')
assert len(refused) == 2 and all('survival function is zero' in each for each in refused) and 0.6 < auc < 0.62
PY

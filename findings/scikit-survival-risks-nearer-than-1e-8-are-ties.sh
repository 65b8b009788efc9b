#!/usr/bin/env bash
# scikit-survival 0.28.0: concordance_index_censored and cumulative_dynamic_auc take scores for equal that are 1e-8 or
# less apart (tied_tol), however small all of them are.
#
# Seen: the same ranking times 1e-9: concordance and AUC are .5, of a model whose scores, times 1, give .79 and .86.
# Why it matters: hazards per hour, densities and risks of rare events are of that size. lifelines and scikit-learn rank
# them. The result is a useless model, not an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check lifelines==0.30.3 scikit-survival==0.28.0 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from lifelines.utils import concordance_index
from sksurv.metrics import concordance_index_censored, cumulative_dynamic_auc
from sksurv.util import Surv

generator = np.random.default_rng(0)
scores = generator.random(400)
death, censored = np.ceil(generator.exponential(10 * np.exp(-3 * scores))), np.ceil(generator.uniform(1, 30, 400))
outcome = Surv.from_arrays(death <= censored, np.minimum(death, censored))
for by in (1.0, 1e-9):
    index = concordance_index_censored(outcome['event'], outcome['time'], by * scores)[0]
    auc = cumulative_dynamic_auc(outcome, outcome, by * scores, [5])[0][0]
    other = concordance_index(outcome['time'], -by * scores, outcome['event'])
    print(f'times {by:g}: concordance {index:.3f}, AUC {auc:.3f}; lifelines {other:.3f}')
    assert (index > 0.65 and auc > 0.65) if by == 1 else index == auc == 0.5 < other - 0.15
PY

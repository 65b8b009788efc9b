#!/usr/bin/env bash
# scikit-survival 0.28.0: Surv.from_arrays takes the texts "0" and "1" for events both, since any text is true. Words
# such as "yes" and "no" are refused, and so are the numbers 1 and 2.
#
# Seen: events "0", "1", "0" with times 1, 2, 3: three events, no censoring; with the numbers 0, 1, 0 one.
# Why it matters: CSV files with one odd entry in a column, or read with dtype=str, are text. Nobody is censored, and
# every curve and weight is of other patients.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-survival==0.28.0 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from sksurv.nonparametric import kaplan_meier_estimator
from sksurv.util import Surv

texts, numbers = (Surv.from_arrays(np.array(event), [1, 2, 3]) for event in (['0', '1', '0'], [0, 1, 0]))
curves = [kaplan_meier_estimator(each['event'], each['time'])[1].round(2).tolist() for each in (texts, numbers)]
print(f'text {texts["event"]}, curve {curves[0]}; numbers {numbers["event"]}, curve {curves[1]}')
assert texts['event'].all() and numbers['event'].sum() == 1 and curves[0][-1] == 0 and curves[1][-1] == 0.5
PY

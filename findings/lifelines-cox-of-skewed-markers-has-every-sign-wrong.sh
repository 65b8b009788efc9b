#!/usr/bin/env bash
# lifelines 0.30.3: CoxPHFitter diverges on scikit-survival's own flchain data with three covariates, and returns a
# model with all signs turned round; a ConvergenceWarning is all. statsmodels 0.15.0 PHReg returns NaN. scikit-survival
# 0.28.0 (and R's coxph) converge.
#
# Seen: age, kappa and lambda: coefficients -.19, -1.07, -2.49 for .104, .080, .181; concordance .22 for .79.
# Why it matters: the model is used, and its AUC of .2 is taken for wrong labels. Its steps are too long for skewed
# laboratory values; fit_options={"step_size": .5} helps, standardising does not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check lifelines==0.30.3 statsmodels==0.15.0 scikit-survival==0.28.0 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import pandas as pd
from lifelines import CoxPHFitter
from sksurv.datasets import load_flchain
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.util import Surv
from statsmodels.api import PHReg

rows, outcome = load_flchain()
columns = ['age', 'kappa', 'lambda']
data = rows[columns].astype(float).assign(days=outcome['futime'], death=outcome['death'])
data = data[data.days > 0]
fitted = CoxPHFitter().fit(data, 'days', 'death')
right = CoxPHSurvivalAnalysis().fit(data[columns], Surv.from_arrays(data.death, data.days))
other = PHReg(data.days, data[columns], status=data.death.astype(int)).fit().params
print(f'lifelines {fitted.params_.round(3).tolist()}, concordance {fitted.concordance_index_:.2f}')
print(f'scikit-survival {right.coef_.round(3)}, statsmodels {other}')
assert (fitted.params_ < 0).all() and fitted.concordance_index_ < 0.3 and np.isnan(other).all()
assert (right.coef_ > 0.05).all()
PY

#!/usr/bin/env bash
# statsmodels 0.15.0: a formula makes two columns of an outcome of True and False, or of text, the first of which is
# False. GLM with the family Binomial takes two columns for successes and failures: it predicts False, and every sign is
# turned round. Without a formula, or with 0 and 1, it predicts True; logit and probit refuse the outcome.
#
# Seen: 2,000 rows: the calibration slope of "died ~ log_odds" is .91 of 0 and 1, -.91 of True and False, and -.91 of
# "yes" and "no". No warning.
# Why it matters: the model is recalibrated upside down as soon as a column of 0 and 1 is read as boolean, as Parquet
# and databases have it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check statsmodels==0.15.0 patsy==1.0.3 \
  pandas==2.3.3 numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" -W error::UserWarning - <<'PY'
import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

rng = np.random.default_rng(1)
log_odds = rng.normal(-1, 1.5, 2000)
died = rng.random(2000) < 1 / (1 + np.exp(-log_odds))
outcomes = {"0 and 1": died.astype(int), "True and False": died, "text": np.where(died, "yes", "no")}
slope = {}
for name, outcome in outcomes.items():
    table = pd.DataFrame({"died": outcome, "log_odds": log_odds})
    slope[name] = float(smf.glm("died ~ log_odds", table, family=sm.families.Binomial()).fit().params["log_odds"])
arrays = sm.GLM(died, sm.add_constant(log_odds), family=sm.families.Binomial()).fit().params[1]
print({name: round(found, 3) for name, found in slope.items()}, f"True and False without a formula: {arrays:.3f}")
assert 0.9 < slope["0 and 1"] < 1.1 and np.isclose(arrays, slope["0 and 1"])
assert np.isclose(slope["True and False"], -arrays) and np.isclose(slope["text"], -arrays)
PY

#!/usr/bin/env bash
# dcurves 1.1.7 (Python): patients whose prediction is missing stay in the denominator, and are below every threshold.
# No warning.
#
# Seen: 500 patients, 100 of them without a prediction: net benefit .066 at 10 % instead of .082 among the 400; "treat
# all" is of all 500.
# Why it matters: models with different missing rows are compared on one figure. The one that is missing more often
# loses, whatever its predictions.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check dcurves==1.1.7 lifelines==0.30.3 statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import dcurves
import numpy as np
import pandas as pd

generator = np.random.default_rng(0)
data = pd.DataFrame({'risk': generator.beta(1, 6, 500)})
data['event'] = (generator.random(500) < data.risk).astype(int)
data.loc[:99, 'risk'] = np.nan
found, some = (
    dcurves.dca(data=each, outcome='event', modelnames=['risk'], thresholds=[0.1]).set_index('model')
    for each in (data, data.dropna())
)
known = data.dropna()
above = known.risk >= 0.1
own = [(above & (known.event == 1)).sum() / rows - (above & (known.event == 0)).sum() / rows / 9 for rows in (500, 400)]
print(f'of all {found.n["risk"]} rows {found.net_benefit["risk"]:.4f}, of those known {some.net_benefit["risk"]:.4f}')
assert np.allclose([found.net_benefit['risk'], some.net_benefit['risk']], own) and own[1] > 1.2 * own[0]
assert found.n['risk'] == 500
PY

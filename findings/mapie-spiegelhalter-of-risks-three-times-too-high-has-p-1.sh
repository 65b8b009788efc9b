#!/usr/bin/env bash
# mapie 1.6.0: spiegelhalter_p_value is the probability of a larger statistic alone. Risks of a rare outcome that are
# too high have a statistic far below 0, and a p-value of 1. Spiegelhalter's z is one for both sides.
#
# Seen: 5,000 rows whose risks are right: z -.77, p .78. Three times too high: z -11.8, p 1.0, where both sides have
# 3e-32. A third of them: z 20.8, p 0.
# Why it matters: the worst overestimate looks like perfect calibration, and the better of two such models has the
# smaller p.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check mapie==1.6.0 scikit-learn==1.9.1 \
  numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from mapie.metrics.calibration import spiegelhalter_p_value, spiegelhalter_statistic
from scipy.stats import norm

rng = np.random.default_rng(1)
risks = 1 / (1 + np.exp(3 - rng.normal(size=5000)))
died = (rng.random(5000) < risks).astype(int)
found = {}
for name, given in {"right": risks, "too high": np.minimum(3 * risks, 0.999), "too low": risks / 3}.items():
    z = spiegelhalter_statistic(died, given)
    expected = ((died - given) * (1 - 2 * given)).sum() / np.sqrt(((1 - 2 * given) ** 2 * given * (1 - given)).sum())
    found[name] = float(z), float(spiegelhalter_p_value(died, given)), float(2 * norm.sf(abs(z)))
    print("%s: z %.2f, p %.3g, of both sides %.2g" % (name, *found[name]))
    assert np.isclose(z, expected)
assert found["too high"][0] < -10 and found["too high"][1] > 0.999 and found["too low"][1] < 1e-9
PY

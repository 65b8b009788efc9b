#!/usr/bin/env bash
# statsmodels 0.14.5: combine_effects(..., method_re='dl') does not cut DerSimonian and Laird's tau² at 0. Where sites are
# more alike than chance makes them, tau² and I² are negative, and the random-effects interval is far narrower than the
# fixed-effect one. The default method, 'iterated', does cut tau², but gives the same negative I².
#
# Seen: five effects of about .1, each with standard error .1: tau² -.00998, I² -499, random-effects standard error .002
# where the fixed-effect one is .045.
# Why it matters: a small study of alike hospitals gets an interval twenty times too narrow.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check statsmodels==0.14.5 numpy==2.2.6 scipy==1.15.3 pandas==2.2.3
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from statsmodels.stats.meta_analysis import combine_effects

found = combine_effects(np.array([0.1, 0.11, 0.1, 0.105, 0.1]), np.full(5, 0.01), method_re='dl')
print(f'tau2 {found.tau2:.5f}, I2 {found.i2:.0f}, SE random {found.sd_eff_w_re:.4f}, fixed {found.sd_eff_w_fe:.4f}')
assert found.tau2 < 0 and found.i2 < -400 and found.sd_eff_w_re < found.sd_eff_w_fe / 20
PY

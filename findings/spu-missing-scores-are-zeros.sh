#!/usr/bin/env bash
# spu 0.9.5 (SecretFlow): a missing score (NaN) that enters a computation is 0 there. isnan says no, and nanmean counts
# it. In the same program outside SPU JAX leaves it out.
#
# Seen: nanmean of NaN, 1 and 3: 1.333, where JAX alone says 2. isnan of NaN: False. Infinity is 17,592,186,044,416.
# Why it matters: rows without a prediction become the surest negatives, and raise or lower an AUC without a trace. Each
# party has to drop them before it shares its rows.
# Needs Python 3.10 or 3.11, as its wheels do; it looks for one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fits='import sys; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))'
for python in "${PYTHON:-python3}" python3.11 python3.10 ~/.pyenv/versions/3.1[01].*/bin/python; do
  "$python" -c "$fits" 2>/dev/null && break
done
"$python" -c "$fits" 2>/dev/null || { echo "No Python 3.10 or 3.11 here: PYTHON=... says where one is." >&2; exit 1; }
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check spu==0.9.5 numpy==1.26.4 jax==0.4.34 jaxlib==0.4.34
"$folder/venv/bin/python" - <<'PY'
import jax.numpy as jnp
import numpy as np
import spu
import spu.utils.simulation as simulation

scores = np.float32([np.nan, 1, 3])
parties = simulation.Simulator.simple(3, spu.ProtocolKind.ABY3, spu.FieldType.FM64)
clear = float(jnp.nanmean(scores))
shared = float(simulation.sim_jax(parties, lambda x: jnp.nanmean(x))(scores))
missing = [bool(each) for each in simulation.sim_jax(parties, lambda x: jnp.isnan(x))(scores)]
back = simulation.sim_jax(parties, lambda x: x)(np.float32([np.nan, np.inf]))
print(f"nanmean of NaN, 1, 3: in the clear {clear}, in SPU {shared:.3f}; isnan {missing}")
print("NaN and inf are", back.tolist())
assert clear == 2.0 and round(shared, 3) == 1.333
assert missing == [False, False, False] and back[0] == 0 and np.isfinite(back[1])
PY

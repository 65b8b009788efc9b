#!/usr/bin/env bash
# dp-accounting 0.6.0: at delta 0 PLDAccountant says inf for Laplace noise, whose epsilon is 1/scale by definition: its
# curve is made on a grid and its ends are cut at 1e-15. Discrete Laplace noise has the right epsilon at first, and inf
# once it is composed often enough.
#
# Seen: one Laplace release of epsilon 1: inf at delta 0, 1.0 at delta 1e-12. Discrete noise of epsilon 0.1: once 0.1,
# four times 0.4, ten times inf. RdpAccountant does not know discrete Laplace noise.
# Why it matters: a ledger of pure releases that asks for their sum is told that the budget is used up. Pure epsilons
# are best added up beside it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check dp-accounting==0.6.0 numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" - <<'PY'
from math import inf, isclose

from dp_accounting.dp_event import DiscreteLaplaceDpEvent, LaplaceDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant


def epsilon(event, times, delta):
    return float(PLDAccountant().compose(event, times).get_epsilon(delta))


laplace, discrete = LaplaceDpEvent(noise_multiplier=1.0), DiscreteLaplaceDpEvent(noise_parameter=0.1, sensitivity=1)
pure, nearly = epsilon(laplace, 1, 0), epsilon(laplace, 1, 1e-12)
sums = {times: epsilon(discrete, times, 0) for times in (1, 4, 10)}
print(f"Laplace, epsilon 1: {pure}, at delta 1e-12 {nearly}; discrete, epsilon 0.1, times: {sums}")
assert pure == inf and isclose(nearly, 1, rel_tol=1e-9)
assert isclose(sums[1], 0.1, rel_tol=1e-9) and isclose(sums[4], 0.4, rel_tol=1e-9) and sums[10] == inf
assert isclose(epsilon(discrete, 10, 1e-12), 1, rel_tol=1e-6) and not RdpAccountant().supports(discrete)
PY

#!/bin/sh
# Makes the test rows of three hospitals (made up, from a seed), then evaluates them from one file each, and from one
# file with a column that names the hospital. The programs are taken from .venv if it is there, else from PATH.
set -eu
bin=$(cd "$(dirname "$0")/.." && pwd)/.venv/bin
[ -d "$bin" ] && PATH=$bin:$PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python - <<'PYTHON'
import numpy as np

random = np.random.default_rng(7)
with open("all.csv", "w") as pooled:
    pooled.write("hospital,outcome,risk\n")
    for hospital, rows in (("north", 400), ("south", 250), ("west", 90)):
        outcome = random.integers(0, 2, rows)
        risk = np.clip(random.normal(0.4 + 0.2 * outcome, 0.2), 0, 1)
        with open(f"{hospital}.csv", "w") as own:
            own.write("y_true,y_score\n")
            for y, score in zip(outcome, risk):
                own.write(f"{y},{score:.6f}\n")
                pooled.write(f"{hospital},{y},{score:.6f}\n")
PYTHON

echo '$ fhe-auc evaluate north.csv south.csv west.csv'
fhe-auc evaluate north.csv south.csv west.csv

echo
echo '$ fhe-auc evaluate all.csv --site-column hospital --label-column outcome --score-column risk --json'
fhe-auc evaluate all.csv --site-column hospital --label-column outcome --score-column risk --json

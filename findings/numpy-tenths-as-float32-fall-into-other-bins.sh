#!/usr/bin/env bash
# numpy 2.4.6: histogram(scores, 10, (0, 1)) makes its edges by steps, so that the fourth is 0.30000000000000004, and
# looks float64 scores up exactly: 0.3 falls below it, 0.6 and 0.7 too. The same scores as float32 fall where they
# belong. boost-histogram 1.8.1 counts tenths right, but a score of 1 in no bin; polars 2.1.0 closes bins on the right.
#
# Seen: one row at each of 0, 0.1, ... 1: numpy 1 1 2 0 1 2 1 0 1 2 as float64, 1 1 1 1 1 1 1 1 1 2 as float32;
# boost-histogram ten times 1, of eleven rows; polars 2 1 1 1 1 1 1 1 1 1.
# Why it matters: sites that add up their histograms over ten equal bins add up different bins, if scores have one
# decimal, as points and rounded risks have. Share edges that no score has, and rows that are counted exactly.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check numpy==2.4.6 boost-histogram==1.8.1 \
  polars==2.1.0
"$folder/venv/bin/python" -W ignore - <<'PY'
import boost_histogram
import numpy as np
import polars as pl

tenths = np.arange(11) / 10
boost = boost_histogram.Histogram(boost_histogram.axis.Regular(10, 0, 1)).fill(tenths)
found = {
    "numpy float64": np.histogram(tenths, 10, (0, 1))[0].tolist(),
    "numpy float32": np.histogram(tenths.astype(np.float32), 10, (0, 1))[0].tolist(),
    "boost-histogram": boost.values().astype(int).tolist(),
    "polars": pl.Series(tenths).hist(bin_count=10)["count"].to_list(),
}
for name, counts in found.items():
    print(f"{name}: {counts}, {sum(counts)} rows")
assert found["numpy float64"] == [1, 1, 2, 0, 1, 2, 1, 0, 1, 2]
assert found["numpy float32"] == [1] * 9 + [2] and found["boost-histogram"] == [1] * 10
assert found["polars"] == [2] + [1] * 9
PY

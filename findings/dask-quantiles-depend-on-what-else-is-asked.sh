#!/usr/bin/env bash
# dask 2026.8.0: Series.quantile asks each partition for the quantiles that are asked for, and for no others, and joins
# these few numbers. So the median depends on which other quantiles one asks for at once; where partitions differ in
# size and level, it is none.
#
# Seen: two sites as two partitions, 500 and 9,500 risks: asked alone, the median has 52 % of the rows below it; asked
# together with .1, .25, .75 and .9 it has 29 %, and ".9" has 76 %. Of four even partitions 53 % and 90 %.
# Why it matters: such quantiles become edges of bins, deciles of risk and alert rates; sites are the partitions.
# Documentation says "approximate", and no bound. Ask for many quantiles, as 201, and take those wanted: 50 % and 90 %.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check dask[dataframe]==2026.8.0 \
  pandas==3.1.1 numpy==2.4.6 pyarrow==26.0.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import dask.dataframe as dd
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
risks = np.r_[rng.beta(1, 30, 500), rng.beta(2, 8, 9500)]


def partitions(*ends):
    return dd.concat([dd.from_pandas(pd.Series(part), npartitions=1) for part in np.split(risks, ends)])


def below(series, *asked):
    return [round(float((risks <= value).mean()), 2) for value in series.quantile(list(asked)).compute()]


sites, five = partitions(500), (0.1, 0.25, 0.5, 0.75, 0.9)
alone, together, even = below(sites, 0.5), below(sites, *five), below(partitions(2500, 5000, 7500), *five)
many = below(sites, *np.linspace(0, 1, 201))
print(f"rows below the median: alone {alone}; those below {five}: {together}, of even partitions {even}")
print(f"of 201 quantiles: {many[100]} and {many[180]}")
assert abs(alone[0] - 0.5) < 0.05 and abs(many[100] - 0.5) < 0.02 and abs(many[180] - 0.9) < 0.02
assert together[2] < 0.35 and together[4] < 0.8 and abs(even[4] - 0.9) < 0.02
PY

#!/usr/bin/env bash
# polars 2.1.0: sums within groups of Int8, UInt8, Int16 and UInt16 are Int64, those of Int32 stay Int32 and wrap round,
# without a warning. So do Series.sum and sum_horizontal.
#
# Seen: 1,000 weights of 3,000,000 millionths: their sum is 3e9 as Int64, and -1,294,967,296 as Int32; 300 UInt8 ones
# are 300.
# Why it matters: weights as whole units fit into Int32, and come so from Parquet; their sums do not. The larger of two
# types is the one that fails.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0
"$folder/venv/bin/python" -W ignore - <<'PY'
import polars

units = [3_000_000] * 1000
sums = {}
for kind in (polars.Int32, polars.Int64):
    table = polars.DataFrame({'site': ['north'] * 1000, 'units': polars.Series(units, dtype=kind)})
    sums[kind] = table['units'].sum(), table.group_by('site').agg(polars.col('units').sum())['units'][0]
small = polars.Series([1] * 300, dtype=polars.UInt8).sum()
print(f'Int32 {sums[polars.Int32]}, Int64 {sums[polars.Int64]}, UInt8 {small}')
assert sums[polars.Int32] == (-1_294_967_296,) * 2 and sums[polars.Int64] == (3_000_000_000,) * 2 and small == 300
PY

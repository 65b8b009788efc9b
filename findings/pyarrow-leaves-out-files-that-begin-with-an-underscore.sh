#!/usr/bin/env bash
# pyarrow 26.0.1: read_table of a folder leaves out files whose names begin with "_" or ".", as logs of Spark do,
# without a warning. polars 2.1.0 reads those with "_".
#
# Seen: a folder with south.parquet and _north.parquet, 2 rows each: 2 rows by pyarrow, 4 by polars.
# Why it matters: a site that put its name between underscores is not counted, and two tools disagree about n.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 polars==2.1.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
from pathlib import Path

import polars
import pyarrow as pa
from pyarrow import parquet

Path('sites').mkdir()
for site in ('south', '_north'):
    parquet.write_table(pa.table({'label': [0, 1]}), f'sites/{site}.parquet')
by_arrow, by_polars = parquet.read_table('sites').num_rows, len(polars.read_parquet('sites/'))
print(f'pyarrow {by_arrow} rows, polars {by_polars}')
assert (by_arrow, by_polars) == (2, 4)
PY

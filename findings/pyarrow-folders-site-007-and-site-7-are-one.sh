#!/usr/bin/env bash
# pyarrow 26.0.1 and polars 2.1.0: of a folder of Parquet files in folders "site=007" and "site=7", as Spark and Hive
# write them, the names' values are read as numbers. DuckDB 2.0.1 keeps text.
#
# Seen: 2 rows of each site: 4 rows of site 7 by both; by DuckDB two rows of '007' and two of '7'.
# Why it matters: two sites, or patients, become one, without a warning, though each has a folder of its own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 polars==2.1.0 duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
from pyarrow import parquet

for site in ('007', '7'):
    Path(f'rows/site={site}').mkdir(parents=True)
    parquet.write_table(pa.table({'label': [0, 1]}), f'rows/site={site}/part-0.parquet')
by_arrow = parquet.read_table('rows')['site'].to_pylist()
by_polars = polars.read_parquet('rows/')['site'].to_list()
rows = duckdb.sql("select site from read_parquet('rows/**/*.parquet') order by site").fetchall()
by_duckdb = [site for (site,) in rows]
print(f'pyarrow {by_arrow}; polars {by_polars}; DuckDB {by_duckdb}')
assert by_arrow == by_polars == [7] * 4 and by_duckdb == ['007', '007', '7', '7']
PY

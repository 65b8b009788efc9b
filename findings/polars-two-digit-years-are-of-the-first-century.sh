#!/usr/bin/env bash
# polars 2.1.0: read_csv(..., try_parse_dates=True) takes years of two digits as they stand: 03-04-24 is 3 April of the
# year 24. DuckDB 2.0.1 and pandas 3.1.1 have 1998 for 98 and 2024 for 24 (and of a file with 03-04-24 alone DuckDB
# takes the 3 for the year: 24 April 2003). Nobody warns.
#
# Seen: a patient enrolled on 05-06-98 who died on 03-04-24: after 25.8 years by the two others, 74 years before by
# polars. One enrolled in 2022: 1.8 years by all three.
# Why it matters: times within a century are right, so that few rows give it away; the others are negative, or are
# dropped as such. Two sites with two readers have other follow-up times.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check polars==2.1.0 duckdb==2.0.1 \
  pandas==3.1.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl

Path("dates.csv").write_text("enrolled,died\n05-06-98,03-04-24\n05-06-22,03-04-24\n")
Path("one.csv").write_text("died\n03-04-24\n")
found = {
    "polars": pl.read_csv("dates.csv", try_parse_dates=True).rows(),
    "DuckDB": duckdb.sql("from 'dates.csv'").fetchall(),
    "pandas": pd.read_csv("dates.csv").apply(pd.to_datetime).itertuples(index=False),
}
years = {name: [round((died - enrolled).days / 365.25, 1) for enrolled, died in rows] for name, rows in found.items()}
alone = str(duckdb.sql("from 'one.csv'").fetchall()[0][0])
print(f"years {years}; polars' year {found['polars'][0][1].year}; alone by DuckDB {alone}")
assert years == {"polars": [-74.2, 1.8], "DuckDB": [25.8, 1.8], "pandas": [25.8, 1.8]}
assert found["polars"][0][1].year == 24 and alone == "2003-04-24"
PY

#!/usr/bin/env bash
# duckdb 2.0.1: the order of day and month is found for each CSV file by itself. A file with a day above 12 is read as
# it is written; of one without, the first number is the day, also where the site writes the month first. pandas 3.1.1
# takes that file's first number for the month. No warning from either.
#
# Seen: 03/04/2024 in a file beside 06/25/2024: 4 March by DuckDB; beside 05/06/2024 from the same hospital: 3 April by
# DuckDB, 4 March by pandas.
# Why it matters: a small site, or one month's file, has dates that are off by months, and follow-up times and horizons
# with them. Give dateformat=, or have sites write ISO dates.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check duckdb==2.0.1 pandas==3.1.1 \
  numpy==2.4.6 2>/dev/null
cd "$folder"
"$folder/venv/bin/python" -W error - <<'PY'
from pathlib import Path

import duckdb
import pandas as pd

Path("large.csv").write_text("patient,died\n1,03/04/2024\n2,06/25/2024\n")
Path("small.csv").write_text("patient,died\n1,03/04/2024\n2,05/06/2024\n")
found = {}
for name in ("large", "small"):
    died = duckdb.sql(f"select died from '{name}.csv' where patient = 1").fetchall()[0][0]
    found[name] = str(died), str(pd.to_datetime(pd.read_csv(f"{name}.csv").died)[0].date())
    print(f"{name}: 03/04/2024 is {found[name][0]} by DuckDB, {found[name][1]} by pandas")
assert found == {"large": ("2024-03-04", "2024-03-04"), "small": ("2024-04-03", "2024-03-04")}
PY

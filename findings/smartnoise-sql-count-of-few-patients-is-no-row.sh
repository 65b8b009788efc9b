#!/usr/bin/env bash
# smartnoise-sql 1.0.10: censor_dims, on by default, hides groups whose noisy count is low. It also censors a query
# without GROUP BY: the count of all who died comes back as a table without a row. Epsilon is spent all the same. And a
# query that does not ask for COUNT(*) costs epsilon once more, for a count of rows that nobody sees.
#
# Seen: of 5,000 patients 20 died. COUNT(*) of these at epsilon 0.1: no row in 30 of 30 queries, each for 0.1; with
# censor_dims=False a count. At epsilon 1, SUM(died) costs 2, COUNT(died) 2, COUNT(*) 1, by get_privacy_cost too.
# Why it matters: the number of positives is the first thing a private curve needs, and it is low at small sites. Code
# that takes the first row fails, and code that sums over rows has 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check smartnoise-sql==1.0.10 opendp==0.14.2 numpy==2.4.6 \
  pandas==2.3.3 SQLAlchemy==2.1.9
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import pandas as pd
from snsql import Privacy, from_df

patients = pd.DataFrame({"died": (np.arange(5000) < 20).astype(int)})


def asked(what, epsilon, censored=True):
    died = {"type": "int", "lower": 0, "upper": 1}
    metadata = {"": {"t": {"t": {"row_privacy": True, "rows": 5000, "censor_dims": censored, "died": died}}}}
    reader = from_df(patients, privacy=Privacy(epsilon=epsilon, delta=1e-5), metadata=metadata)
    query = f"SELECT {what}"
    cost = reader.get_privacy_cost(query)[0]
    rows = reader.execute(query)[1:]
    assert abs(reader.odometer.spent[0] - cost) < 1e-9
    return len(rows), round(float(cost), 3)


deaths = "COUNT(*) AS n FROM t.t WHERE died = 1"
found = {asked(deaths, 0.1) for _ in range(30)}
shown = {asked(deaths, 0.1, censored=False) for _ in range(10)}
whole, column, added = (asked(f"{what} AS n FROM t.t", 1)[1] for what in ("COUNT(*)", "COUNT(died)", "SUM(died)"))
print(f"rows, cost of a count of 20: {found}, uncensored {shown}; COUNT(*) {whole}, COUNT(died) {column}, SUM {added}")
assert found == {(0, 0.1)} and shown == {(1, 0.1)} and (whole, column, added) == (1, 2, 2)
PY

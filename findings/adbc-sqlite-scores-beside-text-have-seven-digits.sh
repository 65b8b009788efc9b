#!/usr/bin/env bash
# adbc-driver-sqlite 1.13.0: SQLite lets a column hold numbers and text. The driver takes the first rows' type for all;
# if text is among them, the numbers come as text of seven significant digits, without a warning.
#
# Seen: 2,000 scores of a network that is too sure of itself, and one "not done": AUC 0.797 as stored, 0.645 as read.
# Why it matters: scores that differ in the eighth digit become ties. Ask for the stored value, by Python's sqlite3.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check adbc-driver-manager==1.13.0 adbc-driver-sqlite==1.13.0 pyarrow==26.0.1 numpy==2.2.6 scipy==1.15.3 scikit-learn==1.7.2
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import sqlite3

import numpy as np
from adbc_driver_sqlite import dbapi
from sklearn.metrics import roc_auc_score

rng = np.random.default_rng(3)
labels = (rng.random(2000) < 0.3).astype(int)
scores = 1 / (1 + np.exp(-rng.normal(17.5 + 1.2 * labels)))
database = sqlite3.connect('scores.sqlite')
database.execute('create table result(label integer, score)')
database.execute("insert into result values (0, 'not done')")
database.executemany('insert into result values (?, ?)', zip(labels.tolist(), scores.tolist()))
database.commit()
query = 'select label, score from result order by rowid'
with dbapi.connect('scores.sqlite') as connection, connection.cursor() as cursor:
    cursor.execute(query)
    table = cursor.fetch_arrow_table()
read = np.array([float(score) for score in table['score'].to_pylist()[1:]])
stored = np.array([score for _, score in database.execute(query).fetchall()[1:]])
expected, seen = roc_auc_score(labels, stored), roc_auc_score(labels, read)
print(f'stored {float(stored[0])}, read {table["score"][1]}; AUC {expected:.3f} as stored, {seen:.3f} as read')
assert (stored == scores).all() and table['score'].type == 'string' and expected - seen > 0.05
PY

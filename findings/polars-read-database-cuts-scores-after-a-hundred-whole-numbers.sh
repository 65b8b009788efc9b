#!/usr/bin/env bash
# polars 2.1.0: read_database takes a column's type from its first 100 rows. Where these are whole numbers, all later
# numbers lose their fraction, without a warning; 99 whole numbers do no harm.
#
# Seen: 100 rows of 0 and 1, then 0.75, 0.25 and 0.5: 0, 0 and 0.
# Why it matters: a table sorted by a score that is 0 or 1 at the ends, or a score in points that has halves, is cut.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0
"$folder/venv/bin/python" - <<'PY'
import sqlite3

import polars

database = sqlite3.connect(':memory:')
database.execute('create table result (score)')
rows = [(index % 2,) for index in range(100)] + [(0.75,), (0.25,), (0.5,)]
database.executemany('insert into result values (?)', rows)
cut = polars.read_database('select score from result order by rowid', database)['score']
whole = polars.read_database('select score from result order by rowid limit -1 offset 1', database)['score']
print(f'after 100 whole numbers {cut[-3:].to_list()}; after 99 {whole[-3:].to_list()}')
assert cut[-3:].to_list() == [0, 0, 0] and whole[-3:].to_list() == [0.75, 0.25, 0.5]
PY

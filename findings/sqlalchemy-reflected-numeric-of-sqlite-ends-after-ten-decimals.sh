#!/usr/bin/env bash
# SQLAlchemy 2.1.9: a column that its reflection finds as NUMERIC in SQLite comes as Decimals of ten decimals. A smaller
# risk is 0. Nothing warns where the column is declared and reflected so; the same query as text gives all digits.
#
# Seen: p-values of 1e-12, 4e-11 and 3e-9: 0E-10, 0E-10 and 3.0E-9; 0.123456789012345 ends as 0.1234567890.
# Why it matters: the smallest risks or p-values, where a ranking of rare variants is decided, become ties.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check sqlalchemy==2.1.9
"$folder/venv/bin/python" - <<'PY'
import sqlalchemy

scores = [1e-12, 4e-11, 3e-9, 0.123456789012345]
with sqlalchemy.create_engine('sqlite://').begin() as connection:
    connection.exec_driver_sql('create table result (score numeric)')
    connection.exec_driver_sql('insert into result values (?)', [(score,) for score in scores])
    result = sqlalchemy.Table('result', sqlalchemy.MetaData(), autoload_with=connection)
    reflected = [float(score) for score in connection.execute(sqlalchemy.select(result.c.score)).scalars()]
    stored = connection.exec_driver_sql('select score from result').scalars().all()
print(f'stored {stored}; reflected {reflected}')
assert stored == scores and reflected == [0, 0, 3e-9, 0.123456789]
PY

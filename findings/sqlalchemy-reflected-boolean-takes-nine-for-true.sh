#!/usr/bin/env bash
# SQLAlchemy 2.1.9: a column that its reflection finds as BOOLEAN in SQLite gives True for whatever is not 0: 2, 9 and
# 'N' too. The same query as text gives what is stored.
#
# Seen: codes 0, 1, 2 (moved away), 9 (unknown) and 'N' (no): False and four times True; a rate of 0.8 where 0.2 died.
# Why it matters: codes of what is not known become events, without a warning. Read what is stored, and judge it then.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check sqlalchemy==2.1.9
"$folder/venv/bin/python" - <<'PY'
import sqlalchemy

with sqlalchemy.create_engine('sqlite://').begin() as connection:
    connection.exec_driver_sql('create table patient (died boolean)')
    connection.exec_driver_sql("insert into patient values (0), (1), (2), (9), ('N')")
    patient = sqlalchemy.Table('patient', sqlalchemy.MetaData(), autoload_with=connection)
    reflected = connection.execute(sqlalchemy.select(patient.c.died)).scalars().all()
    stored = connection.exec_driver_sql('select died from patient').scalars().all()
print(f'stored {stored}; reflected {reflected}')
assert stored == [0, 1, 2, 9, 'N'] and reflected == [False, True, True, True, True]
PY

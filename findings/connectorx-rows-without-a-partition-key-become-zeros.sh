#!/usr/bin/env bash
# connectorx 0.4.6: read_sql in partitions counts the rows without a partition key, and does not read them. As many rows
# of zeros stand for them, without a warning.
#
# Seen: 100 patients who died, 20 of them without a number: 100 rows, 20 of which have number 0, label 0 and score 0.
# Why it matters: the number of rows is right, so that nobody looks. Invented survivors with the lowest score raise an
# AUC.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check connectorx==0.4.6 pandas==2.3.3 numpy==2.2.6
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import sqlite3
from pathlib import Path

import connectorx

database = sqlite3.connect('patients.sqlite')
database.execute('create table patient (number integer, label integer, score real)')
rows = [(number if number % 5 else None, 1, 0.7) for number in range(1, 101)]
database.executemany('insert into patient values (?, ?, ?)', rows)
database.commit()
url = f'sqlite://{Path("patients.sqlite").resolve()}'
frame = connectorx.read_sql(url, 'select * from patient', partition_on='number', partition_num=4)
zeros = (frame == 0).all(axis=1)
stored = database.execute('select count(*) from patient where label = 0').fetchone()[0]
print(f'{len(frame)} rows, {zeros.sum()} of zeros; stored with label 0: {stored}')
assert len(frame) == 100 and zeros.sum() == 20 and stored == 0
PY

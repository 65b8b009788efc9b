#!/usr/bin/env bash
# pandas 2.3.3: read_csv and read_sql make a column of whole numbers floating point where one entry is missing. Numbers
# above 2**53 then lose their last digits; without the missing one, or with dtype_backend='numpy_nullable', they keep
# them.
#
# Seen: patients 12345678901234567 and 12345678901234568 are one as soon as a third has no number, without a warning.
# Why it matters: two people's rows are joined. Of one column, some sites' numbers are exact and others' are not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pandas==2.3.3 numpy==2.2.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
import io
import sqlite3

import pandas as pd

text = 'patient,label\n12345678901234567,1\n12345678901234568,0\n'
exact = pd.read_csv(io.StringIO(text))['patient'].nunique()
usual = pd.read_csv(io.StringIO(text + ',0\n'))['patient'].nunique()
nullable = pd.read_csv(io.StringIO(text + ',0\n'), dtype_backend='numpy_nullable')['patient'].nunique()
database = sqlite3.connect(':memory:')
database.execute('create table result (patient integer)')
database.execute('insert into result values (12345678901234567), (12345678901234568), (null)')
from_database = pd.read_sql('select patient from result', database)['patient'].nunique()
print(f'patients: none missing {exact}; one missing {usual}; nullable {nullable}; from a database {from_database}')
assert (exact, usual, nullable, from_database) == (2, 1, 2, 1)
PY

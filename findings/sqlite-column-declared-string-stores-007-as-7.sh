#!/usr/bin/env bash
# SQLite 3.50.4 (apsw 3.50.4.0): a column declared "string" or "datetime", words that other databases know, is one for
# numbers: text that looks like a number is stored as that number. "text" and "varchar(9)" store text.
#
# Seen: patients '007' and '1e5' in a column of type string: 7 and 100000; of type text: '007' and '1e5'.
# Why it matters: patients 007 and 7 become one as they are written. No reader can undo it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check apsw==3.50.4.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
import apsw

database = apsw.Connection(':memory:')
database.execute('create table patient (declared_string string, declared_text text)')
for number in ('007', '1e5'):
    database.execute('insert into patient values (?, ?)', (number, number))
rows = database.execute('select * from patient').fetchall()
print(f'SQLite {apsw.sqlite_lib_version()}: string {[row[0] for row in rows]}, text {[row[1] for row in rows]}')
assert [row[0] for row in rows] == [7, 100000] and [row[1] for row in rows] == ['007', '1e5']
PY

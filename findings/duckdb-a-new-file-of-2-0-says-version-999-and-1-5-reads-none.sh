#!/usr/bin/env bash
# DuckDB 2.0.1 and 1.5.6: a database that 2.0.1 makes has format 999 in its first header, and 69 in the two others;
# 1.5.6 refuses it, and names 69. One made by 1.5.6 keeps its format, 64, when 2.0.1 writes to it, and both go on
# reading it. `attach … (storage_version 'v1.5.0')` has 2.0.1 make one that 1.5.6 reads, of format 68.
#
# Seen: "new: 999, 69, IO Error: Trying to read a database file with version number 69, but we can only read versions
# between 64 and 68."; "old, written to by 2.0.1: 64, 2 rows"; "attached: 68, 1 row".
# Why it matters: tools know a DuckDB file by its first bytes, and a format of one byte was part of ours. Who is pinned to
# 1.5 cannot read what a hospital's newer DuckDB made yesterday, though all older files go both ways.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 1.5.6 2.0.1; do
    "${PYTHON:-python3}" -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check "duckdb==$version"
done
cd "$folder"
cat >make.py <<'PY'
import sys

import duckdb

with duckdb.connect(sys.argv[1]) as database:
    for statement in sys.argv[2:]:
        database.execute(statement)
PY
1.5.6/bin/python make.py old.duckdb 'create table score as select 0.5 score'
2.0.1/bin/python make.py old.duckdb 'insert into score values (0.25)' checkpoint
2.0.1/bin/python make.py new.duckdb 'create table score as select 0.5 score'
2.0.1/bin/python make.py :memory: "attach 'attached.duckdb' as other (storage_version 'v1.5.0')" \
    'create table other.score as select 0.5 score'
1.5.6/bin/python - <<'PY'
from pathlib import Path

import duckdb


def number(name, offset):
    return int.from_bytes(Path(name).read_bytes()[offset : offset + 8], 'little')


def rows(name):
    return len(duckdb.connect(name, read_only=True).execute('select * from score').fetchall())


try:
    told = f'{rows("new.duckdb")} rows'
except duckdb.IOException as error:
    told = str(error).split('\n')[0]
first, second = number('new.duckdb', 12), number('new.duckdb', 4096 + 56)
print(f'new: {first}, {second}, {told}')
print(f'old, written to by 2.0.1: {number("old.duckdb", 12)}, {rows("old.duckdb")} rows')
print(f'attached: {number("attached.duckdb", 12)}, {rows("attached.duckdb")} row')
assert (first, second) == (999, 69) and 'version number 69' in told and 'between 64 and 68' in told
assert (number('old.duckdb', 12), rows('old.duckdb')) == (64, 2)
assert (number('attached.duckdb', 12), rows('attached.duckdb')) == (68, 1)
PY

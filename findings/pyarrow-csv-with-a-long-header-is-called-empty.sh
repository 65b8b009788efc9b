#!/usr/bin/env bash
# pyarrow 26.0.1: csv.open_csv reads blocks of 1 MiB. Of a file whose header is longer it says "Empty CSV file", though
# rows follow; csv.read_csv says the same. A larger block_size reads it.
#
# Seen: 100,000 columns of 15 characters, one row: ArrowInvalid: Empty CSV file; with block_size=2**22 one row.
# Why it matters: a program that takes this error for "no rows", as it is for a file without any, leaves a site out.
# Tables of gene expression are that wide.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
import io

import pyarrow as pa
from pyarrow import csv

names = [f'expression_{number:05}' for number in range(100_000)]
data = (','.join(names) + '\n' + ','.join(['1'] * len(names)) + '\n').encode()


def rows(reader, **options):
    try:
        made = reader(io.BytesIO(data), read_options=csv.ReadOptions(**options))
        return (made.read_all() if hasattr(made, 'read_all') else made).num_rows
    except pa.ArrowInvalid as error:
        return str(error).splitlines()[0]


opened, read, larger = rows(csv.open_csv), rows(csv.read_csv), rows(csv.open_csv, block_size=2**22)
print(f'open_csv: {opened}; read_csv: {read}; larger blocks: {larger}')
assert 'Empty CSV file' in opened and larger == 1
PY

#!/usr/bin/env bash
# fastexcel 0.21.0, and polars 2.1.0 read_excel that calls it: in a column that has one entry of text, numbers come as
# text of nine decimals, without a warning.
#
# Seen: risks of 4e-10, 1e-12 and 1/3 beside "see note": '0', '0' and '0.333333333'.
# Why it matters: the smallest risks or p-values become ties at 0. Read the cells' own types.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check fastexcel==0.21.0 polars==2.1.0 pyarrow==26.0.1 openpyxl==3.1.5
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
import fastexcel
import openpyxl
import polars

book = openpyxl.Workbook()
for score in ('score', 4e-10, 1e-12, 1 / 3, 'see note'):
    book.active.append([score])
book.save('scores.xlsx')
direct = fastexcel.read_excel('scores.xlsx').load_sheet(0).to_arrow()['score'].to_pylist()
by_polars = polars.read_excel('scores.xlsx')['score'].to_list()
print(f'fastexcel {direct}; polars {by_polars}')
assert direct == by_polars == ['0', '0', '0.333333333', 'see note']
PY

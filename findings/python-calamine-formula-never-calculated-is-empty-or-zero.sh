#!/usr/bin/env bash
# python-calamine 0.9.1, openpyxl 3.1.5, XlsxWriter 3.3.1: a workbook stores a formula and the value that Excel
# calculated last. A library that writes one has none: openpyxl leaves it out, and the cell comes as empty; XlsxWriter
# puts 0, and it comes as 0. The error #N/A comes as empty too.
#
# Seen: the score =1/4 written by the two: '' and 0.0; an empty cell, '#N/A': ''.
# Why it matters: a score that nobody calculated cannot be told from none, or from the lowest one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check python-calamine==0.9.1 openpyxl==3.1.5 xlsxwriter==3.3.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
import openpyxl
import xlsxwriter
from python_calamine import load_workbook

book = openpyxl.Workbook()
for score in ('score', '=1/4', None, '#N/A', 0.5):
    book.active.append([score, 'row'])
book.save('openpyxl.xlsx')
with xlsxwriter.Workbook('xlsxwriter.xlsx') as other:
    other.add_worksheet().write_column(0, 0, ['score', '=1/4', 0.5])


def scores(path):
    return [row[0] for row in load_workbook(path).get_sheet_by_index(0).to_python()[1:]]


first, second = scores('openpyxl.xlsx'), scores('xlsxwriter.xlsx')
print(f'openpyxl: formula, empty, #N/A, 0.5: {first}; XlsxWriter: formula, 0.5: {second}')
assert first == ['', '', '', 0.5] and second == [0, 0.5]
PY

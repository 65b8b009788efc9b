#!/usr/bin/env bash
# pandas 2.3.3: read_sas takes blanks at the end of a transport file (xpt, version 5) for the padding of its last block
# of 80 bytes, though they belong to the last row's text. The whole row is gone, its numbers too; pyreadstat 1.3.7 reads
# it.
#
# Seen: ten patients who died, the last one's note empty: 9 rows by pandas, without a warning, 10 by pyreadstat.
# Why it matters: one patient is lost, and who reads the same file with another tool counts another number.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pandas==2.3.3 pyreadstat==1.3.7 numpy==2.2.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
import pandas as pd
import pyreadstat

rows = pd.DataFrame({'died': [1.0] * 10, 'note': ['by phone'] * 9 + ['']})
pyreadstat.write_xport(rows, 'deaths.xpt', file_format_version=5)
usual, other = pd.read_sas('deaths.xpt', encoding='utf-8')['died'], pyreadstat.read_xport('deaths.xpt')[0]['died']
print(f'deaths: written {rows["died"].sum()}, pandas {usual.sum()}, pyreadstat {other.sum()}')
assert rows['died'].sum() == other.sum() == 10 and usual.sum() == 9
PY

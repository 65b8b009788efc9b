#!/usr/bin/env bash
# pandas 2.3.3: read_json turns text that looks like numbers into numbers, though JSON has quotes to tell them apart,
# and large ones into floating point; dtype=False leaves text.
#
# Seen: patients "007" and "7" are both 7; "12345678901234567890" and "12345678901234567891" are one number.
# Why it matters: rows of two patients become one cluster, and intervals by patient are wrong, without a warning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pandas==2.3.3 numpy==2.2.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
import io

import pandas as pd

lines = '{"patient": "007", "card": "12345678901234567890"}\n{"patient": "7", "card": "12345678901234567891"}\n'
usual, text = (pd.read_json(io.StringIO(lines), lines=True, **options) for options in ({}, {'dtype': False}))
print(f'usual {usual.to_dict("list")}; dtype=False {text.to_dict("list")}')
assert usual['patient'].tolist() == [7, 7] and usual['card'].nunique() == 1
assert text['patient'].tolist() == ['007', '7'] and text['card'].nunique() == 2
PY

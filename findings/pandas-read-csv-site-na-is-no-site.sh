#!/usr/bin/env bash
# pandas 2.3.3: read_csv takes "NA" and "None" for missing in columns of text too, and groupby leaves rows with a
# missing key out. keep_default_na=False keeps them.
#
# Seen: sites NA (north annex) and EU, smoking None and Current: groups EU and Current alone; 2 of 4 rows are counted.
# Why it matters: a site, or the lowest level of a risk factor, is absent from a table of subgroups, without a warning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pandas==2.3.3 numpy==2.2.6 2>/dev/null
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
import io

import pandas as pd

text = 'site,smoking,label\nNA,None,1\nNA,Current,0\nEU,None,1\nEU,Current,0\n'
usual, kept = (pd.read_csv(io.StringIO(text), **options) for options in ({}, {'keep_default_na': False}))
for name in ('site', 'smoking'):
    print(name, usual.groupby(name).size().to_dict(), kept.groupby(name).size().to_dict())
assert usual.groupby('site').size().to_dict() == {'EU': 2}
assert kept.groupby('site').size().to_dict() == {'EU': 2, 'NA': 2}
assert set(usual.groupby('smoking').groups) == {'Current'}
PY

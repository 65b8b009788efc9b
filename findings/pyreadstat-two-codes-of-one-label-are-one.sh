#!/usr/bin/env bash
# pyreadstat 1.3.7, and pandas 2.3.3 read_spss that calls it: with value labels applied, two codes that have one label
# are one. Nothing says that there were two.
#
# Seen: stages 1, 2 and 3, labelled "early", "late" and "late" by a slip: two stages, by pandas without being asked.
# Why it matters: subgroups, or the classes of an outcome, are merged. Read codes, and labels beside them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyreadstat==1.3.7 pandas==2.3.3 numpy==2.2.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
import pandas as pd
import pyreadstat

labels = {'stage': {1: 'early', 2: 'late', 3: 'late'}}
pyreadstat.write_sav(pd.DataFrame({'stage': [1.0, 2.0, 3.0, 1.0]}), 'stages.sav', variable_value_labels=labels)
codes = pyreadstat.read_sav('stages.sav')[0]['stage'].tolist()
applied = pyreadstat.read_sav('stages.sav', apply_value_formats=True)[0]['stage'].tolist()
usual = pd.read_spss('stages.sav')['stage'].tolist()
print(f'codes {codes}; labels {applied}; pandas {usual}')
assert codes == [1, 2, 3, 1] and applied == usual == ['early', 'late', 'late', 'early']
PY

#!/usr/bin/env bash
# pyreadstat 1.3.7: read_dta with user_missing=True gives Stata's coded missing values (.a to .z) as letters, so that
# one can tell "refused" from "moved away". A plain missing value (.) below one of these then comes as a number, 0 here;
# the same file without user_missing, or as a dictionary, has it missing.
#
# Seen: outcomes .a, 1, ., 1 as whole numbers: 'a', 1, 0, 1; without user_missing NaN, 1, NaN, 1.
# Why it matters: who asks for more detail gets patients without an outcome as survivors.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyreadstat==1.3.7 pandas==2.3.3 numpy==2.2.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
import pandas as pd
import pyreadstat

outcomes = pd.DataFrame({'died': ['a', 1, None, 1]}, dtype=object)
pyreadstat.write_dta(outcomes, 'outcomes.dta', missing_user_values={'died': ['a']})
usual = pyreadstat.read_dta('outcomes.dta')[0]['died']
detailed = pyreadstat.read_dta('outcomes.dta', user_missing=True)[0]['died']
kept = pyreadstat.read_dta('outcomes.dta', user_missing=True, output_format='dict')[0]['died']
print(f'usual {usual.tolist()}; with user_missing {detailed.tolist()}; as a dictionary {list(kept)}')
assert usual.isna().tolist() == [True, False, True, False]
assert detailed.isna().sum() == 0 and detailed.tolist()[:2] == ['a', 1] and detailed[2] not in (None, 'a')
PY

#!/usr/bin/env bash
# pandas 2.3.3: read_sas reads a 0 of a transport file (xpt) as 5.4e-79; pyreadstat 1.3.7 reads 0.
#
# Seen: 10 patients, 3 of whom died: by pandas nobody has the label 0, and "label > 0" holds for all 10.
# Why it matters: whoever counts events as counts above 0 has events alone; a score of exactly 0 is none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pandas==2.3.3 pyreadstat==1.3.7 numpy==2.2.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PY'
import pandas as pd
import pyreadstat

pyreadstat.write_xport(pd.DataFrame({'died': [1.0] * 3 + [0.0] * 7}), 'died.xpt', file_format_version=5)
usual, other = pd.read_sas('died.xpt')['died'], pyreadstat.read_xport('died.xpt')[0]['died']
print(f'least {usual.min()} and {other.min()}; above 0: {(usual > 0).sum()} and {(other > 0).sum()}')
assert (usual > 0).sum() == 10 and 0 < usual.min() < 1e-70 and (other > 0).sum() == 3
PY

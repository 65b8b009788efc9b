#!/usr/bin/env bash
# vantage6-algorithm-tools 5.0.3: one_hot_encode takes the list of all categories, since a node may lack some, and still
# makes columns for those alone that the node has. The list only tells which others are "unknown".
#
# Seen: categories f, m, x; a site with f and m gets columns f, m; one with f alone gets f; a site with another category
# gets "unknown". Columns are in the order of the alphabet, not of the list.
# Why it matters: a shared model's third coefficient meets another column at each site. Where columns are taken by
# position, scores are wrong without an error.
# Needs Python 3.13, as the package does; it looks for one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fits='import sys; sys.exit(sys.version_info < (3, 13))'
for python in "${PYTHON:-python3}" python3.13 python3.14 ~/.pyenv/versions/3.1[34].*/bin/python; do
  "$python" -c "$fits" 2>/dev/null && break
done
"$python" -c "$fits" 2>/dev/null || { echo "No Python 3.13 or later here: PYTHON=... says where one is." >&2; exit 1; }
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check vantage6-algorithm-tools==5.0.3 pandas==2.3.3 \
  numpy==2.4.6
cat > "$folder/steps.py" <<'PY'
from vantage6.algorithm.preprocessing.encoding import one_hot_encode
PY
cat > "$folder/try.py" <<'PY'
import pandas as pd
from vantage6.algorithm.mock.network import MockNetwork

rows = (["f", "m", "f"], ["f", "f", "f"], ["m", "d", "f"])
network = MockNetwork("steps", [{"rows": {"database": pd.DataFrame({"sex": each})}} for each in rows])
user = network.user_client
asked = {"column": "sex", "categories": ["m", "f", "x"]}
user.dataframe.preprocess(user.dataframe.list()[0]["id"], "", "one_hot_encode", asked)
found = [list(node.dataframes["rows"].columns) for node in network.nodes]
print("columns:", found)
assert found == [["f", "m"], ["f"], ["f", "m", "unknown"]]
PY
cd "$folder"
venv/bin/python try.py | grep ^columns

#!/usr/bin/env bash
# vantage6-algorithm-tools 5.0.3 with pandas 3.1.1, which it admits: impute fills nothing in. It replaces values in a
# copy, as pandas 3 makes it, and returns the column as it was; a warning is printed, no error raised.
#
# Seen: a column 2, NaN, 4 at one site, 2, NaN, 9 at another, over its MockNetwork: the mean is asked for, and NaN is
# still there at both. So also with missing_values "nan" of type float; without that, it looks for the text "None". With
# pandas 2.3.3 the second call puts 3 and 5.5 in.
# Why it matters: a score that is computed next is NaN for these patients, who drop out or fail far from the cause. And
# where it works, each site has a mean of its own.
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
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check vantage6-algorithm-tools==5.0.3 pandas==3.1.1 \
  numpy==2.4.6
cat > "$folder/steps.py" <<'PY'
from vantage6.algorithm.preprocessing.encoding import impute
PY
cat > "$folder/try.py" <<'PY'
import pandas as pd
from vantage6.algorithm.mock.network import MockNetwork


def imputed(**options):
    sites = [{"rows": {"database": pd.DataFrame({"crp": [2.0, None, last]})}} for last in (4.0, 9.0)]
    network = MockNetwork("steps", sites)
    user = network.user_client
    user.dataframe.preprocess(user.dataframe.list()[0]["id"], "", "impute", {"columns": ["crp"], **options})
    return [node.dataframes["rows"]["crp"].tolist() for node in network.nodes]


plain, told = imputed(), imputed(missing_values="nan", missing_values_type="float")
print(f"pandas {pd.__version__}: {plain}, told what is missing: {told}")
assert all(str(site[1]) == "nan" for site in plain)
if pd.__version__.startswith("3."):
    assert all(str(site[1]) == "nan" for site in told)
else:
    assert [site[1] for site in told] == [3.0, 5.5]
PY
cd "$folder"
venv/bin/python -W ignore try.py | grep ^pandas
venv/bin/pip install --quiet --disable-pip-version-check pandas==2.3.3
venv/bin/python -W ignore try.py | grep ^pandas

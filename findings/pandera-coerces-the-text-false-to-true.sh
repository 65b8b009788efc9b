#!/usr/bin/env bash
# pandera 0.35.0: a column of type bool with coerce=True takes text for True, also "False", "0" and "no"; codes 2 and 9
# are True. A column of type int cuts fractions off: .7 is 0, and 2.9 is 2. The check passes, without a warning. A table
# with one entry that is odd is text throughout.
#
# Seen: deaths "True", "False", "0", "no": four times True, and validated. Labels 1, .7 and 2.9: 1, 0 and 2.
# Why it matters: it is a library that validates tables, and "validated" is what the study then says. All rows are
# deaths. Use isin(["True", "False"]) on text before, or coerce=False.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check pandera[pandas]==0.35.0 pandas==3.1.1 \
  numpy==2.4.6
"$folder/venv/bin/python" -W error::UserWarning - <<'PY'
import pandas as pd
import pandera.pandas as pa


def validated(kind, entries):
    schema = pa.DataFrameSchema({"died": pa.Column(kind, coerce=True)})
    return schema.validate(pd.DataFrame({"died": entries})).died.tolist()


texts, codes = validated(bool, ["True", "False", "0", "no"]), validated(bool, [0, 1, 2, 9])
shares = validated(int, [1.0, 0.7, 2.9])
print(f"texts {texts}, codes {codes}, fractions {shares}")
assert texts == [True] * 4 and codes == [False, True, True, True] and shares == [1, 0, 2]
PY

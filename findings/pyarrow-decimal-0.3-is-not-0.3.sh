#!/usr/bin/env bash
# pyarrow 26.0.1: the cast of a decimal to float64 multiplies by a power of ten instead of rounding once. The result may
# be one bit from the number that float() or the cast of its text gives.
#
# Seen: of 0.1, 0.2, ... 0.9 as decimal128(20, 1), 0.3, 0.6 and 0.7 differ.
# Why it matters: a score of 0.3 from a Parquet file of decimals no longer ties with 0.3 from a CSV file. A tie counts
# one half in an AUC, so that it changes without a warning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PY'
from decimal import Decimal

import pyarrow as pa

decimals = pa.array([Decimal(tenths) / 10 for tenths in range(1, 10)], pa.decimal128(20, 1))
cast, by_text = decimals.cast('float64').to_pylist(), decimals.cast('string').cast('float64').to_pylist()
differ = [str(exact) for exact, number in zip(decimals.to_pylist(), cast) if float(exact) != number]
print(f'differ: {differ}; 0.3 is {cast[2]!r}')
assert '0.3' in differ and by_text == [float(exact) for exact in decimals.to_pylist()]
PY

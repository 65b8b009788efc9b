#!/usr/bin/env bash
# pandas 3.1.1 with zstandard 0.25.0: read_csv of a .csv.zst that was cut off returns the rows up to there, without an
# error or a warning. zstandard's stream readers end so, zstandard.open too. Of the same rows, cut off as .csv.gz,
# read_csv raises EOFError; pyarrow refuses both.
#
# Seen: 200,000 patients; of half the file 100,835.
# Why it matters: a copy over a network that broke off, or a full disk, is an evaluation of the first half of the
# patients, by date of admission perhaps, and nobody is told.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pandas==3.1.1 zstandard==0.25.0 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" -W error - <<'PY'
import gzip
import random

import pandas
import zstandard
from pyarrow import csv

chance = random.Random(1)
rows = "".join(f"{patient},{chance.randrange(2)},{chance.random():.6f}\n" for patient in range(200_000))
text = f"patient,died,risk\n{rows}".encode()
for suffix, packed in ((".zst", zstandard.compress(text)), (".gz", gzip.compress(text))):
    with open(f"half.csv{suffix}", "wb") as file:
        file.write(packed[: len(packed) // 2])

found = pandas.read_csv("half.csv.zst")
with zstandard.open("half.csv.zst", "rt") as file:
    lines = file.read().count("\n")
refused = []
for read, name in ((pandas.read_csv, "half.csv.gz"), (csv.read_csv, "half.csv.gz"), (csv.read_csv, "half.csv.zst")):
    try:
        read(name)
    except (EOFError, OSError) as error:
        refused.append(f"{type(error).__name__} of {name}")
print(f"pandas {len(found):,} of 200,000 patients, zstandard.open {lines:,} lines; refused: {', '.join(refused)}")
assert 90_000 < len(found) < 110_000 and 90_000 < lines < 110_000 and len(refused) == 3
PY

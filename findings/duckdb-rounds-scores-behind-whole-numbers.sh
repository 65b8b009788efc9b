#!/usr/bin/env bash
# DuckDB 2.0.1: several Parquet files read as one have the types of the first. If its scores happen to be whole numbers,
# those of the others are rounded to whole numbers, without a warning; union_by_name=true keeps them. So has a CSV file
# the types of the rows that are sampled.
#
# Seen: a file with scores 0 and 1, and one with 0.25 and 0.75: 0, 1, 0 and 1. In CSV, 0.75 below 60,000 whole numbers:
# 1.
# Why it matters: a site whose points are whole comes first by its name, and the other sites' scores become ties.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
from pathlib import Path

import duckdb
import pyarrow as pa
from pyarrow import parquet

parquet.write_table(pa.table({'score': [0, 1]}), 'north.parquet')
parquet.write_table(pa.table({'score': [0.25, 0.75]}), 'south.parquet')
Path('scores.csv').write_text('score\n' + '0\n1\n' * 30_000 + '0.75\n')


def scores(source):
    return [score for (score,) in duckdb.sql(f'select score from {source}').fetchall()]


usual, by_name = scores("read_parquet('*.parquet')"), scores("read_parquet('*.parquet', union_by_name=true)")
last = scores("read_csv('scores.csv')")[-1]
print(f'two files {usual}; by name {by_name}; last row of the CSV file {last}')
assert usual == [0, 1, 0, 1] and by_name == [0, 1, 0.25, 0.75] and last == 1
PY

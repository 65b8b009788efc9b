#!/usr/bin/env bash
# diffprivlib 0.6.6: median, quantile and percentile draw a gap between two rows, then a number in it. Equal rows have
# no gap. A score that many rows share is never the answer, however large epsilon is.
#
# Seen: 1,000 rows of 0.5: the median is uniform from 0 to 1, with epsilon 0.1, 1 and 2 alike, draw by draw; with 3 it
# is a RuntimeError. 300 rows of 0, 1, 2, 400 of 4 and 300 of 5, 6, 7: uniform from 2 to 5. No warning.
# Why it matters: risk scores in points and outputs of trees are tied, and private quantiles become edges of bins.
# QuantileTree of python-dp 1.1.5, which counts cells, finds the tied score.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check diffprivlib==0.6.6 scikit-learn==1.7.2 \
  numpy==2.3.5 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from diffprivlib.tools import median


def drawn(rows, epsilon, top):
    return np.array([median(rows, epsilon=epsilon, bounds=(0, top), random_state=seed) for seed in range(200)])


def shown(draws):
    return np.percentile(draws, [0, 25, 50, 75, 100]).round(2).tolist()


same = np.full(1000, 0.5)
points = np.repeat([0, 1, 2, 4, 5, 6, 7], [100, 100, 100, 400, 100, 100, 100])
vague, sharp, sharper = (drawn(same, epsilon, 1) for epsilon in (0.1, 1, 2))
tied = drawn(points, 1, 10)
print(f"all 0.5: {shown(vague)}, at epsilon 2 {shown(sharper)}; points, true median 4: {shown(tied)}")
assert np.array_equal(vague, sharp) and np.array_equal(sharp, sharper) and vague.min() < 0.05 and vague.max() > 0.95
assert 2 < tied.min() < 2.2 and 4.8 < tied.max() < 5
try:
    median(same, epsilon=3, bounds=(0, 1), random_state=1)
except RuntimeError as error:
    print(f"epsilon 3: {str(error).split('.')[0]}")
else:
    raise AssertionError
PY

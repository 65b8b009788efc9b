#!/usr/bin/env bash
# tdigest 0.5.2.2: percentile draws a line through the middles of centroids, and goes on with it below the first one.
# Rows that are equal make one centroid, so of tied scores low percentiles lie below the least row.
#
# Seen: 90 rows of 0 and 10 of 1: the 1st percentile is -0.88, the 50th 0.1; cdf(0), of which 0.9 is true, is 0.45.
# Of points from 0 to 10, 100 rows each, the 1st percentile is -0.39.
# Why it matters: sites merge digests to find edges of bins without sharing rows. Edges of tied scores or of zeros
# (outputs of trees, risks in points) are wrong, and below any possible risk. No warning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tdigest==0.5.2.2 accumulation-tree==0.6.4 \
  pyudorandom==1.0.0
"$folder/venv/bin/python" - <<'PY'
from tdigest import TDigest


def digest(rows):
    made = TDigest()
    made.batch_update(rows)
    return made


rare, points = digest([0.0] * 90 + [1.0] * 10), digest([float(point) for point in range(11)] * 100)
found = [round(float(rare.percentile(level)), 2) for level in (0, 1, 50, 99)]
first = round(float(points.percentile(1)), 2)
print(f"percentiles 0, 1, 50, 99 of zeros and ones: {found}; cdf(0) {rare.cdf(0):.2f}; of points the first: {first}")
assert found == [0.0, -0.88, 0.1, 1.0] and abs(rare.cdf(0) - 0.45) < 1e-9 and first < -0.3
PY

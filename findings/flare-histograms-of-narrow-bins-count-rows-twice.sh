#!/usr/bin/env bash
# NVIDIA FLARE 2.9.0: its federated histograms (accumulate_hists) look bins up by their edges, rounded to 4 decimals.
#
# Bins that are narrower than 0.0001 get the same key, and rows are counted again: of two sites with 100 rows each in ten
# bins from 0 to 0.0005 the pooled histogram has 240 rows. No warning. Where sites have bins of different ranges, only
# the first site's bins stay: of 200 rows 100 are left.
# Why it matters: an AUC from such histograms is wrong for rare outcomes, whose risks are small, or at fine thresholds.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check nvflare==2.9.0
"$folder/venv/bin/python" - <<'PY'
import numpy as np
from nvflare.app_common.abstract.statistics_spec import Bin, Histogram, HistogramType
from nvflare.app_common.statistics.numeric_stats import accumulate_hists


def site(high):
    edges = np.linspace(0, high, 11)
    bins = [Bin(low, top, 10) for low, top in zip(edges[:-1], edges[1:])]
    return {"test": {"risk": Histogram(HistogramType.STANDARD, bins)}}


def pooled(*ends):
    found = {}
    for high in ends:
        found = accumulate_hists(site(high), found)
    return sum(each.sample_count for each in found["test"]["risk"].bins)


wide, narrow, other = pooled(1, 1), pooled(0.0005, 0.0005), pooled(1, 2)
print(f"200 rows at two sites: bins of 0.1: {wide}; bins of 0.00005: {narrow}; bins of 0.1 and of 0.2: {other}")
assert (wide, narrow, other) == (200, 240, 100)
PY

#!/usr/bin/env bash
# flwr 1.42.0: its strategies average all that sites' MetricRecords hold by num-examples, counts and lists of counts
# too. So counts are not added up, and a site of nine times as many rows enters the "pooled" counts 81 times, not nine.
#
# Seen: 900 and 100 true positives at sites of 9,000 and 1,000 rows: 820. Counts of ten bins, whose sum over sites has
# an AUC of 0.738: that of the aggregate is 0.618, the large site's own 0.592. A site without rows, whose metric is NaN,
# makes the aggregate NaN, though its weight is 0.
# Why it matters: a ROC curve from aggregated counts is no pooled one, and looks like it. evaluate_metrics_aggr_fn has
# to be one's own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check flwr==1.42.0
"$folder/venv/bin/python" - <<'PY'
import math

import numpy as np
from flwr.app import MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg


def aggregated(*sites):
    strategy = FedAvg()  # asked as its aggregate_evaluate asks
    replies = [RecordDict({"metrics": MetricRecord(told)}) for told in sites]
    return strategy.evaluate_metrics_aggr_fn(replies, strategy.weighted_by_key)


def auc(positives, negatives):
    below = np.cumsum(negatives) - np.array(negatives) / 2
    return float(positives @ below / (sum(positives) * sum(negatives)))


# The large site's model tells little, and scores low there; the small one's is good, and scores high.
large = {"num-examples": 9000, "P": [100, 180, 180, 220, 220], "N": [1900, 1700, 1600, 1500, 1400]}
small = {"num-examples": 1000, "P": [0] * 9 + [600], "N": [0] * 5 + [100, 100, 100, 50, 50]}
for counts in (large["P"], large["N"]):
    counts += [0] * 5
found = aggregated(large, small)
pooled = [np.array(large[name]) + small[name] for name in "PN"]
aucs = [round(auc(*map(np.array, each)), 3) for each in (pooled, (found["P"], found["N"]), (large["P"], large["N"]))]
hits = aggregated({"num-examples": 9000, "tp": 900}, {"num-examples": 1000, "tp": 100})["tp"]
nan = aggregated({"num-examples": 0, "auc": math.nan}, {"num-examples": 1000, "auc": 0.8})["auc"]
print(f"900 and 100: {hits}; NaN of weight 0: {nan}")
print("AUC of added counts, of aggregated ones, at the large site:", *aucs)
assert hits == 820 and math.isnan(nan)
assert aucs[0] - aucs[1] > 0.1
PY

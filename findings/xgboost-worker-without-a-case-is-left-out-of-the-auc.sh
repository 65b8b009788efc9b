#!/usr/bin/env bash
# xgboost 3.2.0 (and 3.4.1), rows over several workers (its collective communicator, which Dask, Spark and federated
# training use): a worker whose rows have one label is left out of auc, without a word. Its manual says that such rows
# make NaN, as they do in aucpr, and that auc is a mean of the workers' own, weighted by their pairs.
#
# Seen: 900 rows, 10 % of them positive, and 100 negatives that the model scores high: auc 0.745, which is the first
# worker's own; of all rows 0.665. aucpr NaN.
# Why it matters: sites without an event are usual for rare outcomes, and their false alarms vanish from the AUC; early
# stopping by aucpr compares with NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check xgboost==3.2.0 numpy==2.4.6 scikit-learn==1.7.2
cat > "$folder/try.py" <<'PY'
import math
import multiprocessing
import re

import numpy as np


def rows(worker, share):
    random = np.random.default_rng(worker)
    labels = (random.random((900, 100)[worker]) < (0.1, share)[worker]).astype(int)
    return labels, random.normal(labels) + (0, 5)[worker]


def work(worker, share, settings, told):
    import xgboost
    from xgboost import collective

    labels, scores = rows(worker, share)
    with collective.CommunicatorContext(**settings, dmlc_task_id=str(worker)):
        data = xgboost.DMatrix(np.zeros((len(labels), 1)), label=labels, base_margin=scores)
        asked = {"objective": "binary:logistic", "eval_metric": ["auc", "aucpr"], "eta": 0, "verbosity": 0}
        told.put(xgboost.train(asked, data, 1).eval(data))


def evaluated(share):
    from sklearn.metrics import roc_auc_score
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(n_workers=2, host_ip="127.0.0.1")
    tracker.start()
    told = multiprocessing.Queue()
    settings = tracker.worker_args()
    workers = [multiprocessing.Process(target=work, args=(each, share, settings, told)) for each in range(2)]
    for each in workers:
        each.start()
    found = [float(each) for each in re.findall(r"auc(?:pr)?:(\S+)", told.get(timeout=100))]
    for each in workers:
        each.join()
    labels, scores = (np.concatenate(each) for each in zip(*(rows(worker, share) for worker in range(2))))
    return *found, roc_auc_score(labels, scores), roc_auc_score(*rows(0, share))


if __name__ == "__main__":
    both, one = evaluated(0.5), evaluated(0.0)
    for name, each in (("both labels at both workers", both), ("negatives alone at the second", one)):
        print("{}: auc {:.3f}, aucpr {:.3f}; AUC of all rows {:.3f}, of the first worker's {:.3f}".format(name, *each))
    assert both[2] - both[0] > 0.05
    assert one[0] - one[2] > 0.05 and abs(one[0] - one[3]) < 1e-6 and math.isnan(one[1])
PY
"$folder/venv/bin/python" "$folder/try.py" | grep auc

#!/usr/bin/env bash
# LightGBM 4.7.0: the AUC of a validation set without a positive row, or with positive rows of weight 0, is 1, and so is
# its average precision; nothing says that there is none. Early stopping then ends at the first tree. XGBoost has NaN
# and a warning, scikit-learn NaN.
#
# Seen: 50 negative rows: auc 1.0 and average_precision 1.0 in every round, while the log loss gets better in each; with
# early_stopping(5) the best of 40 rounds is the first.
# Why it matters: a small site without events, or a fold of a rare outcome, has a perfect model, and raises the mean
# over sites.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check lightgbm==4.7.0 numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import lightgbm
import numpy as np

generator = np.random.default_rng(0)
rows, labels = generator.normal(size=(500, 3)), generator.integers(0, 2, 500)
trained = lightgbm.Dataset(rows, labels)
none = lightgbm.Dataset(rows[:50], np.zeros(50), reference=trained)
light = lightgbm.Dataset(rows[:50], np.r_[1, np.zeros(49)], weight=np.r_[0, np.ones(49)], reference=trained)
asked = {'objective': 'binary', 'metric': ['auc', 'average_precision', 'binary_logloss'], 'verbose': -1}
seen: dict = {}
watch = [lightgbm.record_evaluation(seen)]
lightgbm.train(asked, trained, 3, valid_sets=[none, light], valid_names=['none', 'weight 0'], callbacks=watch)
stop = [lightgbm.early_stopping(5, first_metric_only=True, verbose=False)]
early = lightgbm.train(asked, trained, 40, valid_sets=[none], callbacks=stop)
for name, each in seen.items():
    print(name, {metric: [round(float(value), 3) for value in values] for metric, values in each.items()})
print(f'best round {early.best_iteration} of 40')
for each in seen.values():
    assert set(each['auc']) == set(each['average_precision']) == {1.0}
assert early.best_iteration == 1
PY

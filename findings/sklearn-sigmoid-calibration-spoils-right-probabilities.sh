#!/usr/bin/env bash
# scikit-learn 1.9.1: CalibratedClassifierCV(method="sigmoid") fits a logistic curve to the probabilities of a
# classifier that has no decision_function, and not to their log odds. Such a curve cannot be the identity: right
# probabilities come out wrong. method="temperature" and "isotonic" leave them.
#
# Seen: true probabilities as scores, 50,000 rows: below 0.02, where 0.9 % have the event, sigmoid says 3.8 %, four
# times as many; above 0.6 it says 85 % where 70 % have it.
# Why it matters: it is the default method. Recalibration is then said to harm; the intercept and slope of the log odds
# (Cox) do not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator


class Right(ClassifierMixin, BaseEstimator):
    """Its probability is its only feature."""

    def fit(self, rows, labels):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, rows):
        return (rows[:, 0] > 0.5).astype(int)

    def predict_proba(self, rows):
        return np.column_stack([1 - rows[:, 0], rows[:, 0]])


generator = np.random.default_rng(0)
true = 1 / (1 + np.exp(-generator.normal(-3, 1.5, 50_000)))
labels = (generator.random(50_000) < true).astype(int)
model, low, high = FrozenEstimator(Right().fit(true[:, None], labels)), true < 0.02, true > 0.6
found = {'labels': labels}
for method in ('sigmoid', 'temperature', 'isotonic'):
    fitted = CalibratedClassifierCV(model, method=method).fit(true[:, None], labels)
    found[method] = fitted.predict_proba(true[:, None])[:, 1]
for name, each in found.items():
    print(f'{name:12} below 0.02: {each[low].mean():.4f}, above 0.6: {each[high].mean():.3f}')
assert found['sigmoid'][low].mean() > 3.5 * labels[low].mean()
assert found['sigmoid'][high].mean() > labels[high].mean() + 0.1
assert abs(found['temperature'][low].mean() - labels[low].mean()) < 0.001
PY

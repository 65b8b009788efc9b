"""How far AUC and standard error are off at the default thresholds of `verified`, on real and on made-up scores.

    OMP_NUM_THREADS=1 python docs/evidence/studies/default_grid.py

Counts are in the clear, as those of a session are exact. First table: the bundled sets; and scikit-learn's breast
cancer and handwritten digits (8 or not), scored by cross-validation. Second table: the score is the true risk, with
normal log odds, so that its spread says how crowded scores are; twenty seeds each; "told" counts those whose binning
error exceeds a quarter of the standard error. "SE off" is the relative difference to DeLong's from the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product, starmap

import numpy as np
from scipy.special import expit, logit
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from fhe_auc.question import thresholds
from fhe_auc.question.binning import bins_of
from fhe_auc.results.intervals import TELLING, of_bins
from fhe_auc.rows import datasets
from fhe_auc_benchmarks.comparison.measure import pooled
from fhe_auc_benchmarks.tables import show
from fhe_auc_protocols.exact_auc.protocol import Exact
from intervals import of_rows
from real_data import MODELS as OTHERS

GRID = thresholds.parse(Exact.options.default_thresholds)
BOOSTED = HistGradientBoostingClassifier(max_iter=40, random_state=0)
MODELS = {**{name: OTHERS[name] for name in ("logistic regression", "naive Bayes")}, "boosted trees": BOOSTED}
MADE_UP = ((0.002, 100_000), (0.0036, 30_000), (0.01, 20_000), (0.1, 10_000), (0.5, 5000))
SPREADS, SEEDS = (1.0, 0.5, 0.12), 20


def measured(y_true: np.ndarray, y_score: np.ndarray) -> np.ndarray:
    """Return the AUC, by how much bins put it off and may do so, how far the SE is off, whether one is told; the SE."""
    bins = bins_of(y_score, GRID)
    positives, negatives = (np.bincount(bins[of], minlength=len(GRID)) for of in (y_true, ~y_true))
    auc, error = of_bins(positives, negatives)
    truth, exact = float(roc_auc_score(y_true, y_score)), of_rows(y_true, y_score)
    binning_error = float(positives @ negatives / 2 / positives.sum() / negatives.sum())
    assert error is not None
    told = binning_error > TELLING * error
    return np.array([truth, abs(float(auc) - truth), binning_error, abs(error / exact - 1), told, exact])


def real() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for name in datasets.NAMES:
        y_true, y_score = pooled(datasets.load(name))
        yield name, y_true.astype(bool), y_score.astype(np.float64)
    cancer, digits = load_breast_cancer(return_X_y=True), load_digits(return_X_y=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for name, rows, labels in (("breast cancer", cancer[0], cancer[1] == 0), ("digit 8", digits[0], digits[1] == 8)):
        for model, estimator in MODELS.items():
            scores = cross_val_predict(estimator, rows, labels, cv=folds, method="predict_proba")[:, 1]
            yield f"{name}, {model}", labels, scores


def made_up(share: float, rows: int, spread: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    scores = expit(logit(share) + spread * random.normal(size=rows))
    return random.random(rows) < scores, scores


def of_seeds(share: float, rows: int, spread: float) -> list[str]:
    _, off, _, _, told, exact = np.array([measured(*made_up(share, rows, spread, seed)) for seed in range(SEEDS)]).T
    numbers = f"{np.median(off):.1e}", f"{off.max():.1e}", f"{(off / exact).max():.3f}", f"{told.sum():.0f}"
    return [f"{100 * share:g} %", f"{rows:,}", f"{spread:g}", *numbers]


def of_real(name: str, y_true: np.ndarray, y_score: np.ndarray) -> list[str]:
    auc, off, binning_error, error_off, *_ = measured(y_true, y_score)
    numbers = f"{auc:.4f}", f"{off:.1e}", f"{binning_error:.1e}", f"{100 * error_off:.2f} %"
    return [name, f"{len(y_true):,}", f"{100 * y_true.mean():.1f} %", *numbers]


if __name__ == "__main__":
    show(["set", "rows", "positive", "AUC", "off by", "binning error", "SE off"], starmap(of_real, real()))
    cases = (of_seeds(*sizes, spread) for sizes, spread in product(MADE_UP, SPREADS))
    show(["positive", "rows", "spread", "median off by", "worst", "worst, ÷ SE", "told"], cases)

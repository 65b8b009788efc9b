"""How far AUC and standard error of `verified` are from those of real rows, at the thresholds that are its default.

    OMP_NUM_THREADS=1 python docs/evidence/studies/real_data.py [--grid hybrid:5000] [--split 0]

The bundled sets, site by site, and what scikit-learn brings along, half of the rows to fit each of a few models and
half to score: breast cancer, and one class against the rest of digits, wine and iris. Every AUC comes out of a whole
session with one party for each bundled site, and with three parties otherwise. "Inside" counts the sets on which
scikit-learn's AUC, in exact integers, lies within AUC ± half-width, all of them fractions. "SE off" is the relative
difference of the standard error to DeLong's from the rows.

A second table is of `malicious`, which has `semi-honest`'s circuit and all digits, on the bundled sets: its
distance from scikit-learn's AUC, and from the trapezoid.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fractions import Fraction
from itertools import product, starmap
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fhe_auc import Setup, ckks, federated_auc
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows import datasets
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.comparison.measure import pooled
from fhe_auc_benchmarks.tables import show
from intervals import of_rows

PARTIES, BACKENDS = 3, ckks.available_backends()
MODELS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "random forest": RandomForestClassifier(100, random_state=0),
    "naive Bayes": GaussianNB(),
    "neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(15)),
}
SETS = {"breast cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine, "iris": load_iris}


def unseen(split: int) -> Iterator[tuple[str, list[PartyData]]]:
    """Yield sets that no default was chosen on: name, and rows dealt out in turn."""
    for name, load in SETS.items():
        rows, labels = load(return_X_y=True)
        for label in [1] if name == "breast cancer" else np.unique(labels):
            halves = train_test_split(rows, labels == label, test_size=0.5, random_state=split, stratify=labels)
            fitting, testing, fitted, y_true = halves
            for model, estimator in MODELS.items():
                y_score = estimator.fit(fitting, fitted).predict_proba(testing)[:, 1]
                sites = [(f"site {at}", y_true[at::PARTIES], y_score[at::PARTIES]) for at in range(PARTIES)]
                yield f"{name} {label}, {model}", [PartyData.from_arrays(*each) for each in sites]


def exact_auc(y_true: np.ndarray, y_score: np.ndarray) -> Fraction:
    """Mann and Whitney's, from ranks: multiples of one half, which doubles hold."""
    positives, rows = int(y_true.sum()), len(y_true)
    ranks = Fraction(float(rankdata(y_score)[y_true].sum()))
    return (ranks - Fraction(positives * (positives + 1), 2)) / (positives * (rows - positives))


class RealDataErrors(NamedTuple):
    row: list[str]
    error: float
    error_off: float
    inside: bool


def measure(name: str, parties: list[PartyData], grid: str) -> RealDataErrors:
    """Run a session; raise `AssertionError` where the fraction of ranks is not scikit-learn's AUC."""
    y_true, y_score = pooled(parties)
    truth, exact = float(roc_auc_score(y_true, y_score)), exact_auc(y_true, y_score)
    assert abs(float(exact) - truth) < 1e-12, name
    found = federated_auc(parties, protocol="verified", thresholds=grid)
    error, standard_error = abs(found.auc - truth), of_rows(y_true.astype(bool), y_score)
    off = abs((found.standard_error or 0) / standard_error - 1) if standard_error else 0.0
    inside = abs(found.fraction - exact) <= found.binning_error_fraction
    numbers = f"{truth:.6f}", f"{error:.1e}", f"{found.binning_error:.1e}", f"{off:.2%}"
    return RealDataErrors([name, f"{len(y_true):,}", *numbers], error, off, inside)


def encrypted(name: str, grid: str) -> list[str]:
    parties = datasets.load(name)
    y_true, y_score = pooled(parties)
    exact = trapezoid(count(PartyData.from_arrays("all", y_true, y_score), thresholds.parse(grid))).auc
    found = [
        federated_auc(parties, protocol="malicious", thresholds=grid, setup=Setup(backend=each)) for each in BACKENDS
    ]
    off = found[0].auc - roc_auc_score(y_true, y_score)
    numbers = f"{found[0].auc:.9f}", f"{off:+.1e}", f"{found[0].binning_error:.1e}"
    return [name, grid, *numbers, *(f"{abs(each.auc - exact):.1e}" for each in found)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--grid", default="hybrid:5000")
    parser.add_argument("--split", type=int, default=0, help="seed of the halves")
    arguments = parser.parse_args()
    bundled = [measure(name, datasets.load(name), arguments.grid) for name in datasets.NAMES]
    others = sorted((measure(*each, arguments.grid) for each in unseen(arguments.split)), key=lambda each: -each.error)
    every, head = [*bundled, *others], ["data", "rows", "scikit-learn", "off by", "half-width", "SE off"]
    show(head, [each.row for each in every[: len(bundled) + 10]])
    print(f"{len(others)} sets that were not bundled: {sum(each.error <= 1e-4 for each in others)} off by at most 1e-4")
    off = [each.error_off for each in every]
    print(f"SE off by at most 0.5 %: {sum(each <= 5e-3 for each in off)} of {len(off)}, and by {max(off):.2%} at most")
    print(f"inside: {sum(each.inside for each in every)} of {len(every)}\n")
    rows = starmap(encrypted, product(datasets.NAMES, ("uniform:100", "hybrid:1000")))
    show(["data", "grid", "AUC", "off by", "half-width", *BACKENDS], rows)


if __name__ == "__main__":
    main()

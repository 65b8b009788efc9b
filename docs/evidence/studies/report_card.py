"""What thresholds leave open in a report, and what calibration maps do to rows that they were not made from.

    python docs/evidence/studies/report_card.py

Prints the numbers of docs/guide/report-card.md. The rows of each bundled set are pooled and counted in the clear:
encrypted sums are exact, and give the same numbers. Thresholds are those of `hybrid:1000`.

First table: half-widths, and the distance of the AUC from scikit-learn's on the rows; with all counts, and with bins
merged until none is from 1 to 9, as the report has them by default.

Second table: calibration error and AUC. In each of 20 seeded random halvings, a map is made from the histogram of one
half and applied to the rows of the other. Scores are taken as they are, and put off on purpose by a square root, which
changes no order. The calibration error of the other half is that of ten bins of equally many rows, each score being a
bin of its own; a perfect classifier would have one too, by chance, of about 0.01.
"""

from collections.abc import Iterator

import numpy as np
from sklearn.metrics import roc_auc_score

from fhe_auc import metrics
from fhe_auc.metrics import Histogram
from fhe_auc.question import thresholds
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.comparison.measure import pooled
from fhe_auc_benchmarks.tables import show

HALVINGS = 20


def counted(labels: np.ndarray, scores: np.ndarray) -> Histogram:
    edges = np.concatenate(([0.0], thresholds.parse("hybrid:1000")[1:], [1.0]))
    return Histogram.from_rows(PartyData.from_arrays("pool", labels, scores), edges)


def judged(labels: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    exact = Histogram.exact(PartyData.from_arrays("half", labels, scores))
    return metrics.expected_calibration_error(exact, strategy="quantile").value, roc_auc_score(labels, scores)


def halves(name: str) -> Iterator[list[str]]:
    labels, as_they_are = pooled(datasets.load(name))
    for shift, scores in (("as they are", as_they_are), ("square roots", np.sqrt(as_they_are))):
        random, found = np.random.default_rng(0), []
        for _ in range(HALVINGS):
            order = random.permutation(len(scores))
            one, other = order[::2], order[1::2]
            mapped = metrics.bayesian_binning(counted(labels[one], scores[one]))(scores[other])
            found.append([judged(labels[other], each) for each in (scores[other], mapped)])
        yield [name, shift, *(f"{error:.4f} ({auc:.3f})" for error, auc in np.mean(found, axis=0))]


def left_open(name: str) -> list[str]:
    labels, scores = pooled(datasets.load(name))
    bins = counted(labels, scores)
    auc, error = metrics.roc_auc_score(bins), metrics.expected_calibration_error(bins, strategy="quantile")
    off = abs(auc.value - roc_auc_score(labels, scores))
    return [name, f"{bins.bins:,}", f"{off:.1e}", f"{auc.half_width:.1e}", f"{error.half_width:.1e}"]


if __name__ == "__main__":
    show(["set", "bins", "AUC off by", "AUC ±", "calibration error ±"], map(left_open, datasets.NAMES))
    show(["set", "scores", "before", "after"], (row for name in datasets.NAMES for row in halves(name)))

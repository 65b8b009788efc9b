"""What thresholds leave open in a report, and what calibration maps do to rows that they were not made from.

    python docs/evidence/studies/report_card.py

The rows of each bundled set are pooled and counted in the clear: encrypted sums are exact, and give the same numbers.

First table: half-widths at different thresholds, and the distance of the AUC from scikit-learn's on the rows; with all
counts, and with bins merged until none is from 1 to 9, as the report has them by default.

Second table: in each of 20 seeded random halvings, a map is made from the histogram of one half (``hybrid:1000``) and
applied to the rows of the other. Scores are taken as they are, and put off on purpose by a square or a square root,
which changes no order. The calibration error of the other half is that of ten bins of equally many rows, each score
being a bin of its own; a perfect classifier would have one too, by chance, of about 0.01. Histogram binning is tried
on all bins, and on M^(1/3) bins of about equally many rows, merged from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fhe_auc import metrics
from fhe_auc.metrics import CalibrationMap, Histogram
from fhe_auc.question import thresholds
from fhe_auc.rows import datasets
from fhe_auc.rows.counts import PartyData

_SETS = ("covid-clinics", "credit-default")
_GRIDS = ("uniform:100", "uniform:1000", "hybrid:1000")
_HALVINGS = 20


def _pooled(name: str) -> PartyData:
    parties = datasets.load(name)
    rows = (np.concatenate([getattr(party, of) for party in parties]) for of in ("y_true", "y_score"))
    return PartyData.from_arrays("pool", *rows)


def _histogram(data: PartyData, grid: str) -> Histogram:
    return Histogram.from_rows(data, np.concatenate(([0.0], thresholds.parse(grid)[1:], [1.0])))


def _merged(fine: Histogram, bins: int) -> Histogram:
    rows = np.cumsum(fine.counts)
    cuts = np.unique(np.append(0, np.searchsorted(rows, rows[-1] * np.arange(1, bins) / bins) + 1))
    cuts = cuts[cuts < fine.bins]
    positives, negatives = (np.add.reduceat(counts, cuts) for counts in (fine.positives, fine.negatives))
    return Histogram(np.append(fine.edges[cuts], 1.0), positives, negatives)


def _binning_of_few(fine: Histogram) -> CalibrationMap:
    return metrics.histogram_binning(_merged(fine, round(fine.counts.sum() ** (1 / 3))))


_SHIFTS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "as they are": np.positive,
    "square roots": np.sqrt,
    "squares": np.square,
}
_MAPS: dict[str, Callable[[Histogram], CalibrationMap]] = {
    "histogram binning": metrics.histogram_binning,
    "histogram binning, M^(1/3) bins": _binning_of_few,
    "BBQ": metrics.bayesian_binning,
}


def _threshold_lines() -> Iterator[str]:
    yield (
        "| set | thresholds | least count | bins | AUC off by | AUC ± | average precision ± | Brier ± "
        "| calibration error ± | log loss ± |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name in _SETS:
        data = _pooled(name)
        truth = roc_auc_score(data.y_true, data.y_score)
        for grid, least in product(_GRIDS, (1, 10)):
            counted = metrics.merge_small_cells(_histogram(data, grid), least)
            auc = metrics.roc_auc_score(counted)
            found = (
                abs(auc.value - truth),
                auc.half_width,
                metrics.average_precision_score(counted).half_width,
                metrics.brier_score_loss(counted).half_width,
                metrics.expected_calibration_error(counted, strategy="quantile").half_width,
                metrics.log_loss(counted).half_width,
            )
            yield (
                f"| {name} | `{grid}` | {least} | {counted.bins:,} | "
                + " | ".join(f"{value:.1e}" for value in found)
                + " |"
            )


def _judged(labels: NDArray[np.bool_], scores: NDArray[np.float64]) -> tuple[float, float]:
    """Return calibration error and AUC."""
    exact = Histogram.exact(PartyData.from_arrays("half", labels, scores))
    error = metrics.expected_calibration_error(exact, strategy="quantile").value
    return error, float(roc_auc_score(labels, scores))


def _map_lines() -> Iterator[str]:
    yield "| set | scores | none | " + " | ".join(_MAPS) + " |"
    yield "|---|---|---|" + "---|" * len(_MAPS)
    for name in _SETS:
        data = _pooled(name)
        for shift, changed in _SHIFTS.items():
            scores, random, found = changed(data.y_score), np.random.default_rng(0), []
            for _ in range(_HALVINGS):
                order = random.permutation(len(scores))
                one, other = order[::2], order[1::2]
                fitted = _histogram(PartyData.from_arrays("one", data.y_true[one], scores[one]), "hybrid:1000")
                tried = [scores[other], *(make(fitted)(scores[other]) for make in _MAPS.values())]
                found.append([_judged(data.y_true[other], judged) for judged in tried])
            means = np.mean(found, axis=0)
            yield f"| {name} | {shift} | " + " | ".join(f"{error:.4f} ({auc:.3f})" for error, auc in means) + " |"


def main() -> None:
    """Print both tables."""
    for lines in (_threshold_lines(), _map_lines()):
        for line in lines:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()

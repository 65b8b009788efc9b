"""Calibration maps by each method, from a histogram of probabilities, and what they make of its rows.

"intercept" adds a number to the log odds of every score, "slope-intercept" multiplies them first (Steyerberg et al.,
Stat. Med. 23, 2004, 2567-2586). "isotonic" has steps that rise (Zadrozny and Elkan, KDD 2002), "bbq" those of
`bayesian_binning`. The two numbers are of all bins, with the four decimals that a report shows of them. Steps are of
bins that do not tell where fewer rows lie than `min_cell`; 1 is for counts with privacy noise, which hides rows itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import UndefinedMetricError
from fhe_auc.base.special_functions import expit
from fhe_auc.metrics import small_cells
from fhe_auc.metrics.calibration import CalibrationMap, bayesian_binning
from fhe_auc.metrics.histogram import Histogram, rising, with_both_labels
from fhe_auc.metrics.recalibration import calibration_in_the_large, calibration_line, logit

_DECIMALS = 4


@dataclass(frozen=True)
class LogisticMap:
    """Probability expit(intercept + slope·logit(score)) of a score in [0, 1], by `logit`."""

    intercept: float
    slope: float = 1.0

    edges: ClassVar = np.array([0.0, 1.0])  # of the scores that it covers

    def __call__(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Calibrate scores in [0, 1]."""
        return expit(self.intercept + self.slope * logit(scores))

    as_dict = asdict


ScoreMap: TypeAlias = CalibrationMap | LogisticMap


def _of_line(histogram: Histogram, _: int) -> LogisticMap:
    line = calibration_line(histogram)
    if line is None:
        raise UndefinedMetricError(
            "no slope fits: a score parts the labels, or nearly, or all scores are equal; take --method intercept"
        )
    return LogisticMap(round(line.intercept, _DECIMALS), round(line.slope, _DECIMALS))


def _isotonic(histogram: Histogram, min_cell: int) -> CalibrationMap:
    """Return scikit-learn's `IsotonicRegression` on bins, their steps merged until no label's count in one is small."""
    bins = with_both_labels(_coarse(histogram, min_cell))
    bins = bins.merged(np.append(0, np.flatnonzero(bins.counts > 0)[1:]))  # by noise a bin can be empty
    shares = rising(bins.positives / bins.counts, bins.counts)
    steps = bins.merged(np.flatnonzero(np.diff(shares, prepend=-1) > 0))
    if min_cell > 1:
        steps = small_cells.merge_small_cells(steps, min_cell)
    return CalibrationMap(steps.edges, np.maximum.accumulate(steps.positives / steps.counts))  # but for rounding


def _bbq(histogram: Histogram, min_cell: int) -> CalibrationMap:
    """Return the map of Bayesian binning, which takes a weighted bin for so many rows as all bins are on average."""
    bins = _coarse(histogram, min_cell)
    rows = bins.sides.sum() / bins.spread.sum()  # effective ones, for each unit of weight: without weights 1
    return bayesian_binning(bins if rows == 1 else Histogram(bins.edges, *(rows * bins.sides)))


def _coarse(histogram: Histogram, min_cell: int) -> Histogram:
    return small_cells.rounded(small_cells.crowded(histogram, min_cell)) if min_cell > 1 else histogram


METHODS: Mapping[str, Callable[[Histogram, int], ScoreMap]] = {
    "slope-intercept": _of_line,
    "intercept": lambda histogram, _: LogisticMap(round(calibration_in_the_large(histogram)[0].value, _DECIMALS)),
    "isotonic": _isotonic,
    "bbq": _bbq,
}
"""What makes each method's map of a histogram, and of `min_cell`; `UndefinedMetricError` where there is none."""


def mapped(histogram: Histogram, scores: NDArray[np.float64]) -> Histogram:
    """Return the rows with the score that is given for each bin, shape (B,), every score in a bin of its own."""
    usable, values = histogram.cleaned(), np.unique(scores)
    starts = np.union1d(values, np.nextafter(values[:-1], np.inf))
    at = np.searchsorted(starts, scores)
    move = partial(np.apply_along_axis, lambda each: np.bincount(at, each, len(starts)), -1)
    return usable.remade(np.append(starts, values[-1]), move)

"""Score histograms: how many positive and negative rows all parties have in each bin of scores.  [FCE] §2.

The cells are bins between thresholds, once for each label. From the pooled counts, which parties see, follow the AUC
and, by `fhe_auc.metrics`, every other metric of a classifier. Exact counts give the exact AUC of the bins; counts with
privacy noise one that nothing bounds for certain.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import EvaluationError, UndefinedAucError
from fhe_auc.metrics import Histogram, roc_auc_score
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.results.intervals import of_bins
from fhe_auc.rows.counts import Counts
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc_protocols import result_warnings
from fhe_auc_protocols.histograms import split_budget
from fhe_auc_protocols.histograms.readout import PooledCounts, PrivateReadout, Readout

_LABELS = 2  # positives and negatives
_LOUD = 0.1  # noise above this share of the rarer class's rows is worth a warning


class ExactScoreHistogram(Readout[Evaluation]):
    """Of exact counts."""

    purpose = "score histograms"

    def cells(self, thresholds: int) -> int:
        """Return the number of bins of both labels."""
        return _LABELS * thresholds

    def count(self, data: PartyData, grid: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count a party's positives in each bin, then its negatives, shape (2m,); errors as `rows_by_bin`."""
        return rows_by_bin(data, grid).ravel()

    def read(self, manifest: Manifest, pooled: PooledCounts) -> Evaluation:
        """Return the AUC of the pooled histogram; errors as `pooled_counts`, and `UndefinedAucError`."""
        bins = pooled.levels[0].reshape(_LABELS, -1)
        exact = trapezoid(pooled_counts(bins))
        _, error = of_bins(*bins[:, bins.any(axis=0)])
        return _evaluation(
            manifest,
            pooled,
            pooled_histogram(manifest.thresholds, bins),
            auc=exact.auc,
            binning_error=exact.binning_error,
            numerical_error=0.0,
            warnings=result_warnings.of_auc(manifest, pooled.parties, exact.binning_error, error, histogram=True),
        )


class PrivateScoreHistogram(ExactScoreHistogram, PrivateReadout[Evaluation]):
    """Of counts with noise. A session before may have spent a part of the budget on the thresholds (`split_budget`)."""

    def agreed(self, options: Mapping[str, Any], thresholds: int) -> dict[str, bool | int | float | str]:
        """Return the budget of this session and of one before it."""
        self.budget(options)
        return dict(split_budget.settings(options))

    def budget(self, options: Mapping[str, Any]) -> float:
        """Return what a session before has left of ε."""
        return split_budget.left_for_counts(options)

    def read(self, manifest: Manifest, pooled: PooledCounts) -> Evaluation:
        """Return the AUC of the noisy histogram; errors as `noisy_auc`."""
        histogram = pooled_histogram(manifest.thresholds, pooled.levels[0].reshape(_LABELS, -1))
        return _evaluation(
            manifest,
            pooled,
            histogram,
            auc=noisy_auc(histogram),
            binning_error=math.nan,
            numerical_error=math.nan,
            settings={**split_budget.settings(manifest.options), **pooled.settings},
            warnings=_noise_warnings(manifest, pooled, histogram),
        )


def _evaluation(manifest: Manifest, pooled: PooledCounts, histogram: Histogram, **found: Any) -> Evaluation:
    return Evaluation(
        protocol=manifest.protocol,
        backend=pooled.backend,
        parties=pooled.parties,
        thresholds=len(manifest.thresholds),
        verified=pooled.soundness is not None,
        soundness=pooled.soundness,
        security_bits=pooled.security_bits,
        histogram=histogram,
        **found,
    )


def rows_by_bin(data: PartyData, grid: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return a party's rows of label 1 and 0 in each bin, shape (2, m); `InputError` for a score beyond the bins."""
    own = Histogram.from_rows(data, _edges(grid))
    return np.stack([own.positives, own.negatives]).astype(np.int64)


def pooled_histogram(grid: NDArray[np.float64], bins: NDArray[np.int64] | NDArray[np.float64]) -> Histogram:
    """Return positives and negatives in each bin, shape (2, m), with the bins' edges, from m ascending thresholds.

    Bin k begins at threshold k, but the first one at 0 where that is lower; the last one ends at 1, or at the last
    threshold where that is higher.
    """
    return Histogram(_edges(grid), *bins.astype(np.float64))


def _edges(grid: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate(([min(0.0, grid[0])], grid[1:], [max(1.0, grid[-1])]))


def pooled_counts(bins: NDArray[np.int64]) -> Counts:
    """Return counts at each threshold, of rows by label and bin, (2, m); `EvaluationError` for a negative one."""
    if bins.min() < 0:
        raise EvaluationError(
            "a bin of the pooled histogram has a negative count: the aggregator, or a party, has not computed what it "
            "should"
        )
    return Counts(*(row[::-1].cumsum()[::-1] for row in bins))


def noisy_auc(histogram: Histogram) -> float:
    """Return the AUC of a histogram with privacy noise; raise `UndefinedAucError` where noise leaves a class no row."""
    try:
        return roc_auc_score(histogram).value
    except UndefinedAucError:
        raise UndefinedAucError(
            "with privacy noise the pooled histogram holds no row of one class, so there is no AUC; more rows of both "
            "labels are needed, or a larger epsilon"
        ) from None


def _noise_warnings(manifest: Manifest, pooled: PooledCounts, histogram: Histogram) -> tuple[str, ...]:
    found = [*split_budget.warnings(manifest.options), *result_warnings.of_parties(manifest, pooled.parties)]
    rarer = max(0.0, float(min(histogram.positives.sum(), histogram.negatives.sum())))
    of_class = (pooled.noise_deviation or 0.0) * math.sqrt(histogram.bins)
    if of_class > _LOUD * rarer:
        found.append(
            f"the noise on the number of rows of a class (standard deviation {of_class:,.0f}) is not small against the "
            f"rarer class (about {rarer:,.0f} rows): the AUC may be far off; take fewer thresholds or a larger epsilon"
        )
    return tuple(found)

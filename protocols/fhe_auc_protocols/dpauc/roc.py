"""The four counts of [DPAUC] at each threshold, and the AUC from their noisy sums.

Sums are arrays of shape (…, 4, m): TP, FP, FN, TN at m ascending thresholds, for any number of leading dimensions, so
that an experiment evaluates all its runs at once. A row is predicted positive when its score is at or above the
threshold. Unlike `fhe_auc.rows.counts`, the first threshold is one like the others: rows below it are not positive.

What [DPAUC] leaves open, and its tables decide: sums below 0 become 0; points are sorted by noisy FPR; neither (0, 0)
nor (1, 1) is added. `Curve` offers what else one could do. All of it is post-processing, and costs no privacy.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STATISTICS = ("tp", "fp", "fn", "tn")  # names of the four counts, in the order of the arrays


@dataclass(frozen=True)
class Curve:
    """How noisy sums become a ROC curve. The defaults are [DPAUC]'s.

    `clip` raises sums below 0 to 0, without which rates may leave [0, 1]; `endpoints` adds (0, 0) and (1, 1);
    `monotone` makes TPR and FPR fall as the threshold rises, by isotonic regression, before sorting.
    """

    clip: bool = True
    endpoints: bool = False
    monotone: bool = False


def statistics(y_true: NDArray[np.bool_], y_score: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.int64]:
    """Count TP, FP, FN and TN at each of m ascending thresholds, of n rows; return them, shape (4, m)."""
    below = np.searchsorted(grid, y_score, side="right")  # thresholds at or below the score
    bins = [np.bincount(below[rows], minlength=len(grid) + 1) for rows in (y_true, ~y_true)]
    return statistics_of_bins(np.array(bins, dtype=np.int64))


def statistics_of_bins(bins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the counts, (…, 4, m), of rows by label and bin, (…, 2, m + 1), the first below, the last above all."""
    missed = bins.cumsum(axis=-1)
    return np.concatenate([missed[..., -1:] - missed[..., :-1], missed[..., :-1]], axis=-2)


def is_of_rows(counts: NDArray[np.int64]) -> bool:
    """Say whether some rows have exactly these counts, shape (4, m): none negative, no bin of either label either."""
    if counts.min() < 0:
        return False
    wide = counts.astype(np.uint64)  # TP + FN of two int64 fits
    labels = wide[:2] + wide[2:]
    return bool((labels == labels[:, :1]).all() and (np.diff(counts[2:], axis=-1) >= 0).all())


def estimate(sums: NDArray[np.float64], curve: Curve, *, flip_probability: float | None = None) -> NDArray[np.float64]:
    """Return the AUC, shape (…), from noisy counts of all parties, shape (…, 4, m); it may lie outside [0, 1].

    With the flip probability of randomised response, below 1/2, the counts are of flipped labels, and the area is
    debiased: NaN where all flipped labels are the same, or there is none.
    """
    found = area(sums, curve)
    if flip_probability is not None:
        positives, rows = sums[..., 0, 0] + sums[..., 2, 0], sums[..., 0].sum(axis=-1)
        defined = (positives > 0) & (positives < rows)
        share = np.divide(positives, rows, out=np.full_like(rows, 0.5), where=defined)
        found = debias(found, flip_probability, base_rate(share, flip_probability, np.maximum(rows, 2)))
        found = np.where(defined, found, np.nan)
    return found


def area(sums: NDArray[np.float64], curve: Curve) -> NDArray[np.float64]:
    """Return the area under the curve of noisy sums, shape (…, 4, m), by trapezoids; the area has the shape (…).

    A rate whose denominator is not positive counts as 0. Unclipped curves may have areas outside [0, 1].
    """
    if curve.clip:
        sums = np.maximum(sums, 0.0)
    denominators = sums[..., :2, :] + sums[..., 2:, :]
    rates = np.divide(sums[..., :2, :], denominators, out=np.zeros_like(denominators), where=denominators > 0)
    if curve.monotone:
        from scipy.optimize import isotonic_regression

        rates = np.apply_along_axis(lambda rate: isotonic_regression(rate, increasing=False).x, -1, rates)
    if curve.endpoints:
        corner = np.broadcast_to(np.array([1.0, 0.0]), (*rates.shape[:-1], 2))
        rates = np.concatenate([corner[..., :1], rates, corner[..., 1:]], axis=-1)
    # From the highest threshold down, so that points of equal FPR stay in the order in which TPR rises without noise.
    tpr, fpr = rates[..., 0, ::-1], rates[..., 1, ::-1]
    order = np.argsort(fpr, axis=-1, kind="stable")
    x, y = np.take_along_axis(fpr, order, -1), np.take_along_axis(tpr, order, -1)
    return np.asarray((np.diff(x, axis=-1) * (y[..., 1:] + y[..., :-1])).sum(axis=-1) / 2)


def base_rate(flipped: NDArray[np.float64], flip_probability: float, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of positive rows, (flipped − ρ) / (1 − 2ρ), moved into [1/n, 1 − 1/n] of n >= 2 rows."""
    unbiased = (flipped - flip_probability) / (1 - 2 * flip_probability)
    return np.clip(unbiased, 1 / rows, 1 - 1 / rows)


def debias(
    noisy_auc: NDArray[np.float64], flip_probability: float, positive_share: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the clean AUC that an AUC on flipped labels estimates (Menon et al., ICML 2015).

    Among rows whose flipped label is 1 a share α is truly negative, among the others a share β truly positive:

        α = (1−π)ρ / (π(1−ρ) + (1−π)ρ)      β = πρ / (πρ + (1−π)(1−ρ))      AUC = (AUC_noisy − (α+β)/2) / (1−α−β)

    ρ is the flip probability, below 1/2, and π in (0, 1) the share of positive rows, of the shape of the AUCs. The
    estimate may lie outside [0, 1] where rows are few.
    """
    rho, pi = flip_probability, positive_share
    alpha = (1 - pi) * rho / (pi * (1 - rho) + (1 - pi) * rho)
    beta = pi * rho / (pi * rho + (1 - pi) * (1 - rho))
    return np.asarray((noisy_auc - (alpha + beta) / 2) / (1 - alpha - beta))

"""AUC and DeLong's standard errors from the definition over rows: the oracle of `fhe_auc.results.intervals`."""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.results.delong import Counted
from tests.support.lazy import Lazy

norm = Lazy("scipy.stats").norm

Scores: TypeAlias = NDArray[np.float64]


def once(rows: int) -> Counted:
    """So many rows of one label, each of weight 1."""
    return Counted(rows, rows, rows)


def of_rows(ones: Scores, zeros: Scores) -> tuple[float, float]:
    """Scores of positive and of negative rows: their AUC, and its standard error."""
    of_ones, of_zeros = _placements(ones, zeros)
    variance = of_ones.var(ddof=1) / len(ones) + of_zeros.var(ddof=1) / len(zeros)
    return float(of_ones.mean()), float(np.sqrt(variance))


def paired_of_rows(y_true: NDArray[np.bool_], first: Scores, second: Scores) -> tuple[float, float, float]:
    """Two models' scores of the same rows: second AUC minus first, its standard error, and its two-sided p-value.

    By the covariance matrices of the placements, as DeLong, DeLong and Clarke-Pearson write it.
    """
    contrast = np.array([-1.0, 1.0])
    (ones, zeros), (other_ones, other_zeros) = (_placements(each[y_true], each[~y_true]) for each in (first, second))
    of_ones, of_zeros = np.array([ones, other_ones]), np.array([zeros, other_zeros])
    covariance = np.cov(of_ones) / of_ones.shape[1] + np.cov(of_zeros) / of_zeros.shape[1]
    difference, error = float(contrast @ of_ones.mean(axis=1)), float(np.sqrt(contrast @ covariance @ contrast))
    return difference, error, float(2 * norm.sf(abs(difference) / error)) if error else math.nan


def obuchowski(labels: Any, ids: Any, *scores: Scores) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """AUCs of models on rows of patients, and their covariance matrix: Obuchowski, Biometrics 53 (1997), section 2.

    From its sums over clusters of structural components, patient by patient.
    """
    y_true, ids = np.asarray(labels) == 1, np.asarray(ids)
    of_ones, of_zeros = zip(*(_placements(each[y_true], each[~y_true]) for each in scores), strict=True)
    aucs = np.array([each.mean() for each in of_ones])
    ones, zeros = [], []  # of each patient: V10 − m·A and V01 − n·A of each model
    for patient in dict.fromkeys(ids.tolist()):
        own = ids == patient
        for sums, components, of_label in ((ones, of_ones, y_true), (zeros, of_zeros, ~y_true)):
            mine = own[of_label]
            sums.append([each[mine].sum() - mine.sum() * auc for each, auc in zip(components, aucs, strict=True)])
    with_ones, with_zeros = (len(set(ids[of_label].tolist())) for of_label in (y_true, ~y_true))
    (m, n), every, x, y = (int(y_true.sum()), int((~y_true).sum())), len(ones), np.array(ones), np.array(zeros)
    s10, s01 = with_ones / ((with_ones - 1) * m) * x.T @ x, with_zeros / ((with_zeros - 1) * n) * y.T @ y
    s11 = every / (every - 1) * x.T @ y
    return aucs, s10 / m + s01 / n + (s11 + s11.T) / (m * n)


def _placements(ones: Scores, zeros: Scores) -> tuple[Scores, Scores]:
    """Each row's share of the other class's rows that it is ordered rightly against, ties half."""
    ascending = [np.sort(side) for side in (ones, zeros)]
    ranks = (
        (np.searchsorted(other, side, "left") + np.searchsorted(other, side, "right")) / (2 * len(other))
        for side, other in ((ones, ascending[1]), (zeros, ascending[0]))
    )
    of_ones, of_zeros = ranks
    return of_ones, 1 - of_zeros

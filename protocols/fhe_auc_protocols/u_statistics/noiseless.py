"""U-statistics without noise, from counts: what the private estimates are compared with.

With c_i records of value i, n = Σ c_i and A_ij = f(i, j):

    U = (cᵀ A c - Σ_i c_i A_ii) / (n (n - 1))          the average over pairs of different records
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.rows.counts import Counts
from fhe_auc_protocols.u_statistics.kernels import Floats, Integers


def u_statistic(counts: ArrayLike, matrix: Floats) -> float:
    """Return the average kernel over pairs of records, by k counts and `Kernel.matrix`; `InputError`: fewer than 2."""
    weights = np.asarray(counts, float)
    n = checked_users(weights.sum())
    return float((weights @ matrix @ weights - weights @ np.diag(matrix)) / (n * (n - 1)))


def gini(values: ArrayLike) -> float:
    """Return Gini's mean difference, Σ_i (2i - n + 1)·x_(i) / (n(n-1)/2), i from 0; `InputError` for n < 2."""
    ordered = np.sort(np.asarray(values, float))
    n = int(checked_users(len(ordered)))
    # From their middle, so that a common offset costs no digits.
    return float((2 * np.arange(n) - n + 1) @ (ordered - ordered[n // 2]) * 2 / (n * (n - 1)))


def collision(values: ArrayLike) -> float:
    """Return the share of pairs of rows, shape (n,) or (n, d), that are equal; `InputError` for fewer than two."""
    counts = np.unique(np.asarray(values), axis=0, return_counts=True)[1].astype(float)
    n = checked_users(counts.sum())
    return float(counts @ (counts - 1) / (n * (n - 1)))


def kendall(rows: ArrayLike) -> tuple[float, float]:
    """Return tau-a, ties 0, and tau-b of rows (n, 2), by scipy; `InputError` for fewer than two, or no extra."""
    require("dp")
    from scipy.stats import kendalltau

    pairs = np.asarray(rows, float)
    checked_users(len(pairs))
    tau_b = float(kendalltau(pairs[:, 0], pairs[:, 1]).statistic)
    untied = (1 - collision(pairs[:, 0])) * (1 - collision(pairs[:, 1]))
    return 0.0 if untied == 0 else tau_b * np.sqrt(untied), tau_b


def tau_b(tau_a: float, tied_first: float, tied_second: float) -> float:
    """Return tau-b from tau-a and each column's collision probability; NaN where a column is tied everywhere."""
    untied = (1 - tied_first) * (1 - tied_second)
    return tau_a / float(np.sqrt(untied)) if untied > 0 else float("nan")


def auc(positives: Integers, negatives: Integers) -> float:
    """Return the AUC, ties half, from each class's records at ascending scores; `UndefinedAucError` if one is empty."""
    tp, fp = (side[::-1].cumsum()[::-1].astype(np.int64) for side in (positives, negatives))
    return trapezoid(Counts(tp, fp)).auc


def checked_users(users: float) -> float:
    """Return the number of users; raise `InputError` where there are fewer than two."""
    if users < 2:
        raise InputError(f"there are {users:.0f} users, but a statistic of pairs needs at least two")
    return users

"""Rows with weights in the clear: their histogram with a bin for each score, and influences by small changes."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.metrics.histogram import Histogram


class Rows(NamedTuple):
    labels: NDArray[np.int64]
    scores: NDArray[np.float64]
    weights: NDArray[np.float64]


def some_rows(rows: int, seed: int = 0, *, cases: float = 1.0, decimals: int = 2) -> Rows:
    """Return rows whose scores are too high; positive ones weigh `cases` times as much as others, on average."""
    random = np.random.default_rng(seed)
    scores = random.beta(2, 4, rows).round(decimals).clip(0.01, 0.99)
    labels = (random.random(rows) < 0.8 * scores).astype(np.int64)
    return Rows(labels, scores, random.choice([0.5, 1.0, 3.25], rows) * np.where(labels, cases, 1.0))


def histogram_of(rows: Rows, edges: NDArray[np.float64] | None = None) -> Histogram:
    """Count rows in bins; without edges in one for each score, whose middle it is to 12 digits."""
    if edges is None:
        scores = np.unique(rows.scores)
        edges = np.unique([0.0, *(scores - 1e-13), *(scores + 1e-13), 1.0])
    at = np.minimum(np.searchsorted(edges, rows.scores, side="right") - 1, len(edges) - 2)
    blocks = [
        np.bincount(at[rows.labels == label], values[rows.labels == label], len(edges) - 1)
        for values in (rows.weights, rows.weights**2, rows.weights > 0)
        for label in (1, 0)
    ]
    return Histogram(edges, *blocks[:2], squares=np.stack(blocks[2:4]), rows=np.stack(blocks[4:]))


def error_by_rows(statistic: Callable[[NDArray[np.float64]], float], weights: NDArray[np.float64]) -> float:
    """Return √Σ(w·∂T/∂w)², by small changes of one weight after the other."""
    step = 1e-5
    changes = np.eye(len(weights)) * step
    slopes = [(statistic(weights + each) - statistic(weights - each)) / (2 * step) for each in changes]
    return float(np.sqrt(np.sum((weights * slopes) ** 2)))

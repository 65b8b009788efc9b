"""Rows counted without bins: what metrics of a histogram give then is what they give of the rows."""

import numpy as np
from numpy.typing import NDArray

from fhe_auc.metrics.histogram import Histogram
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.histograms.score_histogram import ExactScoreHistogram


def exact_histogram(data: PartyData) -> Histogram:
    """Count rows with every score in a bin of its own, up to the next float64; bins between them are empty."""
    scores = np.unique(data.y_score)
    lower_edges = np.union1d(scores, np.nextafter(scores[:-1], np.inf))
    return Histogram.from_rows(data, np.append(lower_edges, scores[-1]))


def rows_by_bin(data: PartyData, grid: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return a party's rows of label 1 and 0 in each bin between thresholds, shape (2, m), as a session counts them."""
    return ExactScoreHistogram().count(data, grid).reshape(2, -1)

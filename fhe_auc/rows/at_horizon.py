"""Rows with follow-up times, as a session at one horizon counts them: with labels 0 and 1, and weights."""

from dataclasses import replace

import numpy as np

from fhe_auc.question.analysis import Analysis
from fhe_auc.question.follow_up import CENSORED, EVENT
from fhe_auc.rows.entries import frozen
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.row_store import Column


def at_horizon(data: PartyData, analysis: Analysis) -> PartyData:
    """Return a party's rows for a session at one horizon; as they are where the analysis has none.

    Rows that were censored by then have label 0 and weight 0. A session that finds thresholds asks for neither times
    nor weights: the event is label 1 then.
    """
    if data.weights is not None and analysis.units is None:
        data = replace(data, weights=None)
    if data.times is None or (analysis.follow_up and not analysis.at):
        return data
    if not analysis.follow_up or not analysis.at:
        return replace(data, labels=frozen(data.labels == EVENT).view(np.uint8), times=None)
    at, last = analysis.at, len(analysis.at.weights)
    weight_of = np.array([*at.weights, at.beyond], np.int64)
    labels, weights = Column(np.uint8), Column(np.int64)
    for batch in data.batches():
        assert batch.times is not None  # noqa: S101 - they have been looked at
        cells = np.minimum(analysis.follow_up.cells(batch.times), last)
        labels.append(((cells < last) & (batch.labels == EVENT)).astype(np.uint8))
        weights.append(np.where((cells < last) & (batch.labels == CENSORED), 0, weight_of[cells]))
    return replace(data, labels=labels.finished(), weights=weights.finished(), times=None)

"""Rows with follow-up times, as a session at one horizon counts them: with labels 0 and 1, and weights."""

from dataclasses import replace

import numpy as np

from fhe_auc.question.analysis import Analysis
from fhe_auc.question.follow_up import CENSORED, EVENT
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.row_store import Column


def at_horizon(data: PartyData, analysis: Analysis) -> PartyData:
    """Return a party's rows for a session at one horizon; as they are where the analysis has none.

    Rows that were censored by then have label 0 and weight 0. What the analysis does not ask for, as that of a session
    that finds thresholds, is left out; the event is label 1 then.
    """
    if not analysis.follow_up and data.times is not None:
        events = Column(np.uint8)
        for batch in data.batches():
            events.append((batch.labels == EVENT).astype(np.uint8))
        return replace(data, labels=events.finished(), times=None)
    if not analysis.weights and not analysis.follow_up and data.weights is not None:
        return replace(data, weights=None)
    if not analysis.at or not analysis.follow_up or data.times is None:
        return data
    at, last = analysis.at, len(analysis.at.weights)
    weight_of = np.array([*at.weights, at.beyond], np.int64)
    made = Column(np.uint8), Column(np.int64)
    for batch in data.batches():
        assert batch.times is not None  # noqa: S101 - they have been looked at
        cells = np.minimum(analysis.follow_up.cells(batch.times), last)
        by_then = cells < last
        lost = by_then & (batch.labels == CENSORED)
        made[0].append((by_then & (batch.labels == EVENT)).astype(np.uint8))
        made[1].append(np.where(lost, 0, weight_of[cells]))
    labels, weights = (column.finished() for column in made)
    return replace(data, labels=labels, weights=weights, times=None)

"""The rows of all parties in one place: what nobody has but an experiment."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fhe_auc.rows.counts import PartyData


def pooled(parties: Iterable[PartyData]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return labels and scores of all rows, party after party."""
    everybody = list(parties)
    return np.concatenate([data.y_true for data in everybody]), np.concatenate([data.y_score for data in everybody])

"""All parties' rows in one place, and what a session is to find of them."""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData


def pooled(parties: Sequence[PartyData]) -> PartyData:
    """All rows as those of one party."""
    labels = np.concatenate([party.y_true for party in parties])
    return PartyData.from_arrays("all", labels, np.concatenate([party.y_score for party in parties]))


def pooled_counts(parties: Iterable[PartyData], grid: Any) -> Counts:
    """The sum of what each party counts."""
    return reduce(add, (count(data, grid) for data in parties))


def exact_auc(parties: Iterable[PartyData], grid: Any) -> float:
    return trapezoid(pooled_counts(parties, grid)).auc


def rounding(decimals: int | None) -> float:
    """By how much the AUC moves at most where a protocol rounds it to so many decimals."""
    return 0.0 if decimals is None else 0.5 * 10**-decimals


def sklearns_auc(parties: Sequence[PartyData]) -> float:
    """Of all rows, without thresholds."""
    from sklearn.metrics import roc_auc_score

    rows = pooled(parties)
    return float(roc_auc_score(rows.y_true, rows.y_score))

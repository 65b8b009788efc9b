"""Rows by the cell of time in which their follow-up ended, and by what ended it: the censoring curve is made of them.

The session comes before those at the horizons (`fhe_auc.session.steps`). What its counts tell the parties, and the
weights everybody: docs/security/histograms.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.follow_up import FollowUp
from fhe_auc.results.evaluation import CensoringCurve
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc_protocols import result_warnings
from fhe_auc_protocols.histograms.readout import PooledCounts, Readout

TOLD = (
    "censoring curve: every party learns how many pooled rows had an event, and were censored, in each of {cells:,} "
    "cells of time; the weights that follow are public, and tell the aggregator in which of these cells rows are "
    "censored, even a single one: a wider --time-grid tells less"
)
_ANY = FollowUp(time="time", event="event", horizons=(1.0,))


@dataclass(frozen=True)
class CensoredRows(Readout[CensoringCurve]):
    """Of exact counts: by code of what ended it and cell, and at last of rows that were followed up for longer."""

    follow_up: FollowUp = _ANY
    purpose = "censoring curves"

    def of(self, analysis: Analysis, options: Mapping[str, Any], square: int = 1) -> CensoredRows:
        """Return the counts of follow-up times; raise `InputError` where there are none."""
        if not analysis.follow_up or analysis.at:
            raise InputError("a censoring curve is of rows by follow-up time, and the session has no such times")
        return CensoredRows(analysis.follow_up)

    def cells(self, thresholds: int) -> int:
        """Return how many counts there are, whatever the thresholds."""
        return math.prod(self.follow_up.shape) + 1

    def count(self, data: PartyData, grid: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count a party's rows; raise `InputError` where it has no follow-up times."""
        cells, total = self.follow_up.shape[1], np.zeros(self.cells(len(grid)), np.int64)
        for batch in data.batches():
            if batch.times is None:
                raise InputError(f"party {data.name!r} has no follow-up times, and the session asks for them")
            at = self.follow_up.cells(batch.times)
            codes = cells * batch.labels.astype(np.int64)
            total += np.bincount(np.where(at < cells, codes + at, len(total) - 1), minlength=len(total))
        return total

    def outcome(self, manifest: Manifest, pooled: PooledCounts) -> CensoringCurve:
        """Return the counts."""
        *counts, beyond = pooled.levels[0].tolist()
        cells = self.follow_up.shape[1]
        warnings = (*result_warnings.of_parties(manifest, pooled.parties), TOLD.format(cells=cells))
        by_code = np.array(counts, np.int64).reshape(self.follow_up.shape)
        return pooled.said(CensoringCurve, manifest, warnings=warnings, counts=by_code, beyond=beyond)

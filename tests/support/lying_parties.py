"""Parties that submit a digit that is none, in sessions where row caps are proved: one lie that stands for all."""

import threading
from typing import Any

import numpy as np
import pytest

from fhe_auc_protocols.exact_auc.computations import ExactTask
from fhe_auc_protocols.exact_auc.proved_counts import ProvedCounts


def lying(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return a set: the parties that are named in it lie when they submit."""
    liars, this = set[str](), threading.local()  # parties may be threads
    encode_honestly, submit_honestly = ExactTask.encode, ProvedCounts.submitted

    def noted(task: ExactTask, common_secret: bytes) -> Any:
        this.party = task.party
        return encode_honestly(task, common_secret)

    def submitted(counts: ProvedCounts, sketch: Any, cap: int) -> Any:
        found = submit_honestly(counts, sketch, cap)
        if this.party in liars:
            found[0] = (found[0] + np.uint64(counts.statement.base)) % np.uint64(counts.prime)
        return found

    monkeypatch.setattr(ExactTask, "encode", noted)
    monkeypatch.setattr(ProvedCounts, "submitted", submitted)
    return liars

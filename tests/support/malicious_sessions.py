"""For the protocol whose aggregator may lie: sites, requests, and plans."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.metrics.trapezoid import Trapezoid, trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.blinded_auc.blinded_plan import AucPlan, Workload, smallest_plan
from tests.support.pooled import pooled_counts

BACKENDS = ckks.available_backends()
backends = pytest.mark.parametrize("backend", BACKENDS)

CLOSE = 1e-8


def exact(parties: Sequence[PartyData], grid: Any) -> Trapezoid:
    return trapezoid(pooled_counts(parties, grid))


def sites(number: int, *, rows: int = 400, seed: int = 1) -> list[PartyData]:
    """Sites of different sizes and levels; every second one beyond the third has one class only."""
    rng = np.random.default_rng(seed)
    found = []
    for index, share in enumerate(rng.dirichlet(np.full(number, 3.0))):
        size = 2 + int(share * rows)
        labels = rng.random(size) < 0.3
        labels[:2] = True, False
        if index >= 2 and index % 2:
            labels[:] = index % 4 == 1
        scores = np.clip(rng.normal(0.35 + 0.25 * labels + 0.02 * index, 0.15), 0, 1)
        found.append(PartyData.from_arrays(f"site {index}", labels, scores))
    return found


def request(parties: Sequence[PartyData], grid: Any = "uniform:16", **changes: Any) -> Request:
    return Request(parties=tuple(data.name for data in parties), thresholds=thresholds.resolve(grid), **changes)


def assert_silent(error: BaseException) -> None:
    """No digit in what a refusal says, nor in what it might chain."""
    while error is not None:
        assert not re.search(r"\d", repr(error.args)), error.args
        error = error.__cause__ or error.__context__  # type: ignore[assignment]


@lru_cache(maxsize=32)
def plan_for(*, backend: str = "tenseal", tolerance: float | None = None, **changes: Any) -> AucPlan:
    workload = Workload(**{"thresholds": 16, "parties": 5, "split": True, **changes})
    return smallest_plan(workload, backend, tolerance=tolerance)

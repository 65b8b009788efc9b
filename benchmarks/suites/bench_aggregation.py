"""Ingest and circuit against parties and against thresholds, for every encrypted protocol."""

from __future__ import annotations

import pytest

from fhe_auc.errors import CapacityError
from fhe_auc_benchmarks.runtime.benchmark import HEADLINE, PARTIES, THRESHOLDS
from fhe_auc_benchmarks.runtime.measure import PADDED

TYPICAL_PARTIES, TYPICAL_THRESHOLDS = HEADLINE
PHASES = ("ingest", "circuit")
SETTINGS = {f"E={e}, S={s}": {"executions": e, "splits": s} for e in (2, 4) for s in (2, 4)}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("protocol", ["semi-honest", "histogram-federated"])
@pytest.mark.parametrize("parties", PARTIES)
@pytest.mark.benchmark(group=f"against parties, {TYPICAL_THRESHOLDS} thresholds")
def test_parties(timed, made, backend, protocol, parties, phase):
    timed(made(protocol, backend, parties, TYPICAL_THRESHOLDS), phase)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("protocol", ["semi-honest", "histogram-federated"])
@pytest.mark.parametrize("thresholds", THRESHOLDS)
@pytest.mark.benchmark(group=f"against thresholds, {TYPICAL_PARTIES} parties")
def test_thresholds(timed, made, backend, protocol, thresholds, phase):
    timed(made(protocol, backend, TYPICAL_PARTIES, thresholds), phase)


@pytest.mark.parametrize("phase", ["submit", *PHASES, "relay", "recover"])
@pytest.mark.parametrize("protocol", PADDED)
@pytest.mark.parametrize("thresholds", [100, 1000, 4000])
@pytest.mark.benchmark(group=f"padded sketches, {TYPICAL_PARTIES} parties, signed")
def test_padded(timed, made, backend, protocol, thresholds, phase):
    timed(made(protocol, backend, TYPICAL_PARTIES, thresholds, resend=False, signed=True), phase)


@pytest.mark.parametrize("phase", ["submit", *PHASES, "recover"])
@pytest.mark.parametrize("thresholds", [25, 100, 1000])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.benchmark(group="malicious, 15 parties")
def test_malicious(timed, made, backend, setting, thresholds, phase):
    try:
        session = made("malicious", backend, 15, thresholds, resend=False, **SETTINGS[setting])
    except CapacityError as error:
        pytest.skip(str(error))
    timed(session, phase)

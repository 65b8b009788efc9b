"""The peers by themselves, at 100 parties and thresholds; `fhe-auc benchmark` puts them beside ours, in turns."""

from __future__ import annotations

import pytest
from benchmarks.conftest import TYPICAL_PARTIES, TYPICAL_THRESHOLDS

from fhe_auc_benchmarks.runtime.measure import PHASES
from fhe_auc_benchmarks.runtime.problem import Problem

PEERS = {
    "published": ("published", "Published"),
    "published, tuned": ("published", "PublishedTuned"),
    "numpy": ("plaintext", "PlaintextCounts"),
    "scikit-learn": ("plaintext", "PooledRows"),
    "paillier": ("paillier", "Paillier"),
}


@pytest.fixture(scope="module", params=PEERS)
def peer(request):
    module, name = PEERS[request.param]
    kind = getattr(pytest.importorskip(f"fhe_auc_benchmarks.runtime.peers.{module}"), name)
    contender = kind(Problem(TYPICAL_PARTIES, TYPICAL_THRESHOLDS))
    yield contender
    contender.close()


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.benchmark(group="peers, 100 parties, 100 thresholds")
def test_peer(timed, peer, phase):
    timed(peer, phase, rounds=1 if peer.once else 3)

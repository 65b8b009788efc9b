"""Whole sessions in one process, by `federated_auc`: every role of every protocol, keys and all."""

from __future__ import annotations

import pytest

from fhe_auc import federated_auc
from fhe_auc_benchmarks.runtime.benchmark import PARTIES
from fhe_auc_benchmarks.runtime.problem import Problem
from fhe_auc_protocols import options as protocols

PLAIN = {
    "dpauc-laplace": protocols.DpaucLaplace(epsilon=1.0),
    "dpauc-gaussian": protocols.DpaucGaussian(epsilon=1.0, delta=1e-6),
    "dpauc-rr": protocols.DpaucRandomizedResponse(epsilon=8.0),
    "histogram-local-dp": protocols.HistogramLocalDp(epsilon=8.0),
}
ENCRYPTED = {
    "verified": "verified",
    "exact": "exact",
    "semi-honest": "semi-honest",
    "malicious, E=2, S=2": protocols.Malicious(executions=2, splits=2),
    "malicious, E=2, S=4": protocols.Malicious(executions=2, splits=4),
    "malicious, E=4, S=2": protocols.Malicious(executions=4, splits=2),
    "malicious, E=4, S=4": protocols.Malicious(executions=4, splits=4),
    "histogram-federated": "histogram-federated",
    "histogram-distributed-dp": protocols.HistogramDistributedDp(epsilon=8.0),
}
THRESHOLDS = 100


def timed_session(benchmark, parties, protocol, **options) -> None:
    problem = Problem(parties, THRESHOLDS)
    data = [problem.data(party) for party in range(parties)]
    options = {"thresholds": problem.points, "protocol": protocol, **options}
    evaluation = benchmark.pedantic(federated_auc, (data,), options, rounds=2 if parties < 1000 else 1)
    benchmark.extra_info["upload_bytes_per_party"] = evaluation.upload_bytes_per_party
    benchmark.extra_info["download_bytes_per_party"] = evaluation.download_bytes_per_party


@pytest.mark.parametrize("parties", PARTIES)
@pytest.mark.benchmark(group="whole session, semi-honest")
def test_semi_honest(benchmark, backend, parties):
    timed_session(benchmark, parties, "semi-honest", backend=backend)


@pytest.mark.parametrize("name", ENCRYPTED)
@pytest.mark.benchmark(group="whole session, 15 parties, encrypted")
def test_encrypted(benchmark, backend, name):
    timed_session(benchmark, 15, ENCRYPTED[name], backend=backend)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.benchmark(group="whole session, 15 parties, noise instead of encryption")
def test_noisy(benchmark, name):
    timed_session(benchmark, 15, PLAIN[name])


@pytest.mark.parametrize("parties", [5, 15])
@pytest.mark.parametrize("protocol", ["semi-honest", "malicious", "verified"])
@pytest.mark.benchmark(group="whole session, joint keys")
def test_joint_keys(benchmark, protocol, parties):
    pytest.importorskip("openfhe")
    timed_session(benchmark, parties, protocol, keys="joint")

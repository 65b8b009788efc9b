"""A fleet's session that a module's tests share, whose `FLEET` says how large it is; and a cluster of Dask's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fhe_auc_keys.fleet.workers import make_store
from fhe_auc_keys.store.vault import STORE_VARIABLE
from fhe_auc_keys.trust.identity import Identity
from tests.support.fleet_sessions import Play


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Play:
    made = Play(tmp_path_factory.mktemp("fleet") / "f", **request.module.FLEET)
    assert made.submitted
    return made


@pytest.fixture
def play(made: Play, tmp_path: Path) -> Play:
    """With what everybody has made of their rows, in a folder of its own."""
    return made.copied(tmp_path)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be busy."""
    monkeypatch.setattr(pytest.importorskip("fhe_auc_keys.fleet.dask_scheduler"), "_PATIENCE", 100.0)


@pytest.fixture(scope="module")
def adder() -> Identity:
    """The role whose store the cluster's workers have."""
    return Identity.create("adder")


@pytest.fixture(scope="module")
def cluster(adder: Identity, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    make_store(store := tmp_path_factory.mktemp("worker") / "store", adder)
    # Such a cluster closes a worker for good that is not there 15 s after its last death; `dask worker` does not.
    patient = {"distributed.deploy.lost-worker-timeout": "1h", "distributed.scheduler.allowed-failures": 1}
    patient["distributed.comm.timeouts.connect"] = "10s"  # for what a worker had when it died
    given = {"n_workers": 2, "host": "127.0.0.1", "env": {STORE_VARIABLE: str(store)}, "threads_per_worker": 1}
    quiet = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with dask.config.set(patient), distributed.LocalCluster(**given, **quiet) as made:
        yield made


@pytest.fixture
def scheduler(cluster: Any, patient: None) -> str:
    """The address of the cluster's, once both workers are there again."""
    cluster.wait_for_workers(2)
    return str(cluster.scheduler_address)

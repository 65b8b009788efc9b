"""Tasks on workers of Dask's: the same as on processes; and which schedulers are used."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fhe_auc
from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc_keys.fleet.workers import Workers
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import seal
from tests.support.engines import CLAIMS, ranges, square, unsealed
from tests.support.tls import make_certificate

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
dask_scheduler = pytest.importorskip("fhe_auc_keys.fleet.dask_scheduler")
pytestmark = pytest.mark.usefixtures("patient")


def here(**options: Any) -> Any:
    """Return a scheduler with workers in this process, which takes little time."""
    given = {"n_workers": 1, "processes": False, "protocol": "tcp://", "threads_per_worker": 1, **options}
    return distributed.LocalCluster(**given, dashboard_address="127.0.0.1:0", silence_logs=50)


@pytest.mark.parametrize("claim", CLAIMS)
def test_of_workers_of_dask(claim: Callable[[Workers, Path], None], tmp_path: Path, scheduler: str) -> None:
    with Workers.on(scheduler) as workers:
        claim(workers, tmp_path)


def test_workers_have_the_roles_keys_from_a_store_of_their_own(scheduler: str, adder: Identity) -> None:
    sealed = seal(adder.encryption_key, b"a secret", info=b"")
    with Workers.on(scheduler) as workers:
        keys = workers.keys(Vault(Path("the driver's"), Path("its passphrase")))
        assert keys.vault is None
        found = list(workers.map(unsealed, [(str(each), sealed) for each in range(4)], keys))
    assert {text for text, _ in found} == {"a secret"}
    assert os.getpid() not in {process for _, process in found}


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8786", "ws://127.0.0.1:8786", "tcp://127.0.0.1", "tcp://127.0.0.1:x", "inproc://a/1", ""]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="is no scheduler's address: tls://HOST:PORT"):
        Workers.on(address)


@pytest.mark.parametrize("address", ["tcp://192.0.2.1:8786", "tcp://example.org:8786", "tcp://0.0.0.0:8786"])
def test_nothing_is_sent_to_other_machines_in_the_clear(address: str) -> None:
    with pytest.raises(InputError, match="is refused: other machines reach"):
        Workers.on(address)


@pytest.mark.parametrize("who", ["scheduler", "worker"])
def test_a_scheduler_or_worker_that_other_machines_reach_is_refused(who: str) -> None:
    given = {"scheduler": {"scheduler_kwargs": {"host": "0.0.0.0"}}, "worker": {"host": "0.0.0.0"}}  # noqa: S104
    options = {"scheduler_kwargs": {"host": "127.0.0.1"}, "host": "127.0.0.1"} | given[who]
    with here(**options) as cluster:
        port = cluster.scheduler_address.rpartition(":")[2]
        with pytest.raises(InputError, match="is refused: other machines reach"):
            Workers.on(f"tcp://127.0.0.1:{port}")


def test_a_scheduler_without_workers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_scheduler, "_PATIENCE", 0.1)
    with here(n_workers=0) as cluster, pytest.raises(InputError, match="has no workers"):
        Workers.on(cluster.scheduler_address)


def test_tls_takes_certificates_from_dasks_configuration(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"needs certificates: Dask's configuration has no distributed\.comm\.tls\.ca"):
        Workers.on("tls://192.0.2.1:8786")
    make_certificate(tmp_path)
    pair = {"cert": str(tmp_path / "tls.pem"), "key": str(tmp_path / "tls.key")}
    tls = {"ca-file": pair["cert"], "scheduler": pair, "worker": pair, "client": pair}
    with dask.config.set({f"distributed.comm.tls.{name}": value for name, value in tls.items()}):
        security = distributed.Security(require_encryption=True)
        with here(protocol="tls://", security=security) as cluster:
            assert cluster.scheduler_address.startswith("tls://")
            with Workers.on(cluster.scheduler_address) as workers:
                assert list(workers.map(square, ranges(3), 0)) == [0, 1, 4]
            make_certificate(tmp_path)  # of an authority that the scheduler does not know
            with pytest.raises(InputError, match="cannot be reached"):
                Workers.on(cluster.scheduler_address)


def set_version(version: str) -> None:
    fhe_auc.__version__ = version


def test_a_worker_of_another_version_is_refused_by_name(scheduler: str) -> None:
    with Workers.on(scheduler) as workers, distributed.Client(scheduler, set_as_default=False) as client:
        version = fhe_auc.__version__
        client.run(set_version, "0.1.0")
        try:
            with pytest.raises(
                InputError, match=rf"the worker tcp://127\.0\.0\.1:\d+ has fhe-auc 0\.1\.0: install {version} there"
            ):
                Workers.on(scheduler)
            with pytest.raises(EvaluationError, match=rf"a worker has fhe-auc 0\.1\.0, and {version} is needed"):
                list(workers.map(square, ranges(9), 0))  # it has come later, say
        finally:
            client.run(set_version, version)

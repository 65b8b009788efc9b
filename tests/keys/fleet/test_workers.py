"""Tasks: their results in order, and each once, whatever dies. Dask's: `test_dask`."""

import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fhe_auc.base.errors import InputError
from fhe_auc_keys.fleet.workers import Workers
from fhe_auc_keys.store.vault import OWN, Vault, create_with_random_passphrase
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import seal
from tests.support.engines import CLAIMS, ranges, square, unsealed
from tests.support.programs import run


@pytest.mark.parametrize("claim", CLAIMS)
def test_of_processes_which_leave_nothing_behind(claim: Callable[[Workers, Path], None], tmp_path: Path) -> None:
    before = dict(os.environ)
    with Workers(2) as workers:
        claim(workers, tmp_path)
    assert dict(os.environ) == before
    assert multiprocessing.active_children() == []


def test_one_worker_is_this_process_and_none_is_refused() -> None:
    with Workers() as workers:
        assert list(workers.map(square, ranges(5), 1)) == [1, 2, 5, 10, 17]
        with pytest.raises(InputError, match="9 is not to my taste"):
            list(workers.map(square, ranges(10), 1))
    with pytest.raises(InputError, match="at least one worker, got 0"):
        Workers(0)


@pytest.mark.parametrize("number", [1, 2])
def test_tasks_read_their_roles_keys_themselves(tmp_path: Path, adder: Identity, number: int) -> None:
    """Nobody sends them: the store stays closed meanwhile, and each process opens it once."""
    vault = Vault(tmp_path / "store", tmp_path / "passphrase")
    with create_with_random_passphrase(vault.directory, tmp_path / "passphrase") as store:
        store.put("identity", OWN, adder.to_bytes())
    sealed = seal(adder.encryption_key, b"a secret", info=b"")
    with Workers(number) as workers:
        found = list(workers.map(unsealed, [(str(each), sealed) for each in range(4)], workers.keys(vault)))
    assert {text for text, _ in found} == {"a secret"}
    assert (os.getpid() in {process for _, process in found}) is (number == 1)


def test_workers_end_with_a_parent_that_is_killed() -> None:
    """They have their role's private keys. As they have its output, too, `run` waits for them."""
    code = (
        "import os; from fhe_auc_keys.fleet.workers import Workers; "
        "found = Workers(2).map(int, [(1,), (2,)]); next(found); os._exit(9)"
    )
    assert run([sys.executable, "-c", code]).returncode == 9

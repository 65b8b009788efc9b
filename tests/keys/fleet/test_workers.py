"""Tasks: their results in order, and each once, whatever dies."""

import multiprocessing
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc_keys.errors import StoreError
from fhe_auc_keys.fleet.workers import MOST_DEATHS, OwnKeys, Workers, make_store
from fhe_auc_keys.store.vault import OWN, Vault, create_with_random_passphrase, own_identity
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import seal
from tests.support.programs import run


class Range(NamedTuple):
    name: str
    number: int


def square(part: Range, offset: int) -> int:
    return part.number * part.number + offset


def fail(part: Range) -> int:
    raise InputError(f"{part.number} is not to my taste")


def die(part: Range, folder: Path, deaths: int) -> int:
    """Kill the worker for the range 3, so many times, and say how often each range was begun."""
    with (folder / str(part.number)).open("a") as file:
        file.write("x")
    if part.number == 3 and (folder / "3").stat().st_size <= deaths:
        os._exit(1)
    return part.number


def unsealed(name: str, sealed: bytes, keys: OwnKeys) -> tuple[str, int]:
    return keys.identity().unseal(sealed, info=b"").decode(), os.getpid()


def ranges(number: int) -> Iterator[tuple[Range]]:
    return ((Range(f"range-{each}.parquet", each),) for each in range(number))


def begun(folder: Path) -> dict[int, int]:
    return {int(each.name): each.stat().st_size for each in folder.iterdir()}


def test_one_worker_is_this_process() -> None:
    with Workers() as workers:
        assert list(workers.map(square, ranges(5), 1)) == [1, 2, 5, 10, 17]
        assert list(workers.map(lambda _: os.getpid(), [(0,)])) == [os.getpid()]
        with pytest.raises(InputError, match="0 is not to my taste"):
            list(workers.map(fail, ranges(1)))


def test_no_worker_is_refused() -> None:
    with pytest.raises(InputError, match="at least one worker, got 0"):
        Workers(0)


def test_tasks_with_which_a_process_dies_are_done_again_and_counted_once(tmp_path: Path) -> None:
    with Workers(2) as workers:
        assert list(workers.map(die, ranges(9), tmp_path, 2)) == list(range(9))
    found = begun(tmp_path)
    assert found[3] == 3
    assert all(times <= 2 for number, times in found.items() if number != 3)  # they may have been under way with it


def test_a_task_that_kills_every_process_is_named_after_four(tmp_path: Path) -> None:
    with Workers(2) as workers:
        found = workers.map(die, ranges(9), tmp_path, 99)
        assert [next(found) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(EvaluationError, match=r"'range-3\.parquet': each worker that had it has died"):
            next(found)
    assert begun(tmp_path)[3] == MOST_DEATHS
    assert multiprocessing.active_children() == []


def test_tasks_read_their_roles_keys_themselves(tmp_path: Path) -> None:
    """Nobody sends them: the store stays closed meanwhile, and each process opens it once."""
    identity = Identity.create("adder")
    vault = Vault(tmp_path / "store", tmp_path / "passphrase")
    with create_with_random_passphrase(vault.directory, tmp_path / "passphrase") as store:
        store.put("identity", OWN, identity.to_bytes())
    sealed = seal(identity.encryption_key, b"a secret", info=b"")
    for number in (1, 2):
        with Workers(number) as workers:
            found = list(workers.map(unsealed, [(str(each), sealed) for each in range(4)], workers.keys(vault)))
        assert {text for text, _ in found} == {"a secret"}
        assert (os.getpid() in {process for _, process in found}) is (number == 1)


def test_with_a_workers_key_store_nobody_plays_the_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = Identity.create("adder")
    passphrase = make_store(tmp_path / "worker", identity)
    with Vault(tmp_path / "worker", passphrase).open() as store, pytest.raises(StoreError, match="holds nobody's keys"):
        own_identity(store)
    with pytest.raises(StoreError, match="FHE_AUC_STORE"):
        OwnKeys().identity()
    monkeypatch.setenv("FHE_AUC_STORE", str(tmp_path / "worker"))
    worker = OwnKeys().identity()
    assert worker.unseal(seal(identity.encryption_key, b"a secret", info=b""), info=b"") == b"a secret"
    assert worker.signing_key != identity.signing_key


def test_workers_leave_nothing_behind_and_the_environment_as_it_was() -> None:
    before = dict(os.environ)
    with Workers(2) as workers:
        assert list(workers.map(square, ranges(9), 0)) == [each * each for each in range(9)]
        with pytest.raises(InputError, match="0 is not to my taste"):
            list(workers.map(fail, ranges(1)))
        assert workers.seconds > 0
        assert workers.peak > 2**20 or sys.platform != "linux"
    assert dict(os.environ) == before
    assert multiprocessing.active_children() == []


def test_workers_end_with_a_parent_that_is_killed() -> None:
    """They have their role's private keys. As they have its output, too, `run` waits for them."""
    code = (
        "import os; from fhe_auc_keys.fleet.workers import Workers; "
        "found = Workers(2).map(int, [(1,), (2,)]); next(found); os._exit(9)"
    )
    assert run([sys.executable, "-c", code], timeout=120).returncode == 9

"""A fleet's session on every engine: the exact fraction, also where workers die, and no secret goes through one."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from fhe_auc.base.errors import EvaluationError
from fhe_auc_keys.fleet.simulation import simulate
from fhe_auc_keys.fleet.workers import Workers, make_store
from fhe_auc_keys.store import fixed_lists
from tests.support.dying_workers import STEPS, Dying
from tests.support.fleet_sessions import GRID, Play, fraction_of, padded, sending

R = TypeVar("R")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Play:
    made = Play(tmp_path_factory.mktemp("fleet") / "f", 9, least=3, per_file=3)
    assert made.submitted
    return made


@pytest.fixture
def play(made: Play, tmp_path: Path) -> Play:
    return made.copied(tmp_path)


def played(play: Play) -> None:
    """Play a session in which one record is counted, and taken off again: its proof is none."""
    lying = sending(play, 4, padded(play, 4), randomness=bytes(64))
    play.write([lying if each.member == 4 else each for each in play.records])
    _, verdicts = play.to_the_end()
    assert verdicts["counts"] == 8
    assert sum(verdicts.values()) == 9
    counted = [rows for member, rows in enumerate(play.rows) if member != 4]
    assert play.reads(0, counted)
    assert play.read(8).fraction == fraction_of(counted)


def test_in_this_process(play: Play) -> None:
    played(play)


@pytest.mark.parametrize("step", [STEPS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in STEPS[1:])])
def test_a_process_that_dies_in_any_step_changes_nothing(play: Play, tmp_path: Path, step: str) -> None:
    with Dying(Workers(2), tmp_path / "deaths", step) as play.at_hand:
        played(play)
        assert play.at_hand.deaths == {step: 1}


@pytest.mark.slow
def test_a_range_that_kills_every_process_is_named_and_can_be_collected_again(play: Play, tmp_path: Path) -> None:
    play.write()
    with (
        Dying(Workers(2), tmp_path / "deaths", STEPS[1], times=4) as play.at_hand,
        pytest.raises(EvaluationError, match=r"records/000001\.parquet': each worker that had it has died"),
    ):
        play.collect()
    assert not (tmp_path / "blobs" / "list").exists()
    with Workers(2) as play.at_hand:
        play.to_the_end()
    assert play.reads(0, play.rows)


def test_a_worker_of_dask_that_dies_in_each_step_changes_nothing(play: Play, tmp_path: Path) -> None:
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    stores = {name: tmp_path / "workers" / name for name in ("adder", "trustee")}
    for store, session in zip(stores.values(), (play.aggregator, play.helper), strict=True):
        make_store(store, session.identity)
    quiet = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50, "threads_per_worker": 1}
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h", "distributed.comm.timeouts.connect": "3s"}),
        distributed.LocalCluster(n_workers=2, host="127.0.0.1", **quiet) as cluster,
        Dying(Workers.on(cluster.scheduler_address), tmp_path / "deaths", *STEPS, stores=stores) as play.at_hand,
    ):
        played(play)
        assert play.at_hand.deaths == dict.fromkeys(STEPS, 1)


class Intercepted(Workers):
    """This process, and what an engine would be given and give back."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = list[bytes]()

    def map(self, function: Callable[..., R], parts: Iterable[tuple[object, ...]], *shared: object) -> Iterator[R]:
        told = []
        for part in parts:
            told.append(part)
            self.seen.append(pickle.dumps((part, shared)))
        for found in super().map(function, told, *shared):
            self.seen.append(pickle.dumps(found))
            yield found


def test_no_secret_goes_through_an_engine(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    play.at_hand = seen = Intercepted()
    fixed = list[bytes]()
    fix = fixed_lists.fix
    monkeypatch.setattr(fixed_lists, "fix", lambda *given: fixed.append(fix(*given)) or fixed[-1])
    played(play)
    passed = b"".join(seen.seen)
    secrets = [each.response_key for each in play.submitted] + fixed
    for session in (play.aggregator, play.helper):
        signing, (ml_kem, x25519) = session.identity.keys.components
        secrets += [signing, ml_kem, x25519]
    for name in ("adder", "trustee"):
        with play.vault(name).open() as store:
            secrets.append(store.key)
        secrets.append(Path(play.place(f"{name}.passphrase")).read_bytes().strip())
    assert all(len(each) >= 32 and each not in passed for each in secrets)
    assert len(passed) > 1000


def test_a_simulation_gives_tasks_what_any_engine_can_carry(tmp_path: Path) -> None:
    seen = Intercepted()
    found = simulate(30, GRID, tmp_path, seen, proofs=False, progress=lambda *_: None)
    assert found.equal
    assert len(seen.seen) == 12  # of each of six steps, one range's arguments and results

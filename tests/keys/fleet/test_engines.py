"""A fleet's session on every engine: the exact fraction, also where workers die, and no secret goes through one."""

from pathlib import Path
from typing import Any

import pytest

from fhe_auc.base.errors import EvaluationError
from fhe_auc_keys.fleet.session import opened_part
from fhe_auc_keys.fleet.workers import Workers, make_store
from fhe_auc_keys.roles.blobs import blob_info
from fhe_auc_keys.store import fixed_lists
from tests.support.engines import STEPS, Watched
from tests.support.fleet_sessions import Play, about, fraction_of, padded, query_listed, sending

FLEET = {"number": 9, "least": 3, "per_file": 3}


def played(play: Play, workers: Watched) -> None:
    """Play a session in which one record is counted, and taken off again: its proof is none."""
    lying, play.at_hand = sending(play, 4, padded(play, 4), randomness=bytes(64)), workers
    records = [lying if each.member == 4 else each for each in play.records]
    play.write(records)
    assert sorted(play.to_the_end()[1].values()) == [1, 8]
    assert play.read(0).fraction == play.read(8).fraction == fraction_of([*play.rows[:4], *play.rows[5:]])

    digest, helper = play.announced.manifest.digest, play.helper.identity
    response_keys = [each.response_key for each in play.submitted]
    secrets = [query_listed(play), opened_part(response_keys[0], play.parts()[0], digest, 0), *response_keys]
    secrets += [helper.unseal(each.blob, info=blob_info(about(play, each)))[:32] for each in records]  # pads' seeds
    for name, session in (("adder", play.aggregator), ("trustee", play.helper)):
        signing, unsealing = session.identity.keys.components
        secrets += [signing, *unsealing, Path(play.place(f"{name}.passphrase")).read_bytes().strip()]
        with play.vault(name).open() as store:
            secrets.append(store.key)
            if name == "adder":
                secrets.append(store.load("list", play.announced.manifest.session.hex(), fixed_lists._FORMAT).secret)
    assert play.announced.manifest.to_bytes() in workers.carried
    assert all(len(each) >= 32 and each not in workers.carried for each in secrets)


def test_in_this_process(play: Play, tmp_path: Path) -> None:
    played(play, Watched(Workers(), tmp_path / "deaths"))


@pytest.mark.parametrize("step", [STEPS[3], *(pytest.param(each, marks=pytest.mark.slow) for each in STEPS[:3])])
def test_a_process_that_dies_in_any_step_changes_nothing(play: Play, tmp_path: Path, step: str) -> None:
    with Watched(Workers(2), tmp_path / "deaths", step) as workers:
        played(play, workers)
        assert workers.deaths == {step: 1}


@pytest.mark.slow
def test_a_range_that_kills_every_process_is_named_and_can_be_collected_again(play: Play, tmp_path: Path) -> None:
    play.write()
    with (
        Watched(Workers(2), tmp_path / "deaths", STEPS[1], times=4) as play.at_hand,
        pytest.raises(EvaluationError, match=r"records/000001\.parquet': each worker that had it has died"),
    ):
        play.collect()
    assert not (tmp_path / "blobs" / "list").exists()
    with Workers(2) as play.at_hand:
        play.to_the_end()
    assert play.reads(0, play.rows)


def test_a_worker_of_dask_that_dies_in_each_step_changes_nothing(play: Play, tmp_path: Path, scheduler: Any) -> None:
    stores = {name: tmp_path / "workers" / name for name in ("adder", "trustee")}
    for store, session in zip(stores.values(), (play.aggregator, play.helper), strict=True):
        make_store(store, session.identity)
    with Watched(Workers.on(scheduler), tmp_path / "deaths", *STEPS, stores=stores) as workers:
        played(play, workers)
        assert workers.deaths == dict.fromkeys(STEPS, 1)

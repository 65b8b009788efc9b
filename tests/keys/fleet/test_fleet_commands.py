"""A fleet's commands, between key stores, and a simulation of it all."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fhe_auc_keys.bundles.announcement import open_announcement
from fhe_auc_keys.cli.fleet import ALONE
from fhe_auc_keys.cli.fleet import fleet as command
from fhe_auc_keys.errors import StoreError
from fhe_auc_keys.fleet.session import UNOPENED
from fhe_auc_keys.fleet.simulation import simulate
from fhe_auc_keys.fleet.workers import OwnKeys, Workers
from fhe_auc_keys.store import known_members
from fhe_auc_keys.trust.sealing import seal
from fhe_auc_keys.trust.signatures import has_signed
from tests.support.certified import NOW
from tests.support.command_line import printed
from tests.support.engines import Watched
from tests.support.fleet_sessions import GRID, Play
from tests.support.keys_commands import store_of
from tests.support.keys_folder import ADDER, SITES, at
from tests.support.stores import trail_of


def run(who: str, *arguments: str, status: int = 0) -> Any:
    done = CliRunner().invoke(command, [*arguments, *at(who), "--json"], catch_exceptions=False)
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


def noted(who: str, keys: str, study: str) -> list[str]:
    """What convening says against a study."""
    Path("other.toml").write_text(study)
    arguments = "convene", keys, "other.toml", "--row-cap", "12", "--out", "other.fleet", "--force", *at(who)
    done = CliRunner().invoke(command, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["study"].get("epsilon")
    assert told == (2.0 if "epsilon" in study else None)
    return [line.removeprefix("warning: ") for line in done.stderr.splitlines() if line]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path / "play", 8, per_file=3)


def test_the_commands_play_a_session_between_key_stores(play: Play, consortium: Path) -> None:
    convener, trustee = SITES
    told = {each: each for each in ("model", "outcome", "cohort", "period")} | {"protocol": "exact"}
    told |= {"thresholds": "uniform:12", "aggregator": ADDER, "helper": trustee}
    study = "min-parties = 5\n" + "".join(f'{name} = "{text}"\n' for name, text in told.items())
    Path("study.toml").write_text(study)
    Path("unproved.toml").write_text(f"proofs = false\n{study}")
    names = "session.fleet", "keys", "records", "blobs", "answers", "result", "unproved.fleet", "none"
    session, keys, records, blobs, answers, result, unproved, none = map(play.place, names)
    printed("members", "renew", "north/config.toml", "--fleet", keys)
    for name in (trustee, ADDER):
        printed("members", "show", f"{name}/config.toml")
    run(convener, "convene", keys, "study.toml", "--row-cap", "12", "--out", session)
    run(convener, "convene", keys, "unproved.toml", "--row-cap", "12", "--out", unproved)
    Path("weighed.toml").write_text(f'weight-column = "ipw=3"\n{study}')
    refused = CliRunner().invoke(
        command, ["convene", keys, "weighed.toml", "--row-cap", "12", "--out", none, *at(convener)]
    )
    assert (refused.exit_code, "no weights, no times" in str(refused.exception)) == (1, True)
    assert noted(convener, keys, study) == [ALONE]
    assert noted(convener, keys, f"epsilon = 2.0\n{study}") == []
    private = f"epsilon = 2.0\n{study}".replace('"exact"', '"histogram-distributed-dp"')
    (unproved_too,) = noted(convener, keys, private)
    assert unproved_too.startswith("no party proves what it puts in: one that lies can decide the AUC")
    with store_of(convener) as store:
        known = known_members.stored(store)
    by = "--holder", convener
    play.announced = open_announcement(Path(unproved).read_bytes(), known, holder=convener, at=NOW)
    assert play.computation.proofs is None
    play.write([play.device(index).submit(play.rows[index], b"").record for index in range(4)])
    run(ADDER, "collect", unproved, records, none, *by)
    told = run(trustee, "open", unproved, keys, none, play.place("word"), *by, status=1)
    assert (told["opened"], told["records"]) == (False, {"counts": 4})
    assert run(trustee, "open", unproved, play.place("again"), "--nothing", *by)["opened"] is False
    word, again = (Path(play.place(each), "opening").read_bytes() for each in ("word", "again"))
    assert word == again
    helper_key = play.announced.helper.signing_key  # type: ignore[union-attr]
    assert has_signed(helper_key, UNOPENED, play.announced.manifest.digest, word)
    play.announced = open_announcement(Path(session).read_bytes(), known, holder=convener, at=NOW)
    play.write(play.records[:7])
    assert run(ADDER, "collect", session, records, blobs, *by)["records"] == 7
    for places in ((answers,), (keys, blobs, answers, "--nothing"), ()):
        done = CliRunner().invoke(command, ["open", session, *places, *by, *at(trustee)])
        assert (done.exit_code, "give KEYS, BLOBS and ANSWERS" in done.output) == (2, True)
    assert run(trustee, "open", session, keys, blobs, answers, *by)["records"] == {"counts": 7}
    run(ADDER, "add", session, records, blobs, answers, result, *by)
    assert run(trustee, "decrypt", session, result, answers, *by)["devices"] == 7
    assert play.reads(6, play.rows[:7])
    assert play.read(6).inputs_proved == "row caps"
    for name in SITES:
        assert len(trail_of(Path(name, "store"))) == 2 + 2 * (name == trustee) + 3 * (name == convener)


def test_a_store_for_workers_unseals_for_its_role_and_does_nothing_else(
    play: Play, consortium: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="a worker has no FHE_AUC_STORE"):
        OwnKeys().identity()
    made = run(ADDER, "worker", "new/store")
    with store_of(ADDER) as store:
        member = known_members.stored(store).named(ADDER, NOW)
    monkeypatch.setenv("FHE_AUC_STORE", made["store"])
    unsealing = OwnKeys().identity()
    assert unsealing.unseal(seal(member.encryption_key, b"a secret", info=b""), info=b"") == b"a secret"
    assert unsealing.signing_key != member.signing_key
    Path("any.fleet").touch()
    own = "--holder", "any", "--store", made["store"], "--passphrase-file", made["passphrase_file"]
    for step, places in {"collect": "12", "open": "123", "add": "1234", "decrypt": "12"}.items():
        done = CliRunner().invoke(command, [step, "any.fleet", *places, *own])
        assert "this key store holds nobody's keys" in str(done.exception or done.output)


def test_workers_are_processes_or_a_schedulers() -> None:
    done = CliRunner().invoke(command, ["simulate", "--workers", "2", "--scheduler", "tcp://127.0.0.1:1"])
    assert done.exit_code == 2
    assert "give --workers or --scheduler" in done.output


@pytest.mark.parametrize("more", [pytest.param((), marks=pytest.mark.slow), ("--no-proofs",)])
def test_simulate_plays_a_session_and_says_whether_it_is_exact(tmp_path: Path, more: tuple[str, ...]) -> None:
    arguments = ["simulate", "--parties", "40", "--thresholds", "uniform:20", "--folder", str(tmp_path / "new"), *more]
    found = json.loads(CliRunner().invoke(command, [*arguments, "--json"], catch_exceptions=False).stdout)
    assert (found["equal"], found["counted"], found["fraction"]) == (True, 40, found["expected"])
    steps = {role: len(each) for role, each in found["cpu_seconds"].items()}
    assert steps == {"devices": 3, "aggregator": 2, "helper": 2}
    assert (found["record_bytes"] < 3500) == bool(more)
    assert found["peak_bytes"] > 2**20 or sys.platform != "linux"


def test_a_simulation_with_noise_is_as_near_as_that_is() -> None:
    arguments = ["simulate", "--parties", "40", "--thresholds", "uniform:20", "--epsilon", "32", "--json"]
    found = json.loads(CliRunner().invoke(command, arguments, catch_exceptions=False).stdout)
    assert (found["equal"], found["counted"], found["fraction"]) == (True, 40, None)
    assert 0 < found["noise"] < 0.2


def test_a_simulation_gives_tasks_what_any_engine_can_carry(tmp_path: Path) -> None:
    seen = Watched(Workers(), tmp_path)
    assert simulate(30, GRID, tmp_path / "new", seen, proofs=False, progress=lambda *_: None).equal
    assert seen.carried

"""A session made again without some of its parties is as the old one was, and never beside a result of the old one."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from fhe_auc.question import thresholds
from fhe_auc_keys.bundles.announcement import Announcement, open_announcement
from fhe_auc_keys.site.key_store_sites import StoredState
from fhe_auc_keys.store import known_members
from tests.support.certified import DAY, NOW
from tests.support.keys_commands import (
    Clock,
    assert_fails,
    call,
    changed,
    join,
    json_of,
    ok,
    open_as,
    store_of,
    write_study,
)
from tests.support.keys_folder import NORTH, SOUTH
from tests.support.stores import alter

FOUR = ("north", "south", "east", "west")
STATED = "--no-result-was-released"


@pytest.fixture(autouse=True)
def four(consortium: Path) -> None:
    """A consortium of four sites."""
    join(*FOUR[2:])


def made(out: str, *options: str, parties: tuple[str, ...] = FOUR) -> dict[str, Any]:
    grid = () if "--thresholds" in options else ("--thresholds", "uniform:16")
    said: dict[str, Any] = json_of("session", *parties, *NORTH, *grid, *options, "--out", out)
    return said


def again(old: dict[str, Any], out: str, *options: str) -> Result:
    return call("session", "--from", old["session"], *options, *NORTH, "--out", out, "--json")


def announced(path: str) -> Announcement:
    with store_of("north") as store:
        return open_announcement(Path(path).read_bytes(), known_members.stored(store), holder="north", at=NOW)


def test_one_command_leaves_a_party_out_and_keeps_all_else() -> None:
    write_study("capped.toml", row_caps={"north": 5000, "south": 20_000, "east": 300, "west": 4000})
    thresholds.save("grid.txt", np.arange(9) / 11)
    asked = "--study capped.toml --thresholds grid.txt --by sex=F,M --interval 0.9 --days 3"
    old = made("old", *asked.split(), "--protocol", "exact", "--backend", "tenseal")
    done = again(old, "new", "--without", "south", STATED)
    assert done.exit_code == 0, done.output
    new = json.loads(done.stdout)
    same = set(old) - {"session", "context", "files", "parties", "study", "max_rows", "min_parties"}
    assert {name: new[name] for name in same} == {name: old[name] for name in same}
    before, after = (announced(f"{folder}/session.announcement").manifest for folder in ("old", "new"))
    assert (after.grid, after.options, after.protocol) == (before.grid, before.options, before.protocol)
    assert new["parties"] == {name: shown for name, shown in old["parties"].items() if name != "south"}
    assert new["study"]["row_caps"] == {"north": 5000, "east": 300, "west": 4000}
    assert (old["max_rows"], new["max_rows"], new["min_parties"]) == (29_300, 9300, 3)
    assert (new["session"] != old["session"], new["context"] != old["context"]) == (True, True)
    assert "let every party close that one, by `fhe-auc keys close" in done.stderr
    assert not Path("new/south.bundle").exists()
    assert open_as("east", "new/east.bundle", "--study", "capped.toml").exit_code == 1  # the study's caps are others
    write_study("left.toml", row_caps={"north": 5000, "east": 300, "west": 4000})
    assert open_as("east", "new/east.bundle", "--study", "left.toml").exit_code == 0
    fewer = again(new, "fewest", "--without", "east", "--without", "west", STATED)
    assert_fails(fewer, 2, "1 parties would be left, and this session needs 2 at least")


@pytest.mark.parametrize(
    "options",
    [
        ("--protocol", "verified", "--thresholds", "quantile:8"),
        ("--protocol", "dpauc-laplace", "-o", "epsilon=1", "--thresholds", "uniform:8"),
        pytest.param(
            ("--protocol", "malicious", "--backend", "tenseal", "-o", "tolerance=1e-4"), marks=pytest.mark.slow
        ),
    ],
)
def test_sessions_of_every_kind_can_be_made_again(options: tuple[str, ...]) -> None:
    old = made("old", *options)
    new = json.loads(again(old, "new", "--without", "west", STATED).stdout)
    same = ("protocol", "options", "thresholds", "backend")
    assert [new[name] for name in same] == [old[name] for name in same]
    assert list(new["parties"]) == ["north", "south", "east"]


def test_a_session_is_replaced_once_and_only_where_somebody_states_that_no_result_was_released() -> None:
    """Two replacements, each without another site, would tell about both."""
    old = made("old")
    refused = again(old, "new", "--without", "south")
    assert_fails(refused, 1, "nobody can see here whether session .* has released its result.*--no-result-was-released")
    assert not Path("new").exists()
    new = json.loads(again(old, "new", "--without", "south", STATED).stdout)
    assert_fails(again(old, "more", "--without", "east", STATED), 1, f"was replaced by {new['session']} already")
    assert again(new, "more", "--without", "east", STATED).exit_code == 0
    assert f"replaced by {new['session']}" in ok("show", *NORTH).stdout.replace("\n", "")


def assert_never_again(old: dict[str, Any], why: str) -> None:
    for closed in (False, True):
        if closed:  # nor does closing by hand make it forget
            ok("close", old["session"], "--lose-result", *NORTH)
        for stated in ((), (STATED,)):
            assert_fails(again(old, "new", "--without", "south", *stated), 1, why)


def test_a_key_holder_that_has_the_result_itself_makes_nothing_again_whatever_anybody_states() -> None:
    old = made("old")
    assert open_as("north", "old/north.bundle").exit_code == 0
    with store_of("north") as store:
        StoredState(store, "north").close(bytes.fromhex(old["session"]))  # as `answer` does after the result
    assert_never_again(old, f"this site has the result of session {old['session']}")
    assert "closed, with its result; its keys are destroyed" in " ".join(ok("show", *NORTH).stdout.split())


def test_what_does_not_go_with_from_is_refused(clock: Clock) -> None:
    old = made("old")
    assert_fails(again(old, "new"), 2, "--from needs --without")
    assert_fails(again(old, "new", "--without", "nobody", STATED), 2, "'nobody' is no party of the session, whose are")
    for option in (("--days", "3"), ("--protocol", "exact"), ("--study", "study.toml"), ("--min-parties", "2")):
        refused = again(old, "new", "--without", "south", STATED, *option)
        assert_fails(refused, 2, f"{option[0]} does not go with --from")
    own = ("north", *NORTH)
    assert_fails(call("session", *own, "--without", "south"), 2, "go with --from")
    assert_fails(call("session", *NORTH), 2, "missing argument 'NAME...'")
    at_south = ("session", "--from", old["session"], "--without", "east", STATED, *SOUTH)
    assert_fails(call(*at_south), 1, "no session .* was made with this key store")
    clock.at += 10 * DAY
    assert again(old, "new", "--without", "south", STATED).exit_code == 0  # also once the old one has ended


def test_a_party_that_was_left_out_meanwhile_is_named_and_a_damaged_record_with_the_remedy() -> None:
    old = made("old")
    changed("remove", "east")
    assert_fails(again(old, "new", "--without", "south", STATED), 1, "'east' is no member")
    assert again(old, "new", "--without", "south", "--without", "east", STATED).exit_code == 0
    alter(Path("north/store"), f"made/{old['session']}", lambda data: data[:-1])
    assert_fails(again(old, "more", "--without", "south", STATED), 1, "made/.* is damaged.*restore it from the backup")
    (found,) = json.loads(call("check", *NORTH, "--json").stdout)["problems"]
    assert found["entry"] == f"made/{old['session']}"


def call_repeat(session: str, *options: str) -> Result:
    Path("exchange").mkdir(exist_ok=True)
    return call("session", "--repeat", session, *options, *NORTH, "--out", "exchange", "--json")


def repeated(session: str, *options: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(call_repeat(session, *options).stdout)
    return said


def test_a_study_is_repeated_by_one_constant_command_and_nothing_but_keys_and_id_changes() -> None:
    write_study("capped.toml", row_caps={"north": 5000, "south": 20_000, "east": 300, "west": 4000})
    asked = ("--study", "capped.toml", "--by", "sex=F,M", "--interval", "0.9", "--days", "3")
    first = made("first", *asked)
    second, third = repeated(first["session"]), repeated(first["session"])
    fresh = {"session", "context", "files"}
    assert {name: third[name] for name in set(first) - fresh} == {name: first[name] for name in set(first) - fresh}
    assert len({each[name] for each in (first, second, third) for name in ("session", "context")}) == 6
    assert {Path(path).parent for path in third["files"].values()} == {
        Path("exchange", f"session-{third['session'][:8]}")
    }
    # Which one of the series is named does not matter.
    assert repeated(second["session"])["parties"] == first["parties"]
    # It is a session of its own: that it is repeated gives nobody's result away, and leaves nobody out.
    assert_fails(call_repeat(first["session"], "--without", "south"), 2, "--without does not go with --repeat")
    assert_fails(call_repeat(first["session"], "--days", "5"), 2, "--days does not go with --repeat")
    assert_fails(call_repeat("ab" * 16), 1, "no session .* was made with this key store")


def test_new_keys_take_their_place_in_a_repetition_and_who_was_left_out_is_named() -> None:
    first = made("first", "--days", "7")
    assert_fails(call_repeat(first["session"], "east"), 2, "parties does not go with --repeat")
    shutil.rmtree("west")
    join("west")
    new = repeated(first["session"])
    assert {name for name in FOUR if new["parties"][name] != first["parties"][name]} == {"west"}
    changed("remove", "south")
    assert_fails(call_repeat(first["session"]), 1, "'south' is no member in version 5")


def test_a_session_that_was_replaced_or_finds_thresholds_is_not_repeated() -> None:
    finds = made("finds", "--protocol", "verified", "--thresholds", "quantile:8")
    assert_fails(call_repeat(finds["session"]), 2, "finds thresholds, and is not repeated: repeat the evaluation")
    first = made("first", "--protocol", "exact")
    second = repeated(first["session"])
    new = json.loads(again(second, "new", "--without", "west", STATED).stdout)
    why = f"session {second['session']} was replaced by {new['session']}, without some of its parties"
    assert_fails(call_repeat(first["session"]), 1, why)
    assert list(repeated(new["session"])["parties"]) == ["north", "south", "east"]


def test_repeating_says_what_results_over_time_tell_and_that_budgets_are_spent() -> None:
    noisy = made("noisy", "--protocol", "dpauc-laplace", "-o", "epsilon=1", "--thresholds", "uniform:8")
    for session, spends in ((noisy["session"], True), (made("plain")["session"], False)):
        said = call_repeat(session).stderr
        assert "results of the same study over time tell differences" in said
        assert ("each repetition spends its epsilon again" in said) is spends

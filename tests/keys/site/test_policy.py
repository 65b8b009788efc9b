"""What is within a site's policy is opened without asking anybody; everything else is refused, with the reason."""

import json
import re
import shutil
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from fhe_auc_keys.site.policy import Policy
from fhe_auc_keys.site.session_files import announced_to_party
from fhe_auc_keys.store import known_members
from tests.support.certified import DAY, NOW, STUDY
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
from tests.support.keys_folder import ADDER, NORTH, SITES, SOUTH, at
from tests.support.stores import alter, bytes_of
from tests.support.wire import flipped

pytestmark = pytest.mark.usefixtures("consortium")

POLICY: Mapping[str, Any] = {
    "holder": "north",
    "protocols": ["verified", "exact"],
    "model": STUDY.model,
    "outcome": STUDY.outcome,
    "min-parties": 2,
    "max-thresholds": 16,
    "options": {"interval": 0.95},
}


def set_policy(**changes: Any) -> Result:
    """Set south's policy: `POLICY`, but for the changes; None leaves a key out."""
    told = {**POLICY, **{name.replace("_", "-"): value for name, value in changes.items()}}
    options = told.pop("options")
    lines = [f"{name} = {json.dumps(value, default=str)}" for name, value in told.items() if value is not None]
    lines = [re.sub(r'^(until = )"(.*)"', r"\1\2", line) for line in lines]
    lines += ["[options]", *(f"{name} = {json.dumps(value)}" for name, value in options.items())]
    Path("policy.toml").write_text("\n".join(lines))
    return call("policy", "policy.toml", *SOUTH, "--json")


def made(out: str, *options: str, holder: str = "north") -> None:
    grid = () if "--thresholds" in options else ("--thresholds", "uniform:16")
    study = () if "--study" in options else ("--study", "study.toml")
    ok("session", *SITES, *study, *at(holder), *grid, *options, "--out", out)


def opened(*paths: str) -> dict[str, tuple[str, str]]:
    """Open by policy as south; return outcome and reason of each file by its name."""
    done = call("open", "--policy", *paths, *SOUTH, "--json")
    told = json.loads(done.stdout)["files"]
    assert done.exit_code == (1 if any(each["outcome"] == "REFUSED" for each in told) else 0)
    return {Path(each["file"]).name: (each["outcome"], each["why"]) for each in told}


def assert_refused(path: str, reason: str, **changes: Any) -> None:
    """Under the changed policy the file is refused for that reason."""
    assert set_policy(**changes).exit_code == 0
    outcome, why = opened(path)[Path(path).name]
    assert outcome == "REFUSED"
    assert re.search(reason, why), why


def assert_opened(path: str, **changes: Any) -> None:
    assert set_policy(**changes).exit_code == 0
    assert opened(path)[Path(path).name][0] == "opened"


def sessions() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json_of("show", *SOUTH)["sessions"]
    return found


def test_a_folder_is_opened_without_asking_anybody_and_looked_at_again_without_harm() -> None:
    assert set_policy().exit_code == 0
    Path("week/notes.txt").write_text("see you on Monday")
    Path("week/more").mkdir()
    expected = {
        "aggregator.bundle": ("passed over", "not for a party"),
        "north.bundle": ("passed over", "for another party, or for other keys"),
        "notes.txt": ("passed over", "not for a party"),
        "session.announcement": ("passed over", "not for a party"),
    }
    first = opened("week")
    outcome, why = first.pop("south.bundle")
    assert first == expected
    assert (outcome, list(sessions())) == ("opened", [why.removeprefix("session ")])
    assert opened("week", "week/south.bundle") == {**expected, "south.bundle": ("passed over", "opened before")}
    assert len(sessions()) == 1
    made("other")  # nor is one that was opened by hand opened again, under another name
    assert open_as("south", "other/south.bundle").exit_code == 0
    Path("inbox").mkdir()
    shutil.copy("other/south.bundle", "inbox/new.bundle")
    assert opened("inbox") == {"new.bundle": ("passed over", "opened before")}


def test_what_is_outside_any_bound_is_refused_with_the_reason_and_not_used_up() -> None:
    for changes, reason in (
        ({"protocols": ["exact"]}, "protocol is 'verified', not 'exact'"),
        ({"keys": ["none"]}, "keys is 'sealed', not 'none'"),
        ({"model": "sepsis-net 2.0"}, "model is 'sepsis-net 2.1', not 'sepsis-net 2.0'"),
        ({"outcome": "death"}, "outcome is .*, not 'death'"),
        ({"cohort": "children"}, "cohort is 'adults in intensive care', not 'children'"),
        ({"period": "2028"}, "period is '2029', not '2028'"),
        ({"min-parties": 3}, "2 parties are enough for its result, fewer than 3"),
        ({"max-thresholds": 15}, "it has 16 thresholds, more than 15"),
        ({"max-days": 6}, "it can go on until 2030-05-08 12:00 UTC, for more than 6 days"),
        ({"max-row-cap": 10**6}, "'north' has no row cap, or one above 1,000,000"),
        ({"options": {}}, "option interval is 0.95, which the policy's .options. do not allow"),
        ({"options": {"interval": [0.9, 0.99]}}, "option interval is 0.95"),
        ({"options": {"interval": True}}, "option interval is 0.95"),
    ):
        outside = "outside this site's policy, so that a person has to open it .`fhe-auc keys open`.: "
        assert_refused("week/south.bundle", outside + reason, **changes)
    assert sessions() == {}
    assert_opened("week/south.bundle")
    made("theirs", holder="south")  # whoever certified it
    assert_refused("theirs/south.bundle", "^the party bundle was signed by 'south', not by 'north'$")


def test_caps_and_columns_and_noise_are_within_the_policy_only_where_it_names_them() -> None:
    write_study("capped.toml", row_caps={"north": 4000, "south": 5000})
    made("capped", "--study", "capped.toml", "--by", "sex=F,M", "--score-columns", "risk_a,risk_b")
    made("noisy", "--protocol", "dpauc-laplace", "-o", "epsilon=1", "--thresholds", "uniform:8")
    bundle, convened = "capped/south.bundle", "noisy/session.convened"
    generous = {"max_row_cap": 5000, "groups": ["sex"], "score_columns": ["risk_a", "risk_b"]}
    for changes, reason in (
        ({"max_row_cap": 4999}, "'south' has no row cap, or one above 4,999"),
        ({"groups": []}, "group 'sex' is none that the policy names"),
        ({"score_columns": ["risk_a"]}, "score column 'risk_b' is none"),
    ):
        assert_refused(bundle, reason, **{**generous, **changes})
    assert_opened(bundle, **generous)
    noise = {"protocols": ["dpauc-laplace"], "keys": ["none"]}
    rest = {"budget_thresholds": 8, "clip": True, "endpoints": False, "monotone": False}
    assert_refused(convened, "option epsilon is 1", **noise, options={**rest, "epsilon": 0.5})
    assert_opened(convened, **noise, options={**rest, "epsilon": [0.5, 1]})


def test_a_study_that_lets_more_sites_be_away_than_the_policy_is_for_a_person() -> None:
    write_study("away.toml", most_away=2)
    made("away", "--study", "away.toml")
    for allowed in ({}, {"most-away": 1}):
        assert_refused("away/south.bundle", "may tell the counts of 2 sites .most-away., more than", **allowed)
    assert_opened("away/south.bundle", **{"most-away": 2})


def test_where_a_policy_asks_for_row_caps_a_session_that_could_prove_them_and_does_not_is_for_a_person() -> None:
    """Else a site that convenes, and lies, would be bounded by nothing, and no site would see it."""
    join("registry")
    write_study("capped.toml", row_caps={"north": 4000, "south": 5000})
    capped = "--study", "capped.toml", "--keys", "helper", "--helper", "registry"
    made("proved", *capped)
    made("unproved", *capped, "--no-proofs")
    made("finding", *capped, "--thresholds", "quantile:8")
    allowed = {"keys": ["helper"], "helpers": ["registry"]}
    assert_refused("unproved/south.bundle", "row caps that they do not prove", max_row_cap=5000, **allowed)
    assert_opened("proved/south.bundle", max_row_cap=5000, **allowed)
    finds = {"protocols": ["boundaries-federated"], "max-thresholds": 20_000, "options": {"bins": 8}}
    assert_opened("finding/south.bundle", max_row_cap=5000, **allowed, **finds)
    assert_opened("unproved/south.bundle", **allowed)


def test_a_session_without_an_option_that_the_policy_names_is_refused() -> None:
    """Else a policy that allows one epsilon would open a session without noise.

    Nor is a policy asked for row caps beside it: no session with an epsilon is made without. One of `verified` that
    lets no helper be is not taken (`test_a_policy_with_a_mistake_is_not_taken`).
    """
    join("registry")
    write_study("capped.toml", row_caps={"north": 4000, "south": 5000})
    write_study("half.toml", row_caps={"north": 4000})
    noise, helper = ("--epsilon", "0.5"), ("--keys", "helper", "--helper", "registry")
    for study, *asked in (("capped", *helper, "--no-proofs"), ("study", *helper), ("half", *helper)):
        made_of = (*SITES, "--study", f"{study}.toml", "--thresholds", "uniform:16", *noise, *asked)
        refused = call("session", *made_of, *NORTH, "--out", "private")
        assert_fails(refused, 2, "take a helper .*a row cap of each site .* and leave --no-proofs out")
        assert not Path("private").exists()
    made("private", "--study", "capped.toml", *noise, *helper)
    private = {"interval": 0.95, "epsilon": 0.5}
    missing = r"option epsilon is not there, which the policy's \[options\] demand$"
    either, allowed = ({"keys": keys, "helpers": ["registry"]} for keys in (["sealed", "helper"], ["helper"]))
    assert_refused("week/south.bundle", missing, options=private, **either)
    assert_refused("private/south.bundle", "keys is 'helper', not 'sealed'", options={"interval": 0.95})
    assert_opened("private/south.bundle", options={**private, "epsilon_unit": "row", "colluders": 0}, **allowed)


def test_a_helper_is_within_the_policy_only_where_it_is_named() -> None:
    """Else who convenes would pick alone who, with the aggregator, reads every party's counts."""
    join("registry")
    made("helped", "--keys", "helper", "--helper", "registry")
    reason = ": helper is 'registry', which the policy's helpers do not allow$"
    for allowed in (["office"], ["office", "south"], ["helper-1", "office"]):
        assert_refused("helped/south.bundle", reason, keys=["helper"], helpers=allowed)
    set_policy(keys=["helper"], helpers=["registry", "office"])
    assert opened("helped/session.helper")["session.helper"][0] == "passed over"
    assert opened("helped/south.bundle")["south.bundle"][0] == "opened"


def test_small_groups_classes_and_patients_are_for_a_person_to_open() -> None:
    for out, asked in (
        ("small", "--by sex=F,M --min-cell 1"),
        ("classes", "--classes low,middle,high --score-columns a,b,c"),
        ("patients", "--cluster patient_id"),
    ):
        made(out, *asked.split())
        assert_refused(f"{out}/south.bundle", "", groups=["sex"], score_columns=["a", "b", "c"])


def test_forged_and_outdated_files_and_those_with_who_was_left_out_keep_no_others_back(
    clock: Clock,
) -> None:
    set_policy()
    made("old")
    whole = Path("week/south.bundle").read_bytes()
    Path("week/0.bundle").write_bytes(flipped(whole, -100))
    Path("week/1.bundle").write_bytes(whole[:200])
    found = opened("week")
    assert [found[name][0] for name in ("0.bundle", "1.bundle", "south.bundle")] == ["REFUSED", "REFUSED", "opened"]
    clock.at += 7 * DAY + timedelta(minutes=1)
    assert "outdated" in opened("old")["south.bundle"][1]
    made("late")
    changed("remove", ADDER)
    refused = call("open", "--policy", "late", *SOUTH)
    assert (refused.exit_code, "is no member in version" in " ".join(refused.stdout.split())) == (1, True)


def test_a_study_is_answered_no_more_often_than_the_policy_says_whatever_clocks_say(clock: Clock) -> None:
    said = set_policy(hours_between=20)
    assert "results of the same study over time tell differences" in said.stderr
    assert opened("week")["south.bundle"][0] == "opened"
    made("same-night")  # and shown a day later, too
    too_soon = r"the last session of this study{} at 2030-05-01 .* UTC, and hours-between is 20$"
    assert_refused("same-night/south.bundle", too_soon.format(""), hours_between=20)
    clock.at += timedelta(hours=23)
    assert_refused("same-night/south.bundle", too_soon.format(" was made"), hours_between=20)
    write_study("other.toml", cohort="children", period="2030")  # another study in name only
    made("renamed", "--study", "other.toml")
    clock.at -= timedelta(hours=4)
    assert_refused("renamed/south.bundle", "opened at|not begun", hours_between=20)
    clock.at += timedelta(hours=4)
    made("next")
    assert_opened("next/south.bundle", hours_between=20)
    made("third")
    clock.at -= timedelta(minutes=4)  # too little for the session to be refused because it has not begun
    behind = r"by its clock this site took part in .* in the future, at 2030-05-02 11:00 UTC: check the clock$"
    assert_refused("third/south.bundle", behind, hours_between=20)
    ok("policy", "--remove", *SOUTH)  # and set again, which forgets nothing
    assert_refused("third/south.bundle", behind, hours_between=1)
    assert_opened("third/south.bundle")
    assert "epsilon" not in said.stderr
    assert (
        "spends its epsilon again"
        in set_policy(hours_between=20, options={"epsilon": 0.5}, keys=["helper"], helpers=["registry"]).stderr
    )


def test_who_was_late_last_time_is_told_from_when_on_it_takes_part_again(clock: Clock) -> None:
    set_policy(hours_between=20)
    clock.at += timedelta(hours=10)
    assert opened("week")["south.bundle"][0] == "opened"
    clock.at += timedelta(hours=11)
    made("next")
    turn = r"hours-between is 20: it is this one's turn from 2030-05-02 \d\d:\d\d UTC on$"
    assert_refused("next/south.bundle", turn, hours_between=20)


def test_a_person_who_opens_puts_right_what_a_clock_that_was_ahead_has_left(clock: Clock) -> None:
    set_policy(hours_between=20)
    clock.at += 5 * DAY
    assert opened("week")["south.bundle"][0] == "opened"
    clock.at -= 4 * DAY
    made("one")
    assert "of this study in the future" in opened("one")["south.bundle"][1]
    assert open_as("south", "one/south.bundle").exit_code == 0
    clock.at += DAY
    made("two")
    assert opened("two")["south.bundle"][0] == "opened"


def test_after_its_last_day_a_policy_opens_nothing_also_where_the_clock_goes_back(clock: Clock) -> None:
    made("late")
    assert_opened("week/south.bundle", until=NOW.date())
    clock.at += DAY
    over = f"it takes part in sessions until {NOW.date()} only"
    assert_refused("late/south.bundle", over, until=NOW.date())
    made("next")
    assert_opened("next/south.bundle", until=clock.at.date())
    clock.at -= DAY
    assert_refused("late/south.bundle", over, until=NOW.date())


def test_a_session_without_a_site_of_the_last_one_or_with_another_is_for_a_person_to_open() -> None:
    """Two results that differ in one site tell about that site, under whatever protocol and policy."""
    join("east")
    assert_opened("week/south.bundle")
    for out, protocol in (("more", "verified"), ("others", "exact")):
        made(out, "east", "--protocol", protocol)
        assert_refused(f"{out}/south.bundle", "parties differ from .* in 'east': two results would tell about it")
    assert open_as("south", "more/south.bundle").exit_code == 0
    assert_opened("others/south.bundle")
    made("fewer")
    assert_refused("fewer/south.bundle", "parties differ from .* in 'east'")


def test_of_sessions_that_wait_the_newest_is_opened_and_a_crash_in_between_costs_none(clock: Clock) -> None:
    set_policy(hours_between=20)
    Path("inbox").mkdir()
    for name in ("a", "c", "b"):
        made(name)
        shutil.copy(f"{name}/south.bundle", f"inbox/{name}")
        clock.at += DAY
    bundle = Path("inbox/b").read_bytes()
    with store_of("south") as store:
        trust = known_members.stored(store)
        announced = announced_to_party(bundle, trust, holder="north", at=clock.at)
        Policy.stored(store).admit(announced, store, at=clock.at)  # and the process dies
    clock.at += timedelta(hours=1)
    assert {name: outcome for name, (outcome, _) in opened("inbox").items()} == {
        "a": "REFUSED", "b": "opened", "c": "REFUSED",
    }  # fmt: skip
    alter(Path("south/store"), "trust/answered", lambda data: data[:-1])
    assert "trust/answered is damaged" in opened("inbox/c")["c"][1]
    assert [each["entry"] for each in json.loads(call("check", *SOUTH, "--json").stdout)["problems"]] == [
        "trust/answered"
    ]


def test_a_policy_is_shown_replaced_and_removed() -> None:
    assert_fails(call("policy", *SOUTH), 1, "this key store has no policy: `fhe-auc keys policy FILE` sets one")
    assert_fails(call("open", "--policy", "week", *SOUTH), 1, "this key store has no policy")
    first = json.loads(set_policy().stdout)["policy"]
    assert first == json_of("policy", *SOUTH)["policy"]
    assert (first["min-parties"], first["keys"]) == (2, ["sealed"])
    assert json.loads(set_policy(min_parties=5).stdout)["policy"]["min-parties"] == 5
    assert "sepsis-net 2.1" in ok("policy", *SOUTH).stdout
    assert json_of("check", *SOUTH)["problems"] == []
    ok("policy", "--remove", *SOUTH)
    assert_fails(call("policy", "--remove", *SOUTH), 1, "has no policy")
    assert_fails(call("open", "--policy", "week", *SOUTH), 1, "has no policy")


def test_a_tampered_policy_opens_nothing() -> None:
    set_policy()
    own = bytes_of(Path("south/store"), "trust/members")
    for bad in (lambda data: flipped(data, 0), lambda data: own):
        alter(Path("south/store"), "trust/policy", bad)
        assert_fails(call("open", "--policy", "week", *SOUTH), 1, "trust/policy is damaged, or another entry's")
    with store_of("south") as store:
        store.put("trust", "policy", b"\x80", replace=True)  # of another version
    assert_fails(call("open", "--policy", "week", *SOUTH), 1, "trust/policy is malformed: set it again")
    assert sessions() == {}


def test_a_policy_with_a_mistake_is_not_taken() -> None:
    for changes, wrong in (
        ({"holder": None}, "missing required field `holder`"),
        ({"min-parties": 1}, "min-parties must lie between 2 and"),
        ({"max-days": 32}, "max-days must lie between 1 and 31"),
        ({"hours-between": 0}, "hours-between must lie between 1 and 8760"),
        ({"until": "tomorrow"}, ""),
        ({"protocols": []}, "protocols must not be empty"),
        ({"keys": ["own"]}, "own"),
        ({"keys": ["sealed", "helper"]}, "helpers must not be empty where keys has 'helper'"),
        ({"protocols": ["verified"], "options": {"epsilon": 1.0}}, "keys must have 'helper' where"),
        ({"max-row-caps": 5}, "unknown field `max-row-caps`"),
        ({"max-thresholds": "many"}, "Expected `int`"),
    ):
        assert_fails(set_policy(**changes), 2, f"policy file 'policy.toml': .*{wrong}")
    assert_fails(call("policy", *SOUTH), 1, "has no policy")


def test_policy_goes_with_no_other_way_to_say_what_is_opened() -> None:
    for more in (("--holder", "north"), ("--study", "study.toml"), ("--out", "keys"), ("--session", "ab" * 16)):
        assert_fails(call("open", "--policy", "week", *SOUTH, *more), 2, "--policy alone says what is opened")
    assert_fails(call("open", "week", *SOUTH, "--holder", "north"), 2, "give one file, and --holder; or --policy")
    assert_fails(call("policy", "study.toml", "--remove", *SOUTH), 2, "and not both")

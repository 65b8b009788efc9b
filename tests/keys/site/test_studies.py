"""Studies between machines: what an agreed one makes is answered, and all else waits; each turn has one session."""

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from fhe_auc import federated_auc
from fhe_auc.base.clock import SYSTEM
from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
from fhe_auc_keys.cli import common
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.members import Members
from tests.support.command_line import call, told
from tests.support.keys_folder import ADDER
from tests.support.served import HELPER, PASSPHRASE, SITES, auc_of, look, results, serving, status, until
from tests.support.studies import STUDY, agree, make, outcome, study_text, waits
from tests.support.studies import roles as roles

pytestmark = pytest.mark.usefixtures("roles")


def test_a_session_waits_until_a_person_has_agreed_to_its_study_and_the_next_steps_are_answered_unasked() -> None:
    """The thresholds are found, the evaluation follows by itself, and again in the next turn without the first step."""
    Path("study.toml").write_text(STUDY.replace("uniform:16", "quantile:16") + 'every = "day"\n')
    first = make()
    assert (first["step"], first["new"]) == (1, True)
    assert make() == {**first, "new": False}
    with serving(*SITES, ADDER):
        until(lambda: all(waits(name) for name in SITES[1:]))
        assert not waits("north")  # it has agreed by making it
        (why,) = (each["why"] for each in waits("south").values())
        assert why == "nobody here has agreed to its study"
        agree(*SITES[1:])
        until(lambda: all(len(results(name)) == 2 for name in SITES))
    found, evaluation = outcome("west"), outcome("west", 1)
    assert isinstance(found, QuantileThresholds)
    assert isinstance(evaluation, Evaluation)
    assert evaluation.auc == pytest.approx(auc_of(*SITES), abs=0.02)
    assert make()["ended"] is True


@pytest.mark.parametrize("helper", [{"helper": HELPER}, pytest.param({}, marks=pytest.mark.slow)])
def test_a_report_with_an_epsilon_finds_bins_and_counts_with_noise_and_each_site_spends_that_epsilon(
    helper: dict[str, str],
) -> None:
    for name in SITES:  # of few rows noise may leave none
        rows = "".join(f"{row % 2},{row % 97 / 97}\n" for row in range(2000))
        Path(f"{name}.csv").write_text("y_true,y_score\n" + rows)
    told_of = {"protocol": "verified", "report": True, "epsilon": 4.0, "thresholds": "quantile", **helper}
    Path("study.toml").write_text(study_text(SITES, ADDER, **told_of))
    make()
    with serving(*SITES, *helper.values(), ADDER):
        until(lambda: all(waits(name) for name in (*SITES[1:], *helper.values())))
        agree(*SITES[1:], *helper.values())
        until(lambda: all(len(results(name)) == 2 for name in SITES))
    for name in SITES:
        found, counted = outcome(name), outcome(name, 1)
        assert (found.protocol, counted.protocol) == ("boundaries-distributed-dp", "histogram-distributed-dp")
        assert counted.settings["noise_deviation"] > 0.5
        (spent,) = told("keys", "budget", "--store", f"{name}/store", "--passphrase-file", "passphrase")[
            "data_sets"
        ].values()
        assert (spent["epsilon"], spent["protects"], spent["exact"]) == (pytest.approx(4.0), "label and score", None)


def test_a_turn_that_begins_soon_after_the_last_one_waits_for_a_while_and_nobody_is_alarmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A daily study is begun at 15 h; its next day begins 9 hours later."""
    off = [datetime.now(timezone.utc).replace(hour=15) + timedelta(days=1) - datetime.now(timezone.utc)]
    monkeypatch.setattr(SYSTEM, "now", lambda: datetime.now(timezone.utc) + off[0])
    monkeypatch.setattr(common, "now", SYSTEM.now)
    Path("study.toml").write_text(STUDY + 'every = "day"\n')
    make()
    with serving(*SITES, ADDER):
        until(lambda: all(waits(name) for name in SITES[1:]))
        agree(*SITES[1:])
        until(lambda: all(len(results(name)) == 1 for name in SITES))
        off[0] += timedelta(hours=9)
        second = make()
        until(lambda: "too soon" in str(status("south")["sessions"]))
        assert status("south")["wrong"] == ""
        assert waits("south") == {}
        off[0] += timedelta(hours=3)
        until(lambda: all(len(results(name)) == 2 for name in SITES))
    assert second["new"]


def test_where_no_session_can_be_made_that_is_what_make_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with KeyStore(Path("north/store"), PASSPHRASE) as store:
        known_members.keep(store, Members(known_members.stored(store).files[:1]))  # which has the coordinator alone
    said = call("session", "make", "study.toml", "north.toml")
    assert said.exit_code == 1
    assert re.search(r"^session +none is made +study [0-9a-f]{8}$", said.stdout, re.MULTILINE), said.stdout
    assert "0 of the study's take part" in said.stdout
    assert "is there already" not in said.stdout


def test_a_person_says_yes_or_no_and_takes_it_back_and_a_failed_turn_is_asked_again_of_people() -> None:
    first = make()
    with serving("south"):
        until(lambda: waits("south"))
        shown = call("pending", "south.toml", input="")  # nobody is there
        assert "nobody here has agreed to its study" in shown.output
        asked = call("pending", "south.toml", input="y\n")
        assert "net 2" in asked.stderr
        assert asked.stdout.split()[:2] == ["yes", first["session"]]
        until(lambda: not waits("south"))
        assert make("--again")["session"] != first["session"]
        until(lambda: waits("south"))
        (why,) = (each["why"] for each in waits("south").values())
        assert f"took part in session {first['session']} of the same step" in why
        (refused,) = waits("south")
        told("pending", "south.toml", "--no", refused[:9])
        assert not waits("south")
        look()
        assert "a person has refused this session here" in str(status("south")["sessions"])
        assert status("south")["wrong"] == ""
    (agreed,) = told("pending", "south.toml")["agreed"]
    told("pending", "south.toml", "--no", agreed[:9])
    assert told("pending", "south.toml") == {"waiting": {}, "agreed": {}}
    for wrong in ("--yes", "--no"):
        assert call("pending", "south.toml", wrong, "ffff").exit_code == 1


def test_a_site_with_few_of_a_study_s_levels_asks_a_person_once_and_each_logs_what_is_odd_without_a_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """West writes 0 and 1 for F and M, so that its own AUC would go to all; and north's scores are turned."""
    asked = {"protocol": "exact", "helper": HELPER, "by": ["sex=F,M,X,0,1"], "every": "day"}
    Path("study.toml").write_text(study_text(SITES, ADDER, **asked))
    for name, levels in (("north", "FMX"), ("south", "FMX"), ("west", "01")):
        turned = -1 if name == "north" else 1
        rows = [(row % 2, (row * 7 % 32 + 16 + 16 * turned * (row % 2)) / 64) for row in range(120)]
        text = "".join(f"{label},{score},{levels[row % len(levels)]}\n" for row, (label, score) in enumerate(rows))
        Path(f"{name}.csv").write_text("y_true,y_score,sex\n" + text)
    make()
    with serving(*SITES, HELPER, ADDER):
        until(lambda: all(waits(name) for name in (*SITES[1:], HELPER)))
        agree(*SITES[1:], HELPER)
        until(lambda: bool(waits("west")))
        (why,) = (each["why"] for each in waits("west").values())
        assert why.startswith("its rows here: party 'west' has rows of '0', '1' alone, of 5 levels of 'sex'")
        assert "it waits for a person" in status("west")["wrong"]
        assert not results("north")
        agree("west")
        until(lambda: all(len(results(name)) == 1 for name in SITES))
        told = {name: outcome(name).own_warnings for name in SITES}
        assert not waits("west")
    odd = {name: [text for text in texts if "fall where labels rise" in text] for name, texts in told.items()}
    assert [len(odd[name]) for name in SITES] == [1, 0, 0]
    assert sum("'west' has rows of '0', '1' alone" in text for text in told["west"]) == 1
    logged = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert odd["north"][0] in logged


@pytest.mark.slow
def test_a_study_of_follow_up_times_pools_the_censoring_curve_and_evaluates_at_each_horizon() -> None:
    asked = {"protocol": "exact", "helper": HELPER, "time_column": "days", "event_column": "status=1,0"}
    Path("study.toml").write_text(study_text(SITES, ADDER, **asked, horizon=[30.0, 60.0], time_grid=10.0))
    rows = {}
    for at, name in enumerate(SITES):
        random = np.random.default_rng(at)
        risk = random.random(90).round(2)
        event, lost = random.exponential(60 / (0.4 + 2 * risk)), random.exponential(60, 90)
        days = 10 * np.ceil(np.minimum(event, lost) / 10)
        rows[name] = {"days": days, "status": (event <= lost).astype(int), "y_score": risk}
        lines = ["days,status,y_score", *(",".join(map(str, row)) for row in zip(*rows[name].values(), strict=True))]
        Path(f"{name}.csv").write_text("\n".join(lines) + "\n")
    make()
    with serving(*SITES, HELPER, ADDER):
        until(lambda: all(waits(name) for name in (*SITES[1:], HELPER)))
        agree(*SITES[1:], HELPER)
        until(lambda: all(len(results(name)) == 3 for name in SITES))
    assert make()["ended"] is True
    found = Evaluation.load(results("west")[-1])
    of_one_process = federated_auc(
        rows, time="days", event="status", horizon=[30, 60], time_grid=10, protocol="exact", thresholds="uniform:16"
    )
    assert [replace(each, model="") for each in found.estimates] == [*of_one_process.estimates]
    assert [each.horizon for each in found.estimates] == [30, 60]
    for warned in (found, of_one_process):
        assert sum(text.startswith("censoring curve: every party learns") for text in warned.warnings) == 1

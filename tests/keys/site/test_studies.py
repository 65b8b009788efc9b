"""Studies between machines: what an agreed one makes is answered, and all else waits; each turn has one session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fhe_auc.cli import main
from fhe_auc.machines import outcomes
from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
from fhe_auc_keys.store.key_store import KeyStore
from tests.support.keys_folder import ADDER
from tests.support.served import HELPER, PASSPHRASE, SITES, auc_of, change, make_roles, results, serving, until

STUDY = f"""
model = "net 2"
outcome = "sepsis"
cohort = "adults"
period = "2030"
sites = {list(SITES)}
maker = "north"
aggregator = "{ADDER}"
thresholds = "uniform:16"
"""


@pytest.fixture(autouse=True)
def roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three sites, aggregator and helper, who have agreed to nothing."""
    make_roles(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in (*SITES, HELPER):
        with KeyStore(Path(name, "store"), PASSPHRASE) as store:
            store.remove("trust", "policy")
    change(ADDER, holder="north")
    Path("study.toml").write_text(STUDY)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--json"])


def told(*arguments: str) -> dict[str, Any]:
    done = call(*arguments)
    assert done.exit_code == 0, done.output
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def make(*more: str) -> dict[str, Any]:
    return told("session", "make", "study.toml", "north.toml", *more)


def waits(name: str) -> dict[str, Any]:
    said: dict[str, Any] = told("pending", f"{name}.toml")["waiting"]
    return said


def agree(*names: str) -> None:
    for name in names:
        (session,) = waits(name)
        told("pending", f"{name}.toml", "--yes", session[:8])


def outcome(name: str, number: int = 0) -> Any:
    return outcomes.read(results(name)[number])


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

"""Studies between machines: what an agreed one makes is answered, and all else waits; each turn has one session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fhe_auc.cli import main
from fhe_auc.machines import outcomes
from fhe_auc.report import Report
from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
from fhe_auc_keys.store.key_store import KeyStore
from tests.support.keys_folder import ADDER, PASSPHRASE
from tests.support.served import HELPER, SITES, auc_of, change, make_roles, results, serving, until

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
    Path("credentials").mkdir()
    for name in (*SITES, ADDER, HELPER):
        Path("credentials", f"{name}.credential").write_bytes(Path(name, f"{name}.credential").read_bytes())
        if name != ADDER:
            with KeyStore(Path(name, "store"), PASSPHRASE) as store:
                store.remove("trust", "policy")
    change(ADDER, holder="north")
    change("north", credentials="credentials")
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


def test_a_report_between_machines_has_the_digits_of_one_process() -> None:
    """Two models, seven groups, patients with several rows, quantile thresholds: all from the study and the rows."""
    generator = np.random.default_rng(7)
    for number, name in enumerate(SITES):
        rows = 300 + 50 * number
        label = generator.random(rows) < 0.3
        risks = [np.clip(0.3 + shift * label + 0.2 * generator.standard_normal(rows), 0, 1) for shift in (0.2, 0.3)]
        sex, age = generator.choice(["F", "M"], rows), generator.choice(["<40", "40-59", "60-79", "80-89", "90+"], rows)
        patients = [f"{name} {each}" for each in generator.integers(0, rows // 2, rows)]
        columns = zip(label.astype(int), *risks, sex, age, patients, strict=True)
        lines = ["y_true,a,b,sex,age,id", *(",".join(map(str, row)) for row in columns)]
        Path(f"{name}.csv").write_text("\n".join(lines) + "\n")
    asked = "--score-columns a,b --by sex=F,M --by age=<40,40-59,60-79,80-89,90+ --cluster id --threshold 0.4"
    files = [f"{name}.csv" for name in SITES]
    told("report", *files, *asked.split(), "--thresholds", "quantile:50", "--out", "page")
    Path("study.toml").write_text(
        STUDY.replace("uniform:16", "quantile:50")
        + """
        report = true
        score-columns = ["a", "b"]
        by = ["sex=F,M", "age=<40,40-59,60-79,80-89,90+"]
        cluster = "id"
        decisions = [0.4]
        """
    )
    make()
    with serving(*SITES, ADDER):
        until(lambda: all(waits(name) for name in SITES[1:]))
        agree(*SITES[1:])
        until(lambda: all(len(results(name)) == 7 for name in SITES))
    assert make()["ended"]
    alone = json.loads(Path("page", "report.json").read_text())
    for name in SITES:
        newest = max(results(name), key=lambda path: path.stat().st_mtime_ns)
        between = Report.load(newest).as_dict()
        for varying in ("date", "session", "privacy"):
            between.pop(varying, None)
            alone.pop(varying, None)
        assert json.loads(json.dumps(between)) == alone

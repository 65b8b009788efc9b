"""Where new users go wrong, each turn ends in one sentence that says what to do.

Wrong columns, percentages and failures with --json are in test_failures.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fhe_auc.cli import main

CHEAP = ("--label-column", "died", "--score-column", "risk", "--thresholds", "uniform:50", "--backend", "tenseal")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"COLUMNS": "100"})


def write_csv(name: str, rows: int, seed: int) -> str:
    random = np.random.default_rng(seed)
    died = random.permutation(np.arange(rows) % 2)
    risk = np.clip(random.normal(0.4 + 0.2 * died, 0.2), 0, 1).round(3)
    sex = np.where(np.arange(rows) < 6, "M", "F")
    lines = [f"{a},{b},{c}" for a, b, c in zip(died, risk, sex, strict=True)]
    Path(name).write_text("\n".join(["died,risk,sex", *lines, ""]))
    return name


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    return [write_csv("north.csv", 60, 1), write_csv("south.csv", 80, 2)]


def test_two_parties_are_told_what_each_learns_of_the_other(files: list[str]) -> None:
    warnings = call("evaluate", *files, *CHEAP, "--brief").stderr.splitlines()
    (told,) = (line for line in warnings if "only two parties" in line)
    assert "each can subtract its own rows" in told
    three = [*files, write_csv("west.csv", 40, 3)]
    assert "only two parties" not in call("evaluate", *three, *CHEAP, "--brief").stderr


def test_a_party_with_few_rows_is_told_what_they_risk(files: list[str]) -> None:
    few = [*files, write_csv("west.csv", 8, 3)]
    told = call("evaluate", *few, *CHEAP, "--brief").stderr
    assert "party 'west' has fewer than 10 rows: " in told
    assert "dpauc-laplace" in told


def test_a_group_with_few_rows_is_not_shown_and_says_why(files: list[str]) -> None:
    three = [*files, write_csv("west.csv", 40, 3)]
    found = json.loads(call("evaluate", *three, *CHEAP, "--by", "sex", "--json").stdout)["estimates"]
    (men,) = (each for each in found if each["group"] == "sex: M")
    assert men["auc"] is None
    assert "fewer than 10 rows of a label" in men["missing"]
    shown = call("evaluate", *three, *CHEAP, "--by", "sex").stdout
    assert "sex: M" in shown
    assert "not shown: fewer than 10 rows of a label" in " ".join(shown.split())

"""Where new users go wrong, each turn ends in one sentence that says what to do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fhe_auc import Columns, InputError, federated_auc
from fhe_auc.cli import main
from tests.support.lazy import Lazy

pd = Lazy("pandas")

CHEAP = ("--label-column", "died", "--score-column", "risk", "--thresholds", "uniform:50", "--backend", "tenseal")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"COLUMNS": "100"})


def write_csv(name: str, rows: int, seed: int) -> str:
    random = np.random.default_rng(seed)
    died = random.permutation(np.arange(rows) % 2)
    risk = np.clip(random.normal(0.4 + 0.2 * died, 0.2), 0, 1).round(3)
    lines = [f"{label},{score},F" for label, score in zip(died, risk, strict=True)]
    Path(name).write_text("\n".join(["died,risk,sex", *lines, ""]))
    return name


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    return [write_csv("north.csv", 60, 1), write_csv("south.csv", 80, 2)]


def rewrite(name: str, old: str, new: str) -> None:
    Path(name).write_text(Path(name).read_text().replace(old, new))


def auc(files: list[str], *options: str) -> float:
    return float(json.loads(call("evaluate", *files, *CHEAP, *options, "--json").stdout)["auc"])


def test_a_wrong_column_is_named_with_those_there_are_and_the_option(files: list[str]) -> None:
    said = "error: file 'north.csv': there is no column "
    columns = "(there are: died, risk, sex)"
    assert call("evaluate", *files).stderr == f"{said}'y_true' {columns}; --label-column names the right one\n"
    rsk = call("evaluate", *files, *CHEAP, "--score-column", "rsk").stderr
    assert rsk == f"{said}'rsk'; did you mean 'risk'? {columns}\n"


def test_percentages_are_named_by_file_and_line_with_the_option(files: list[str]) -> None:
    percent = pd.read_csv("south.csv")
    percent["risk"] *= 100
    percent.to_csv("south.csv", index=False)
    line = 2 + int((percent["risk"] > 1).to_numpy().argmax())
    (told,) = call("evaluate", *files, *CHEAP).stderr.splitlines()
    assert told.startswith(f"error: party 'south', south.csv, line {line}, column 'risk': score is ")
    assert "then set the score scale to percent or logit (--score-scale, in Python score_scale=)" in told


def test_semicolons_are_read_and_decimal_commas_name_their_option(files: list[str]) -> None:
    expected = auc(files)
    for name in files:
        rewrite(name, ",", ";")
    assert auc(files) == expected
    for name in files:
        rewrite(name, ".", ",")
    (told,) = call("evaluate", *files, *CHEAP).stderr.splitlines()
    assert "has a decimal comma; say so with --decimal ," in told
    assert auc(files, "--decimal", ",") == expected


def test_labels_that_are_text_name_their_option(files: list[str]) -> None:
    expected = auc(files)
    for name in files:
        rewrite(name, "\n0,", "\nalive,")
        rewrite(name, "\n1,", "\ndead,")
    (told,) = call("evaluate", *files, *CHEAP).stderr.splitlines()
    assert told.startswith("error: party 'north', north.csv, line 2, column 'died': label is '")
    assert told.endswith("--positive-label names the label that counts as 1")
    assert auc(files, "--positive-label", "dead") == expected


def test_one_data_frame_says_which_argument_it_lacks(files: list[str]) -> None:
    frame = pd.concat([pd.read_csv(name).assign(hospital=name) for name in files])
    with pytest.raises(InputError, match=r"this is one table: .* as in site='hospital'"):
        federated_auc(frame, columns=Columns(label="died", score="risk"))
    with pytest.raises(
        InputError, match=r"there is no column 'y_true' .*died, risk, sex, hospital.; label= names the right one$"
    ):
        federated_auc(frame, columns=Columns(site="hospital"))


def test_two_parties_and_a_party_with_few_rows_are_told_what_others_learn(files: list[str]) -> None:
    warnings = call("evaluate", *files, *CHEAP, "--brief").stderr.splitlines()
    (told,) = (line for line in warnings if "only two parties" in line)
    assert "each can subtract its own rows" in told
    three = [*files, write_csv("west.csv", 40, 3)]
    assert "only two parties" not in call("evaluate", *three, *CHEAP, "--brief").stderr
    few = [*files, write_csv("west.csv", 8, 3)]
    told = call("evaluate", *few, *CHEAP, "--brief").stderr
    assert all(each in told for each in ("party 'west' has fewer than 10 rows: ", "dpauc-laplace"))

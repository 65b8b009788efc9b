"""Defaults from variables and from a study's file: what they may set, what they may not, and how mistakes are told."""

import json
import os
from pathlib import Path

import click
import pytest

from fhe_auc.cli import settings
from tests.support.command_line import PROGRAM, call, commands
from tests.support.programs import run

SECRET_OR_WEAKER = {
    *("--passphrase-file", "--compared", "--yes", "--members", "--coordinator", "--signatures", "--stolen", "--study"),
    *("--min-cell", "--epsilon", "--epsilon-unit", "--epsilons", "--delta", "--option", "--cheat"),
    *("--protocol", "--model", "--role", "--heterogeneity", "--seed", "--force", "--holder"),
    *("--acknowledge", "--reconcile", "--again", "--limit", "--row-cap", "--no-proofs", "--lose-result"),
    *("--fleet", "--nothing"),
}

TWO = ("north.csv", "south.csv", "--interval", "none")


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    Path("north.csv").write_text("died,risk\n0,0.1\n1,0.8\n0,0.4\n1,0.3\n")
    Path("south.csv").write_text("died,risk\n0,0.2\n1,0.9\n")


def test_every_option_has_a_variable_or_a_reason_to_have_none() -> None:
    seen, excluded = set(), set()
    for ctx in commands():
        assert ctx.parent is not None
        assert ctx.info_name is not None
        settings.give(ctx.parent, ctx.info_name, ctx.command, [])
        for option in ctx.command.params:
            if not isinstance(option, click.Option):
                continue
            seen.add(option.name)
            long = max(option.opts, key=len)
            variable = f"{ctx.auto_envvar_prefix}_{option.name}".upper().replace("-", "_")
            os.environ[variable] = "1"
            found = option.value_from_envvar(ctx)
            del os.environ[variable]
            if found is None:
                excluded.add(long)
            assert (found is None) == (option.name in settings.WITHOUT_DEFAULT or option.envvar is not None), variable
    assert excluded >= SECRET_OR_WEAKER
    assert settings.WITHOUT_DEFAULT.keys() <= seen  # no reason is there for an option that is gone


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_command_line_goes_before_the_variable_and_that_before_the_file_and_mistakes_are_told(
    encoding: str,
) -> None:
    Path("fhe-auc.toml").write_text('label-column = "died"\nscore-column = "from_file"\n', encoding)
    variable = {"FHE_AUC_EVALUATE_SCORE_COLUMN": "from_variable"}
    for arguments, variables, wanted in (
        ((), {}, "from_file"),
        ((), variable, "from_variable"),
        (("--score-column", "given"), variable, "given"),
    ):
        told = call("evaluate", "north.csv", *arguments, **variables).stderr
        assert f"there is no column {wanted!r}" in told
    result = call("--config", "none.toml", "evaluate", "north.csv")
    assert (result.exit_code, result.stderr) == (2, "error: settings file 'none.toml' does not exist\n")
    told = call("evaluate", "north.csv", FHE_AUC_EVALUATE_MAX_ROWS="ten").stderr
    assert "'ten' is not a valid integer range (from FHE_AUC_EVALUATE_MAX_ROWS)" in told


def test_a_study_is_evaluated_with_its_settings_and_it_is_told() -> None:
    Path("fhe-auc.toml").write_text(
        'label-column = "died"\nbackend = "tenseal"\n[evaluate]\nscore-column = "risk"\nthresholds = "uniform:50"\n'
    )
    result = call("evaluate", *TWO, "--json", "--backend", "tenseal")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["thresholds"] == 50
    first = result.stderr.splitlines()[0]
    assert first == (
        "defaults: --label-column (fhe-auc.toml), --score-column (fhe-auc.toml), --thresholds (fhe-auc.toml)"
    )
    there = call("--config", "fhe-auc.toml", "evaluate", *TWO, "--thresholds=uniform:20", "--json")
    assert json.loads(there.stdout)["thresholds"] == 20
    assert "--thresholds" not in there.stderr


def test_tables_of_commands_in_groups_and_lists_are_understood() -> None:
    Path("s.toml").write_text('[calibrate.fit]\nscore-column = "rsk"\nlabel-column = "died"\n')
    told = call("--config", "s.toml", "calibrate", "fit", "north.csv", "--out", "map.json").stderr
    assert "there is no column 'rsk'" in told
    Path("s.toml").write_text('label-column = "died"\n[evaluate]\nscore-columns = ["risk", "none"]\n')
    told = call("--config", "s.toml", "evaluate", "north.csv").stderr
    assert "there is no column 'none'" in told


@pytest.mark.parametrize("name", ["risk, 30 days", "risk=30", 'the "new" risk', "a,b"])
def test_a_name_in_a_list_is_one_name_whatever_it_has(name: str) -> None:
    Path("s.toml").write_text(f"label-column = 'died'\nscore-columns = ['risk', '{name}']\n")
    told = call("--config", "s.toml", "evaluate", "north.csv").stderr
    assert f"there is no column {name!r}" in told


def test_an_option_may_be_called_as_a_command_is() -> None:
    shared = 'label-column = "died"\nscore-column = "risk"\nthresholds = "uniform:50"\n'
    Path("fhe-auc.toml").write_text(shared)
    result = call("evaluate", *TWO, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["thresholds"] == 50
    told = call("thresholds", "none.csv", "--bins", "3", "--out", "edges.txt").stderr
    assert "file 'none.csv' does not exist" in told  # its own name is an option of others: not of interest here


def test_a_default_of_one_command_is_not_what_a_person_says_in_another() -> None:
    Path("fhe-auc.toml").write_text('by = "sex"\n')
    told = call("keys", "budget", "--store", "none").stderr
    assert "--by" not in told
    Path("fhe-auc.toml").write_text('[keys.budget]\nby = "Ada"\n')
    told = call("keys", "budget", "--store", "none").stderr
    assert "--by can only be given on the command line: it says whom or what a person has checked" in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('lable-column = "died"', "'lable-column' is no option of any command; did you mean 'label-column'?"),
        ("[evaluate]\nthreshold = 3", "'threshold' is no option of evaluate; did you mean 'thresholds'?"),
        ("[evalaute]\nplot = 3", "'evalaute' is no command; did you mean 'evaluate'?"),
        ("evaluate = 3", "'evaluate' is a command: write [evaluate]"),
        ("min-cell = 1", "--min-cell can only be given on the command line: it bounds what a result tells"),
        ('protocol = "semi-honest"', "--protocol can only be given on the command line: it decides who is trusted"),
        ("label-column =", "settings file 'fhe-auc.toml': "),
        ('max-rows = "ten"', "'ten' is not a valid integer range (from fhe-auc.toml)"),
        ("max-rows = 5000.5", "'5000.5' is not a valid integer range (from fhe-auc.toml)"),
        ("[evaluate]\ndrop-missing = 7", "'7' is not a valid boolean"),
        ("[calibrate]\nout = 3", "'out' is no command"),
        ("[calibrate]\nfit = 3", "'fit' is a command: write [calibrate.fit]"),
        ("[calibrate.fti]\nx = 3", "'fti' is no command; did you mean 'fit'?"),
    ],
)
def test_a_mistake_in_the_file_is_one_helpful_line(text: str, message: str) -> None:
    Path("fhe-auc.toml").write_text(text)
    command = ("calibrate", "fit") if "calibrate" in text else ("evaluate",)
    result = call(*command, "north.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    line = result.stderr.splitlines()[-1]
    assert line.startswith("error: ")
    assert message in line


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("FHE_AUC_EVALUATE_LABEL_COLUM", "no option of evaluate; did you mean 'FHE_AUC_EVALUATE_LABEL_COLUMN'?"),
        ("FHE_AUC_LABEL_COLUMN", "is of no command; for evaluate it is FHE_AUC_EVALUATE_LABEL_COLUMN"),
        ("FHE_AUC_EVALUATE_MIN_CELL", "can only be given on the command line: it bounds what a result tells"),
        ("FHE_AUC_EVALUATE_PROTOCOL", "can only be given on the command line: it decides who is trusted"),
    ],
)
def test_a_variable_that_would_be_ignored_is_refused(variable: str, message: str) -> None:
    result = call("evaluate", "north.csv", **{variable: "20"})
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert call("protocols", **{variable: "20"}).exit_code == 0  # of another command


def test_a_shell_completes_commands_and_options() -> None:
    for words, wanted in (("fhe-auc evalu", "plain,evaluate"), ("fhe-auc evaluate --thr", "plain,--thresholds")):
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_FHE_AUC_COMPLETE": "bash_complete"}
        assert run(PROGRAM, env={**os.environ, **asked}).stdout.splitlines() == [wanted]

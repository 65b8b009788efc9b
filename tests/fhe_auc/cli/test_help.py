"""The list of protocols, the help of every command, and commands that other packages bring."""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import fhe_auc.cli
from fhe_auc.base import plug_ins
from fhe_auc.cli import main
from fhe_auc.session import registry
from tests.support.command_line import assert_fails, call, commands, told


def test_protocols_leads_to_one_and_reports_a_broken_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("protocols").stdout.splitlines()
    assert lines[6] == ""
    named = [re.findall(r"[a-z]+(?:-[a-z]+)*", line.split("  ")[-1])[0] for line in lines[:6]]
    assert named == ["verified", "exact", "histogram-federated", "verified", "fhe-auc", "semi-honest"]
    assert "verified --epsilon 1" in lines[3]
    assert "fhe-auc report --epsilon 1" in lines[4]
    listed = [line.split()[0] for line in lines[7:] if re.match(r"  [a-z]", line)]
    assert sorted(listed) == list(registry.names())
    shown = " ".join(call("protocols", "malicious").stdout.split())
    (entry,) = told("protocols", "malicious")["protocols"]
    assert all(each in shown for each in (f"trust {entry['trust']}", "tolerance by how much executions may differ"))
    assert_fails(call("protocols", "malicous"), 2, "unknown protocol 'malicous'; did you mean 'malicious'")
    broken = plug_ins.PlugIn("broken", "no_such_module:Protocol")
    installed = {**registry._installed(registry.GROUP), "broken": {broken}}
    monkeypatch.setattr(registry, "_installed", lambda group: installed)
    result = call("protocols", "--json")
    answer = json.loads(result.stdout)
    assert "semi-honest" in [entry["name"] for entry in answer["protocols"]]
    assert "no_such_module" in answer["broken"]["broken"]
    assert result.stderr.startswith("warning: plug-in 'broken' (no_such_module:Protocol) does not load")
    assert_fails(call("demo", "--protocol", "broken"), 2, r"plug-in 'broken' \(no_such_module:Protocol\) does not load")


def test_help_teaches_by_example_in_80_lines_and_there_is_a_version() -> None:
    found = [tuple(each.command_path.split()[1:]) for each in commands()]
    assert {("evaluate",), ("keys", "close")} <= set(found)
    for command in found:
        result = call(*command, "--help", COLUMNS="80")
        assert result.exit_code == 0
        assert sum(max(1, -(-len(line) // 80)) for line in result.stdout.splitlines()) <= 80, command
        assert f"Examples:\n    fhe-auc {' '.join(command)}" in result.stdout
        assert ("--json" in result.stdout) is (command != ("serve",))  # which prints a log
    headings = re.findall(r"^(\w.*):$", call("evaluate", "--help").stdout, re.MULTILINE)
    assert headings == ["Options", "Input", "Question", "Output", "Trust and cryptography"]
    assert "fhe-auc demo" in call("--help").stdout
    assert call("--version").stdout == f"fhe-auc {fhe_auc.__version__}\n"


@pytest.mark.parametrize("group", [(), ("keys",), ("calibrate",)])
def test_no_command_is_bad_usage_answered_with_the_help(group: tuple[str, ...]) -> None:
    result, heading = call(*group), "Commands" if group else "Evaluate"
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Usage: {' '.join(('fhe-auc', *group))} [OPTIONS] COMMAND")
    assert f"\n{heading}:\n" in result.stderr


@pytest.fixture
def three_packages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three packages bring a command: a good one, one that cannot be imported, one that is no command."""
    Path("greeting.py").write_text(
        "import click\n"
        "from fhe_auc.base.errors import InputError\n"
        "@click.command()\n"
        "@click.argument('whom')\n"
        "def greet(whom):\n"
        "    '''Greet somebody.'''\n"
        "    if whom == 'nobody':\n"
        "        raise InputError('there is nobody to greet')\n"
        "    click.echo(f'hello, {whom}')\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(folder)
    values = {"greet": "greeting:greet", "absent": "no_such_module:command", "number": "greeting:number"}
    points = [plug_ins.PlugIn(name, value) for name, value in values.items()]
    monkeypatch.setattr(plug_ins, "installed", lambda group: points)
    monkeypatch.setattr(main, "commands", dict(main.commands))
    yield
    sys.modules.pop("greeting", None)


@pytest.mark.usefixtures("three_packages")
def test_a_plug_in_command_runs_like_ours_and_a_broken_one_is_a_warning_and_an_error() -> None:
    assert call("greet", "world").stdout == "hello, world\n"
    assert_fails(call("greet", "nobody"), 2, "there is nobody to greet")
    assert call("greet", "nobody", "--debug").stderr.startswith("Traceback")
    assert_fails(call("greet"), 2, "argument 'WHOM'; see fhe-auc greet --help")
    result = call("--help")
    assert result.exit_code == 0
    assert all(text in result.stdout for text in ("Greet somebody.", "evaluate"))
    for name, why in (("absent", "does not load: ModuleNotFoundError"), ("number", "TypeError: expected a click.Com")):
        assert re.search(f"^warning: command '{name}' .*{why}", result.stderr, re.MULTILINE)
    assert_fails(call("absent", "--any", "thing"), 1, "command 'absent' .* does not load")
    assert call("plan", "--backend", "tenseal").stderr == ""
    found = described()
    assert list(found)[-1] == "Added by other packages"
    assert found["Added by other packages"] == ["greet"]  # the two that do not load have no sentence


def described() -> dict[str, list[str]]:
    """The commands that the help describes, each with a sentence, below each of its headings of commands."""
    _, *sections = re.split(r"^(\S.*):\n(?=  [a-z])", call("--help").stdout, flags=re.MULTILINE)
    lines = (re.findall(r"^  ([\w-]+)  +\S.*\.$", text, re.MULTILINE) for text in sections[1::2])
    return dict(zip(sections[::2], lines, strict=True))


def test_the_help_has_each_command_that_is_installed_with_this_package_below_one_of_three_headings() -> None:
    found = described()
    assert list(found) == ["Evaluate", "Between machines", "Laboratory"]
    added = [point.name for point in entry_points(group=fhe_auc.cli.GROUP)]
    here = [
        path.stem for path in Path(fhe_auc.cli.__file__).parent.glob("*.py") if call(path.stem, "--help").exit_code == 0
    ]
    assert sorted(name for names in found.values() for name in names) == sorted({*added, *here})
    assert {"demo", "evaluate", "report"} <= set(found["Evaluate"])
    assert {"keys", "session"} <= set(found["Between machines"])
    assert found["Laboratory"] == ["attack", "benchmark", "compare-protocols"]

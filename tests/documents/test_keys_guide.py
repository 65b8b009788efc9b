"""docs/guide/keys.md, executed: its commands run as they stand there, and print what it says that they print."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from fhe_auc_keys.bundles.roster import Roster
from fhe_auc_keys.cli import keys as group
from tests.support.programs import run

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "keys.md"
PASSPHRASE = "correct horse battery staple"  # noqa: S105
FENCE = re.compile(r"^```(\w+) ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Step:
    """A block of commands in one terminal, what it must print, and how it must end."""

    terminal: str
    status: int
    commands: str
    output: str = ""


@dataclass
class Done:
    """What has become of the walk-through."""

    folder: Path
    steps: list[Step]
    results: list[subprocess.CompletedProcess[str]]


def blocks() -> list[tuple[str, str, str]]:
    return FENCE.findall(GUIDE.read_text(encoding="utf-8"))


def read_steps() -> list[Step]:
    found: list[Step] = []
    for language, info, text in blocks():
        if language == "sh" and info:
            terminal, _, status = info.partition(" exit=")
            found.append(Step(terminal, int(status or 0), text))
        elif language == "text":
            found[-1].output = text
    return found


def in_terminal(step: Step, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a block where the terminal's earlier blocks have left it: folder and exported variables."""
    state = folder / f".{step.terminal}"
    state.touch()
    environment = {name: value for name, value in os.environ.items() if name not in ("FHE_AUC_STORE", "COLUMNS")}
    environment |= {
        "FHE_AUC_PASSPHRASE": PASSPHRASE,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    commands = f". {state}\n{step.commands}\n{{ export -p; echo cd $PWD; }} > {state}"
    same = "y\n"  # to whether fingerprints are the same
    return run(
        ["/bin/bash", "-euc", commands], cwd=folder, input=same, env=environment, stderr=subprocess.STDOUT, timeout=60
    )


def words(text: str) -> Counter[str]:
    """The words of an output, without what is another at each run; where lines break does not count."""
    text = re.sub(r"\d{4}-\d\d-\d\d|\d\d:\d\d", "TIME", text.replace("[y/N]: y\n", "[y/N] ").replace("[y/N]:", "[y/N]"))
    text = re.sub(r"\b(?=[0-9a-f]*\d|[a-f]{4}\b)([0-9a-f]{4}|[0-9a-f]{16}|[0-9a-f]{32,40})\b", "HEX", text)
    return Counter(text.split())


@pytest.mark.openfhe
def test_the_walk_through(tmp_path: Path) -> None:
    steps = read_steps()
    assert len(steps) > 20
    done = Done(tmp_path, steps, [in_terminal(step, tmp_path) for step in steps])
    assert_every_command_ended_and_printed_as_the_guide_says(done)
    assert_it_leaves_the_consortium_as_the_guide_says(done)
    assert PASSPHRASE not in "".join(result.stdout for result in done.results)


def assert_every_command_ended_and_printed_as_the_guide_says(done: Done) -> None:
    for step, result in zip(done.steps, done.results, strict=True):
        assert result.returncode == step.status, f"{step.commands}\n{result.stdout}"
        promised = words(re.sub(r"^…\n", "", step.output, flags=re.MULTILINE))
        missing = promised - words(result.stdout)
        assert not missing, f"{step.commands}\n{result.stdout}"
    assert sum(bool(step.output) for step in done.steps) >= 10


def at(done: Done, site: str, *arguments: str, store: str = "keystore") -> dict[str, object]:
    environment = {"FHE_AUC_PASSPHRASE": PASSPHRASE}
    where = done.folder / "study" / site / store
    result = CliRunner(env=environment).invoke(group, ["show", "--store", str(where), "--json", *arguments])
    assert result.exit_code == 0, result.output
    answer: dict[str, object] = json.loads(result.stdout)
    return answer


def assert_it_leaves_the_consortium_as_the_guide_says(done: Done) -> None:
    study = done.folder / "study"
    north, south, lost = at(done, "north"), at(done, "south", store="keystore-2"), at(done, "south")
    assert (len(north["sessions"]), len(lost["sessions"]), len(south["sessions"])) == (3, 2, 2)
    assert {*north["sessions"]} < {*lost["sessions"], *south["sessions"]}  # week 19 is opened by south alone
    assert len(at(done, "registry")["sessions"]) == 1
    roster = Roster.from_bytes((study / "aggregator" / "joint.roster").read_bytes())
    assert roster.names == {"north", "south"}
    assert (north["site"]["certified"], south["site"]["certified"]) == (True, True)
    register = at(done, "authority")["authority"]["issued"]
    assert [(line["name"], line["revoked"]) for line in register] == [
        ("north", False),
        ("south", True),
        ("coordinator", False),
        ("registry", False),
        ("south", False),
        ("north", False),
    ]
    shown = at(done, "north", str(study / "north" / "week-19" / "south.bundle"))["files"][0]
    assert shown["verified"]
    assert shown["details"]["sealed_to"] == "south"
    private = [*study.glob("north/week-*/*south.bundle"), study / "aggregator" / "evaluation.keys"]
    private.append(study / "aggregator" / "joint.roster")
    private += [each for each in study.glob("*/keystore*/**/*") if each.is_file()]
    assert len(private) > 15
    assert {each.stat().st_mode & 0o777 for each in private} == {0o600}


def test_commands_that_are_not_executed_name_options_that_exist() -> None:
    """Those of a site with a certificate of its own: `tests/keys/cli/test_cli.py` runs the like."""
    lines = [line for language, info, text in blocks() if language == "sh" and not info for line in text.splitlines()]
    assert lines
    for line in lines:
        program, name, command, *arguments = line.split()
        assert (program, name) == ("fhe-auc", "keys")
        options = {option for parameter in group.commands[command].params for option in parameter.opts}
        assert {each for each in arguments if each.startswith("--")} <= options


def test_every_command_is_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert all(f"fhe-auc keys {command}" in text for command in group.commands)


def test_every_refusal_in_the_table_is_one_that_the_code_utters() -> None:
    root = GUIDE.parents[2]
    code = "".join(path.read_text(encoding="utf-8") for path in sorted((root / "keys").rglob("*.py")))
    code = re.sub(r'"\n +f?"', "", code)  # messages over two lines
    code = re.sub(r"\{[^{}]*\}", "…", code)
    table = GUIDE.read_text(encoding="utf-8").split("| you see |")[1]
    uttered = re.findall(r"`([^`]+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:] if "|" in line))
    assert len(uttered) > 20
    for message in uttered:
        for piece in re.split(r"…|'[xy]'", message):
            assert piece.strip(" ,") in code, message

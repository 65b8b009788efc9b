"""budgets.py: what the project may grow to (CONTRIBUTING.md), and what it has now.

Lines and words are those of committed or staged files; an option counts once for each command that has it; CPU times
are those of the last `make test` and `make test-openfhe` here, if any. It prints only: whoever exceeds a budget says in
the change what that buys.
"""

import json
import subprocess
from pathlib import Path

import click

from fhe_auc.cli import main

ROOT = Path(__file__).parents[1]
TESTS, OTHER_PYTHON, WORDS = 34_500, 42_500, 23_000
COMMANDS, OPTIONS = 34, 360
MINUTES, MINUTES_WITH_OPENFHE = 5, 8


def files(pattern: str) -> list[Path]:
    listed = subprocess.check_output(["git", "ls-files", "-z", pattern], cwd=ROOT, text=True)  # noqa: S607
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def options(command: click.Command | None) -> list[int]:
    """Return the number of options of each command that does something."""
    if not isinstance(command, click.Group):
        return [sum(isinstance(parameter, click.Option) for parameter in command.params)] if command else []
    context = click.Context(command)
    inner = (command.get_command(context, name) for name in command.list_commands(context))
    return [each for found in map(options, inner) for each in found]


def row(what: str, has: float, may: float, unit: str) -> None:
    print(f"{what:<30} {has:>9,.6g} of {may:>6,} {unit}{'' if has <= may else '   EXCEEDED: say what it buys'}")


lines = {True: 0, False: 0}
for path in files("*.py"):
    lines[path.is_relative_to(ROOT / "tests")] += path.read_text(encoding="utf-8").count("\n")
row("tests", lines[True], TESTS, "lines")
row("all other Python", lines[False], OTHER_PYTHON, "lines")
row("docs", sum(len(path.read_text(encoding="utf-8").split()) for path in files("docs/*.md")), WORDS, "words")
of_commands = options(main)
row("commands", len(of_commands), COMMANDS, "")
row("their options", sum(of_commands), OPTIONS, "")
minutes = 0.0
for command, budget in (("test", MINUTES), ("test-openfhe", MINUTES_WITH_OPENFHE)):
    report = ROOT / "build" / f"{command}-cpu.json"
    if report.is_file():
        minutes += json.loads(report.read_text())["total"] / 60
        row(f"make {command}" + ", both" * (command != "test"), round(minutes, 1), budget, "CPU minutes")

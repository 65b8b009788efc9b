"""The command line as a test calls it, and how it is to fail."""

import csv
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.testing import CliRunner, Result

from fhe_auc.cli import main

PROGRAM = [sys.executable, "-c", "from fhe_auc.cli import main; main()"]
"""For a process of its own."""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def write_csv(file: Path | str, **columns: Any) -> str:
    """Write a table by its columns, labels as 0 and 1, and return the name of the file."""
    cells = (
        np.multiply(each, 1).tolist() if np.asarray(each).dtype == bool else list(each) for each in columns.values()
    )
    with open(file, "w", newline="", encoding="utf-8") as opened:
        csv.writer(opened, lineterminator="\n").writerows([list(columns), *zip(*cells, strict=True)])
    return str(file)


def commands(group: click.Group = main, *words: str) -> Iterator[tuple[str, ...]]:
    """Every command that does something, by the words that call it; they are loaded as they are asked for."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *words, name)
        else:
            yield (*words, name)


def told(*arguments: str) -> dict[str, Any]:
    """What a command that must succeed prints with ``--json``."""
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def assert_fails(result: Result, status: int, message: str) -> None:
    """Nothing on stdout, and one line on stderr, which holds this pattern."""
    assert (result.exit_code, result.stdout) == (status, "")
    assert re.fullmatch(rf"error: .*{message}.*\n", result.stderr), result.stderr


def assert_refused(result: Result, message: str) -> None:
    assert_fails(result, 2, message)

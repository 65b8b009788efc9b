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

from fhe_auc.cli import main, settings

PROGRAM = [sys.executable, "-c", "from fhe_auc.cli import main; main()"]
"""For a process of its own."""


def call(*arguments: str, input: str | None = None, **variables: str | None) -> Result:
    return CliRunner().invoke(main, arguments, input=input, env=variables)


def write_csv(file: Path | str, **columns: Any) -> str:
    """Write a table by its columns, labels as 0 and 1, and return the name of the file."""
    cells = (
        np.multiply(each, 1).tolist() if np.asarray(each).dtype == bool else list(each) for each in columns.values()
    )
    with open(file, "w", newline="", encoding="utf-8") as opened:
        csv.writer(opened, lineterminator="\n").writerows([list(columns), *zip(*cells, strict=True)])
    return str(file)


def commands(context: click.Context | None = None) -> Iterator[click.Context]:
    """The context of every command that does something; they are loaded as they are asked for."""
    context = context or click.Context(main, info_name="fhe-auc", auto_envvar_prefix=settings.PREFIX)
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            yield from commands(click.Context(command, parent=context, info_name=name))
    else:
        yield context


def printed(*arguments: str, **variables: str | None) -> str:
    """What a command that must succeed prints on stdout."""
    result = call(*arguments, **variables)
    assert result.exit_code == 0, result.output
    return result.stdout


def told(*arguments: str, **variables: str | None) -> dict[str, Any]:
    """What a command that must succeed prints with ``--json``."""
    return dict(json.loads(printed(*arguments, "--json", **variables)))


def assert_fails(result: Result, status: int, message: str) -> None:
    """Nothing on stdout, and one line on stderr, which holds this pattern."""
    assert (result.exit_code, result.stdout) == (status, "")
    assert re.fullmatch(rf"error: .*{message}.*\n", result.stderr), result.stderr


def assert_refused(result: Result, message: str) -> None:
    assert_fails(result, 2, message)

"""The command line as a test calls it, and how it is to fail."""

from __future__ import annotations

import re
import sys

from click.testing import CliRunner, Result

from fhe_auc.cli import main

PROGRAM = [sys.executable, "-c", "from fhe_auc.cli import main; main()"]
"""For a process of its own."""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def assert_fails(result: Result, status: int, message: str) -> None:
    """Nothing on stdout, and one line on stderr, which holds this pattern."""
    assert (result.exit_code, result.stdout) == (status, "")
    assert re.fullmatch(rf"error: .*{message}.*\n", result.stderr), result.stderr


def assert_refused(result: Result, message: str) -> None:
    assert_fails(result, 2, message)

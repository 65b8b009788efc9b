"""Every command that a page shows exists, and has the options that stand there."""

import re
from pathlib import Path

import click
import pytest

from fhe_auc.cli import main

ROOT = Path(__file__).parents[2]


def commands(page: Path) -> list[list[str]]:
    """The words of each command of a page's blocks, or in backticks, up to a comment or a pipe."""
    lines = page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    fenced = False
    found: list[str] = []
    for line in lines:
        fenced ^= line.lstrip().startswith("```")
        block = re.fullmatch(r" {4}(fhe-auc [a-z].*)", line) or (fenced and re.fullmatch(r"(fhe-auc [a-z].*)", line))
        found += [block[1]] if block else re.findall(r"`(fhe-auc [a-z][^`]+)`", line)
    return [re.split(r" #| [|>&]|\$\(", command)[0].split()[1:] for command in found]


PAGES = [page for page in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "SECURITY.md") if commands(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_exists_and_has_the_options_that_it_names(page: Path) -> None:
    for words in commands(page):
        command: click.Command = main
        for word in words:
            if isinstance(command, click.Group) and not word.startswith(("-", "…")):
                inner = command.get_command(click.Context(command), word)
                assert inner is not None, words
                command = inner
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word.split("=")[0] for word in words if word.startswith("--")} <= {*known, "--help"}, words

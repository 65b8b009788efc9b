"""The page on a package index is for readers without a clone; until it is there, no document sends anybody to it."""

import os
import re
import sys
from pathlib import Path

import pytest

from fhe_auc.base.extras import EXTRAS
from tests.support.programs import output_of

ROOT = Path(__file__).parents[2]
INSTALLS_FROM_AN_INDEX = re.compile(
    r"\b(?:(?:pip3?|pipx|uv pip|uv tool|conda) install|(?:uv|poetry) add|pipx run|uvx)\b"
    r"[^\n`;&|#]*[\s'\"]fhe[-_]auc(?![\w/-]|\.\w)"  # not a file, not a folder
)


def test_no_document_installs_from_an_index_what_is_on_none_yet() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*")]
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in documents if path.is_file()}
    assert [path for path, text in texts.items() if INSTALLS_FROM_AN_INDEX.search(text)] == []


@pytest.fixture(scope="module")
def page() -> str:
    """The long description, as the build makes it from the README."""
    command = [sys.executable, "-m", "hatch_fancy_pypi_readme"]
    return output_of(command, cwd=ROOT, env={**os.environ, "PYTHONUTF8": "1"}, timeout=60)


def test_the_page_has_the_readmes_sections_and_needs_no_clone_picture_or_link_that_leads_nowhere(page: str) -> None:
    headings = re.findall(r"^## (.+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert re.findall(r"^## (.+)", page, re.MULTILINE) == [each for each in headings if each != "Read on"]
    assert page.rstrip().splitlines()[-1].startswith("Apache-2.0.")
    assert not re.search(r"\bclone|\.venv|^    make |`make ", page, re.MULTILINE)
    assert not re.search(r"!\[|\]\((?!https?://)|^\[[^\]]+\]:|<(?:a|img)\b", page, re.MULTILINE)
    commands = re.findall(r"pip install (\S+)", page)
    assert commands
    assert all(re.fullmatch(r'"fhe-auc\[\w+\]"|fhe-auc', each) for each in commands)
    install = page.partition("\n## Install\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.+?`) \|", install, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(EXTRAS)

"""A release has the tag of its version, and says what its section of the changelog says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fhe_auc
from tests.support.programs import run

ROOT = Path(__file__).parents[2]
CHANGELOG = """# Changelog

## [Unreleased]

- later

## [1.1.0] - 2026-02-03

The – second.

### Changed

- now ([how](a.md#b),
  [why](https://example.com)) better
- and faster

## [1.0.0] - 2026-01-02

- earlier
"""
NOTES = """The – second.

### Changed

- now ([how](https://example.org/blob/v1.1.0/a.md#b), [why](https://example.com)) better
- and faster
"""


def notes(root: Path, tag: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts" / "release_notes.py"), tag, "https://example.org/blob/v1.1.0"]
    return run(command, env={**os.environ, "PYTHONUTF8": "1"}, timeout=60)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of version 1.1.0."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "release_notes.py", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.1.0"\n', encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    return tmp_path


def test_a_tag_that_is_not_the_version_or_a_version_without_a_date_releases_nothing(project: Path) -> None:
    for tag in ("v1.0.0", "1.1.0", "v1.1.0.1"):
        found = notes(project, tag)
        assert (found.returncode, found.stdout) == (1, "")
        assert f"the tag is {tag}, but the version in pyproject.toml is 1.1.0" in found.stderr
    (project / "CHANGELOG.md").write_text(CHANGELOG.replace(" - 2026-02-03", ""), encoding="utf-8")
    found = notes(project, "v1.1.0")
    assert (found.returncode, found.stdout) == (1, "")
    assert "no section of 1.1.0 with a date" in found.stderr


def test_notes_are_of_one_version_with_links_that_lead_somewhere_and_a_line_for_each_item(project: Path) -> None:
    found = notes(project, "v1.1.0")
    assert (found.returncode, found.stdout) == (0, NOTES)


def test_the_next_release_has_notes() -> None:
    found = notes(ROOT, f"v{fhe_auc.__version__}")
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.split()) > 10

"""Where commands and readers of files run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import nothing


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """What commands print is wrapped to 110 columns."""
    monkeypatch.setenv("COLUMNS", "110")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of our own, so that errors show short file names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of which only words and numbers are read: drawing their figures takes most of a second."""
    from fhe_auc.report import page

    monkeypatch.setattr(page, "draw", lambda cards, name: name)
    monkeypatch.setattr(page, "svg", str.encode)
    monkeypatch.setattr(page, "png", str.encode)


@pytest.fixture(scope="module")
def nothing_installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The protocol that does nothing has a name that commands know, for the tests of one file."""
    with nothing.installed(tmp_path_factory.mktemp("nothing")):
        yield

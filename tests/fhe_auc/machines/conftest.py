"""Roles that are ready to serve, and exchanges that postmen carry between, in a folder of each test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; what fails is tried again soon."""
    from tests.support.served import copy_roles

    monkeypatch.chdir(copy_roles(tmp_path / "here"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("fhe_auc.base.clock._RETRY", (0.1, 0.2))
    return tmp_path / "here"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Exchanges of a server and two sites, each with a request of its own; what postmen do to the logger ends."""
    from fhe_auc.base.logs import LOGGER

    for name in ("server", "north", "south"):
        (tmp_path / name / name).mkdir(parents=True)
        (tmp_path / name / name / "request").write_text(name)
    monkeypatch.setattr("fhe_auc.machines.postman._SHORTEST", 0.0)
    monkeypatch.setattr(LOGGER, "propagate", True)
    monkeypatch.setattr(LOGGER, "handlers", list(LOGGER.handlers))
    level = LOGGER.level
    yield tmp_path
    LOGGER.setLevel(level)

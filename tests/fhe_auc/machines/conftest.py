"""Roles that are ready to serve, in a folder of each test's own."""

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

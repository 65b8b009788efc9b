"""Roles that are ready to serve, in a folder of each test's own."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.served import make_roles

    return make_roles(tmp_path_factory.mktemp("hospitals"))


@pytest.fixture
def here(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of its own, as the current folder; what fails is tried again soon."""

    shutil.copytree(template, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("fhe_auc.base.clock._RETRY", (0.1, 0.2))
    return tmp_path / "here"

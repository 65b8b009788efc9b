"""A consortium's folders, as ``fhe-auc keys`` leaves them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fhe_auc_keys.store.key_store import KeyStore
from tests.support.command_line import printed
from tests.support.keys_commands import Clock, join, make, settings
from tests.support.keys_folder import ADDER, SITES


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder of a consortium: two sites, of which north is coordinator, an aggregator, a session; what was said."""
    folder = tmp_path_factory.mktemp("consortium")
    with pytest.MonkeyPatch.context() as patch:
        settings(patch, Clock())
        patch.chdir(folder)
        said = printed("members", "new", "exchange", "north", "--no-start")
        join(*SITES[1:], ADDER)
        make("week")
    return folder, said


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeyStore]:
    """A key store with nothing in it."""
    with KeyStore.create(tmp_path / "store", "long enough") as made:
        yield made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def consortium(template: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Path:
    """A fresh copy of the consortium's folder, as the current one."""
    shutil.copytree(template[0], tmp_path / "here")
    for config in tmp_path.glob("here/*/config.toml"):
        config.write_text(config.read_text().replace(str(template[0]), str(tmp_path / "here")))
    settings(monkeypatch, clock)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"

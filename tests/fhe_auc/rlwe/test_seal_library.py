"""SEAL's objects pass through files that nobody else can open, and that leave nothing behind."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tenseal.sealapi as seal

from fhe_auc.base.errors import InputError
from fhe_auc.rlwe import seal_library
from tests.support.platforms import needs_linux, needs_modes


@pytest.fixture
def generator() -> seal.KeyGenerator:
    parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.BFV)
    parameters.set_poly_modulus_degree(4096)
    parameters.set_coeff_modulus(seal.CoeffModulus.BFVDefault(4096, seal.SEC_LEVEL_TYPE.TC128))
    parameters.set_plain_modulus(seal.PlainModulus.Batching(4096, 20))
    return seal.KeyGenerator(seal.SEALContext(parameters, True, seal.SEC_LEVEL_TYPE.TC128))


def without_files_in_memory(monkeypatch: pytest.MonkeyPatch, folder: Path, platform: str = "darwin") -> None:
    """Go on as on macOS, with temporary files in a folder."""
    monkeypatch.setattr(seal_library, "sys", SimpleNamespace(platform=platform))
    monkeypatch.setattr("tempfile.tempdir", str(folder))


def seen_when_flushed(monkeypatch: pytest.MonkeyPatch, parent: Path, look: Callable[[Path], Any]) -> list[Any]:
    """A list that gets what can be seen of the only folder in `parent` each time that a file goes to the disk."""
    seen: list[Any] = []
    flush = os.fsync

    def watched(descriptor: int) -> None:
        flush(descriptor)
        (folder,) = parent.iterdir()
        seen.append(look(folder))

    monkeypatch.setattr("os.fsync", watched)
    return seen


def test_without_files_in_memory_a_key_is_overwritten_before_its_file_goes(
    generator: seal.KeyGenerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Linux both ways give the same bytes."""
    key = generator.secret_key()
    expected = seal_library.save(key)
    without_files_in_memory(monkeypatch, tmp_path)
    left = seen_when_flushed(monkeypatch, tmp_path, lambda folder: (folder / "object").read_bytes())
    assert seal_library.save(key) == expected
    assert left
    assert not any(left[0])
    assert not list(tmp_path.iterdir())


@needs_modes
def test_without_files_in_memory_a_key_is_in_a_folder_that_nobody_else_can_open(
    generator: seal.KeyGenerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_files_in_memory(monkeypatch, tmp_path)
    modes = seen_when_flushed(monkeypatch, tmp_path, lambda folder: stat.S_IMODE(folder.stat().st_mode))
    seal_library.save(generator.secret_key())
    assert modes == [0o700]


def test_a_temporary_folder_that_seal_cannot_use_on_windows_is_named(
    generator: seal.KeyGenerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, folder = generator.secret_key(), tmp_path / "Köln"
    folder.mkdir()
    without_files_in_memory(monkeypatch, folder, "win32")
    with pytest.raises(InputError, match=r"'.*Köln', has letters beyond ASCII.*: set TEMP to another folder"):
        seal_library.save(key)
    assert not list(folder.iterdir())


@needs_linux("a file in memory")
def test_on_linux_no_key_meets_the_disk(generator: seal.KeyGenerator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    assert seal_library.save(generator.secret_key())

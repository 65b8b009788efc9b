"""SEAL's objects pass through files that nobody else can open, and that leave nothing behind."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import tenseal.sealapi as seal

from fhe_auc.rlwe import seal_format


@pytest.fixture
def generator() -> seal.KeyGenerator:
    parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.BFV)
    parameters.set_poly_modulus_degree(4096)
    parameters.set_coeff_modulus(seal.CoeffModulus.BFVDefault(4096, seal.SEC_LEVEL_TYPE.TC128))
    parameters.set_plain_modulus(seal.PlainModulus.Batching(4096, 20))
    return seal.KeyGenerator(seal.SEALContext(parameters, True, seal.SEC_LEVEL_TYPE.TC128))


def test_without_files_in_memory_a_key_is_in_a_private_folder_and_is_overwritten_before_it_goes(
    generator: seal.KeyGenerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS; on Linux both ways give the same bytes."""
    key = generator.secret_key()
    expected = seal_format.save(key)
    monkeypatch.setattr(seal_format, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left: list[bytes] = []
    flush = os.fsync

    def watched(descriptor: int) -> None:
        flush(descriptor)
        (folder,) = tmp_path.iterdir()
        left.append((folder / "object").read_bytes())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    monkeypatch.setattr("os.fsync", watched)
    assert seal_format.save(key) == expected
    assert left
    assert not any(left[0])
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has files in memory")
def test_on_linux_no_key_meets_the_disk(generator: seal.KeyGenerator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    assert seal_format.save(generator.secret_key())

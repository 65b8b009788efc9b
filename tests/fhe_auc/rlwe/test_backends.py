"""Which encryption library is taken where one of them is not as we need it."""

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import _sealapi_cpp as seal
import pytest

from fhe_auc.base.errors import BackendUnavailableError, DeserialisationError, InputError
from fhe_auc.rlwe import seal_library
from fhe_auc.rlwe.ring_parameters import KEY_CHAIN, choose_backend
from tests.support.platforms import needs_linux

_TAKEN = """
import json, sys
sys.path.insert(0, sys.argv[1])
from fhe_auc.base.errors import BackendUnavailableError
from fhe_auc.rlwe.ring_parameters import available_backends, choose_backend
try:
    told = choose_backend("openfhe")
except BackendUnavailableError as error:
    told = str(error)
print(json.dumps([available_backends(), choose_backend(), told]))
"""


def of_version(version: str) -> tuple[str, str]:
    """What is written into a stand-in for OpenFHE, and what is told of it."""
    told = f"OpenFHE {version} is installed, and fhe-auc is tested with 1.6.1 alone: pip install 'openfhe==1.6.1.*'"
    return f"__version__ = {version!r}\n" if version[0].isdigit() else "", told


@pytest.mark.parametrize(
    ("library", "told"),
    [
        of_version("1.6.10.0"),
        of_version("of an old version"),
        ("raise ImportError('version GLIBCXX_3.4.32 not found')\n", "version GLIBCXX_3.4.32 not found"),
    ],
)
def test_openfhe_of_another_version_or_that_does_not_load_gives_way_to_seal_and_says_why(
    run_child: Callable[..., Any], tmp_path: Path, library: str, told: str
) -> None:
    (tmp_path / "openfhe.py").write_text(library)
    available, chosen, found = run_child(_TAKEN, str(tmp_path))
    assert (available, chosen) == (["tenseal"], "tenseal")
    assert found.startswith("backend 'openfhe' cannot be imported here (available: tenseal on Python 3.")
    assert found.endswith(f"): {told}")


@pytest.mark.openfhe
def test_openfhe_makes_no_evaluation_key_by_which_products_would_lose_most_of_their_bits() -> None:
    from fhe_auc.rlwe.openfhe_library import Scheme

    context = Scheme(KEY_CHAIN).context
    with pytest.raises(RuntimeError, match="EvalMultKeyGen operation has not been enabled"):
        context.EvalMultKeyGen(context.KeyGen().secretKey)


@pytest.mark.parametrize("name", ["palisade", "", "OpenFHE"])
def test_an_unknown_backend_is_named_with_what_there_is(name: str) -> None:
    with pytest.raises(BackendUnavailableError, match=f"unknown backend '{name}' \\(available: .*Python 3"):
        choose_backend(name)


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


def test_without_files_in_memory_a_key_is_overwritten_and_in_a_folder_that_nobody_else_can_open(
    generator: seal.KeyGenerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Linux both ways give the same bytes."""
    key = generator.secret_key()
    expected = seal_library.save(key)
    without_files_in_memory(monkeypatch, tmp_path)
    seen: list[tuple[bytes, int]] = []  # of the only folder, each time that a file goes to the disk
    flush = os.fsync

    def watched(descriptor: int) -> None:
        flush(descriptor)
        (folder,) = tmp_path.iterdir()
        seen.append(((folder / "object").read_bytes(), stat.S_IMODE(folder.stat().st_mode)))

    monkeypatch.setattr("os.fsync", watched)
    assert seal_library.save(key) == expected
    ((left, mode),) = seen
    assert left
    assert not any(left)
    assert mode == 0o700 or sys.platform == "win32"  # which keeps access lists
    assert not list(tmp_path.iterdir())


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


@pytest.mark.parametrize("missing", [1, 1000])
def test_a_key_of_which_seal_has_written_a_part_alone_is_refused(generator: seal.KeyGenerator, missing: int) -> None:
    """As on a full disk: what there is of a stream unpacks without an error."""

    class CutOff:
        def save(self, path: str) -> None:
            generator.secret_key().save(path)
            os.truncate(path, os.path.getsize(path) - missing)

    with pytest.raises(DeserialisationError, match="SEAL wrote a format"):
        seal_library.save(CutOff())

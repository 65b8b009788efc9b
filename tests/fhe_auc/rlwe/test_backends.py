"""Which encryption library is taken where one of them is not as we need it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.base.errors import BackendUnavailableError
from fhe_auc.rlwe.parameters import available_backends, choose_backend

_TAKEN = """
import json, sys
sys.path.insert(0, sys.argv[1])
from fhe_auc.base.errors import BackendUnavailableError
from fhe_auc.rlwe.parameters import available_backends, choose_backend
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


@pytest.mark.parametrize("name", ["palisade", "", "OpenFHE"])
def test_an_unknown_backend_is_named_with_what_there_is(name: str) -> None:
    with pytest.raises(BackendUnavailableError, match=f"unknown backend '{name}' \\(available: .*Python 3"):
        choose_backend(name)


@pytest.mark.backends("all")
def test_the_default_backend_is_the_first_available() -> None:
    assert choose_backend() == available_backends()[0]

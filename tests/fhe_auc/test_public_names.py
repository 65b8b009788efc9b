"""What is public is documented where it is said what is public, and imports without what it does not need."""

import inspect
import re
import subprocess
import sys

import pytest

import fhe_auc
from fhe_auc_protocols import options

HEAVY = {"flwr", "matplotlib", "numpy", "opendp", "openfhe", "pandas", "pyarrow", "rich", "scipy", "sklearn", "tenseal"}


def test_what_is_listed_is_what_is_public_and_all_of_it_and_nothing_else_is_documented() -> None:
    assert [name for name in dir(fhe_auc) if not name.startswith("__")] == sorted(fhe_auc.__all__)
    assert {"__all__", "__doc__", "__version__"} <= set(dir(fhe_auc))
    assert set(re.findall(r"`(\w+)`", fhe_auc.__doc__ or "")) - {"__all__"} == set(fhe_auc.__all__)
    assert all(inspect.getdoc(getattr(fhe_auc, name)) for name in fhe_auc.__all__)
    for name in options.__all__:
        kind = getattr(options, name)
        assert (inspect.getdoc(kind) or "").startswith(f"Of ``{kind.protocol}``")
    with pytest.raises(AttributeError, match="no attribute 'federated_evaluation'"):
        _ = fhe_auc.federated_evaluation  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [name for name in fhe_auc.__all__ if name.startswith("federated_")])
def test_every_argument_of_a_public_function_is_documented(name: str) -> None:
    function = getattr(fhe_auc, name)
    documented = set(re.findall(r"^(\w[\w, ]*)(?: :.*)?$", inspect.getdoc(function) or "", re.MULTILINE))
    words = {word.strip() for line in documented for word in line.split(",")}
    assert set(inspect.signature(function).parameters) <= words


@pytest.mark.parametrize(
    "code", ["import fhe_auc", "from fhe_auc.cli import main; main(['--help'], standalone_mode=False)"]
)
def test_the_import_and_the_help_load_nothing_that_takes_long(code: str) -> None:
    check = f"import sys; {code}; print(sorted({HEAVY!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"

"""What is public is documented where it is said what is public, and imports without what it does not need."""

import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fhe_auc
from tests.support.programs import output_of

NEVER = {"flwr", "matplotlib", "opendp", "pandas", "scipy", "sklearn", "numpy.ma", "numpy.polynomial"}
HEAVY = {"flwr", "matplotlib", "numpy", "opendp", "openfhe", "pandas", "pyarrow", "scipy", "sklearn", "_sealapi_cpp"}
BEFORE_A_COMMAND = {"difflib", "email", "hashlib", "importlib.metadata", "json", "logging", "msgspec", "random", "rich"}
IN_AN_EVALUATION = {
    *("asyncio", "difflib", "email", "fsspec", "http", "hypothesis", "importlib.metadata", "jinja2", "multiprocessing"),
    *("rich", "sqlite3", "ssl", "subprocess", "tenseal", "unittest", "zipfile"),
    *("fhe_auc.figures.report_card", "fhe_auc.machines", "fhe_auc.report", "fhe_auc.results.report_tables"),
    *("fhe_auc.results.report_measures", "fhe_auc_benchmarks", "fhe_auc_keys.cli", "fhe_auc_keys.store"),
}
if sys.version_info < (3, 11):
    IN_AN_EVALUATION.remove("subprocess")  # Python's own `uuid` and `platform` load it there


def test_what_is_listed_is_what_is_public_and_all_of_it_and_nothing_else_is_documented() -> None:
    assert [name for name in dir(fhe_auc) if not name.startswith("__")] == sorted(fhe_auc.__all__)
    assert {"__all__", "__doc__", "__version__"} <= set(dir(fhe_auc))
    assert set(re.findall(r"`(\w+)`", fhe_auc.__doc__ or "")) - {"__all__"} == set(fhe_auc.__all__)
    assert all(inspect.getdoc(getattr(fhe_auc, name)) for name in fhe_auc.__all__)
    with pytest.raises(AttributeError, match="no attribute 'federated_evaluation'"):
        _ = fhe_auc.federated_evaluation  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["", *fhe_auc.__all__])
def test_examples_of_every_public_name_run(name: str) -> None:
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    named = getattr(fhe_auc, name) if name else fhe_auc
    if inspect.isclass(named) and issubclass(named, Exception):
        return
    (examples,) = doctest.DocTestFinder(recurse=False).find(named, name, globs={name: named})
    try:
        assert examples.examples
        assert doctest.DocTestRunner(verbose=False).run(examples).failed == 0
    finally:
        pyplot.close("all")


@pytest.mark.parametrize("name", [name for name in fhe_auc.__all__ if name.startswith("federated_")])
def test_every_argument_of_a_public_function_is_documented(name: str) -> None:
    function = getattr(fhe_auc, name)
    text = (inspect.getdoc(function) or "").replace("**", "")
    documented = set(re.findall(r"^(\w[\w, ]*)(?: :.*)?$", text, re.MULTILINE))
    words = {word.strip() for line in documented for word in line.split(",")}
    told = set() if name == "federated_auc" else set(inspect.signature(fhe_auc.federated_auc).parameters)
    assert set(inspect.signature(function).parameters) <= words | told  # the others refer to its keywords


@pytest.mark.parametrize(
    "code", ["import fhe_auc", "from fhe_auc.cli import main; main(['--help'], standalone_mode=False)"]
)
def test_the_import_and_the_help_load_nothing_that_takes_long(code: str) -> None:
    check = f"import sys; {code}; print(sorted({HEAVY | BEFORE_A_COMMAND!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (["evaluate", "--help"], {"cryptography.x509", "openfhe", "pyarrow", "_sealapi_cpp"}),
        (["evaluate", "--protocol", "verified"], {"cryptography.x509", "filelock", "numpy.fft", "numpy.random"}),
        pytest.param(
            *(["evaluate", "--protocol", "semi-honest"], {"cryptography.x509", "filelock", "numpy.random"}),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_evaluation_loads_what_its_protocol_needs(tmp_path: Path, arguments: list[str], unused: set[str]) -> None:
    """Certificates, locks, other ways to hold keys, parts of numpy: each takes its share of the first second."""
    for more, name in enumerate(("north.csv", "south.csv", "west.csv")):
        lines = "".join(f"{k % 2},{(k * 7 % 20) / 20}\n" for k in range(60 + more))
        (tmp_path / name).write_text(f"y_true,y_score\n{lines}")
    files = [] if "--help" in arguments else ["north.csv", "south.csv", "west.csv", "--thresholds", "uniform:20"]
    code = f"import sys; from fhe_auc.cli import main; main({[*arguments, *files]!r}, standalone_mode=False); "
    check = f"{code}print(sorted({unused | NEVER | IN_AN_EVALUATION!r} & set(sys.modules)))"
    assert output_of([sys.executable, "-c", check], cwd=tmp_path, timeout=120).splitlines()[-1] == "[]"

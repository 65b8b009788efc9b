"""What pip installs works outside the repository: our wheel, and a protocol that somebody else ships."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import output_of

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "protocol_plugin"
IMPORTED = {"fhe_auc", "fhe_auc_keys", "fhe_auc_protocols", "fhe_auc_benchmarks"}

Run = Callable[..., Any]

pytestmark = pytest.mark.xdist_group("wheel")  # built once


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our wheel and the example's, as pip builds and lays them out; without dependencies, so offline."""
    target = tmp_path_factory.mktemp("site-packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    output_of([*pip, "--no-build-isolation", "--no-compile", "--target", str(target), str(ROOT), str(EXAMPLE)])
    return target


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    """Return a function that runs Python on what is installed, in a folder with stray modules."""
    (tmp_path / "keys.py").write_text("raise RuntimeError('a stray keys.py was imported')\n")
    (tmp_path / "protocols").mkdir()
    (tmp_path / "protocols" / "__init__.py").write_text("raise RuntimeError('stray protocols were imported')\n")
    for site, rows in {
        "north": "1,0.875\n0,0.25\n1,0.625\n0,0.375\n",
        "south": "0,0.125\n1,0.3125\n1,0.75\n0,0.5\n",
    }.items():
        (tmp_path / f"{site}.csv").write_text("y_true,y_score\n" + rows)
    environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}

    def call(code: str, *arguments: str) -> Any:
        # "-c" puts the current folder first on the path: stray modules win over ours, if ours had their names.
        return json.loads(output_of([sys.executable, "-c", code, *arguments], cwd=tmp_path, env=environment))

    return call


COMMAND = "from fhe_auc.cli import main; main()"
EVALUATE = (COMMAND, "evaluate", "north.csv", "south.csv", "--json", "--thresholds", "uniform:17")
AUC = 14 / 16  # of the eight rows: of 16 pairs, all but those of 0.3125 with 0.375 and with 0.5 are in order


def test_what_runs_is_the_wheel_with_our_four_packages_and_no_generic_name(installed: Path, run: Run) -> None:
    found = {each.name for each in installed.iterdir() if each.is_dir() and "." not in each.name}
    assert found - {"bin", "__pycache__"} == IMPORTED
    assert (installed / "fhe_auc" / "data" / "covid_clinics.npz").is_file()
    assert (installed / "fhe_auc" / "machines" / "units" / "role.service").is_file()
    code = "import json, sys, fhe_auc_keys.store.key_store, fhe_auc_benchmarks\n"
    code += "import fhe_auc_protocols.blinded_auc.semi_honest\n"
    code += "print(json.dumps([sys.modules[name].__file__ for name in sys.argv[1:]]))"
    for file in run(code, *sorted(IMPORTED)):
        assert Path(file).is_relative_to(installed)


def test_commands_run_beside_stray_modules_of_generic_names_also_a_protocol_that_another_package_names(
    run: Run,
) -> None:
    assert run(*EVALUATE, "--protocol", "verified")["auc"] == pytest.approx(AUC, abs=1e-6)
    found = run(*EVALUATE, "--protocol", "nothing")
    assert (found["auc"], found["binning_error"]) == (0.5, 0.5)
    assert (found["protocol"], found["keys"]) == ("nothing", "none")

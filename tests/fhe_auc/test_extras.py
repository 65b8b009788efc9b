"""Without the extras the package works; what needs one says so in one sentence, with the command that installs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fhe_auc.extras import EXTRAS, MissingExtraError, require
from fhe_auc.trapezoid import auc_of_rows

WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({modules!r}))  # None: cannot be imported, and is not found
from fhe_auc.cli import main
main()
"""


def without_extras(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(modules=[module for module, _ in EXTRAS.values()])
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("north", "south", "west"):
        rows = "".join(f"{k % 2},{(k * 7 % 20) / 20}\n" for k in range(60))
        (tmp_path / f"{name}.csv").write_text(f"y_true,y_score\n{rows}")
    return tmp_path


def test_the_demo_needs_no_extra(tmp_path: Path) -> None:
    done = without_extras(tmp_path, "demo", "--dataset", "credit-default", "--thresholds", "uniform:20", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pooled_auc"] == pytest.approx(0.634744, abs=1e-6)


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("plots", ["report", "north.csv", "south.csv", "west.csv"]),
        ("plots", ["demo", "--plot", "a.png"]),
        ("dp", ["evaluate", "north.csv", "south.csv", "--protocol", "dpauc-laplace", "-o", "epsilon=1"]),
        ("benchmark", ["compare-protocols", "north.csv", "south.csv"]),
        ("flower", ["flower", "simulate", "north.csv", "south.csv"]),
    ],
)
def test_what_needs_an_extra_says_so_in_one_sentence(folder: Path, extra: str, arguments: list[str]) -> None:
    done = without_extras(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1
    assert f"pip install '.[{extra}]'" in done.stderr


def test_what_is_installed_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    require("plots")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="figures and reports need matplotlib"):
        require("plots")


@pytest.mark.parametrize("digits", [1, 3, 17])
def test_the_auc_of_rows_is_scikit_learns(digits: int) -> None:
    random = np.random.default_rng(digits)
    labels = random.random(500) < 0.3
    scores = np.round(random.random(500) + 0.2 * labels, digits)
    assert float(auc_of_rows(labels, scores)) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)

"""Without the extras the package works; what needs one says so in one sentence, with the command that installs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import EXTRAS, require
from fhe_auc.machines.flower import FLOWER as FLWR
from fhe_auc.machines.flower import require_flower
from fhe_auc.metrics.trapezoid import auc_of_rows
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request

MISSING = [*(module for modules, _ in EXTRAS.values() for module in modules), "pandas", "polars", "statsmodels"]
FILES = ["north.csv", "south.csv", "west.csv"]
KENDALL = ["--statistic", "kendall", "--column", "y_true", "--column", "y_score", "--epsilon", "1", "--range", "0", "1"]

FLOWER = pytest.mark.skipif(sys.version_info < (3, 11), reason="Flower needs Python 3.11")
flower = partial(pytest.param, marks=FLOWER)

WITHOUT = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *others: None if name in {modules!r} else find(name, *others)
{code}
"""
COMMAND = "from fhe_auc.cli import main; main()"
SESSION = """
import json, pyarrow
from fhe_auc import Breakdown, Columns, Setup, federated_auc
options = json.loads(sys.argv[1])
parts = {"columns": Columns(site="site", **options.pop("columns")), "setup": Setup(**options.pop("setup", {}))}
parts["breakdown"] = Breakdown(**options.pop("breakdown", {}))
found = federated_auc(pyarrow.table(json.load(open("rows.json"))), **parts, **options)
told = found.as_dict()
print(json.dumps({**told, "bins": 0 if found.histogram is None else found.histogram.bins}, default=str))
"""


def without_extras(
    folder: Path, *arguments: str, code: str = COMMAND, but: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command where no extra, `but` one, is installed."""
    there = EXTRAS[but][0] if but else ()
    return subprocess.run(
        [
            sys.executable,
            "-c",
            WITHOUT.format(modules=[each for each in MISSING if each not in there], code=code),
            *arguments,
        ],
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


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    """Five sites of 80 rows, two models; scores are thresholds, so that bins tie no two that differ."""
    random = np.random.default_rng(22)
    labels = np.arange(400) % 3 == 0
    scores = {name: random.integers(0, 12, 400) + 4 * labels for name in ("y_score", "other")}
    columns = {name: (found / 16).tolist() for name, found in scores.items()}
    sites = [f"site {k % 5}" for k in range(400)]
    return {"y_true": labels.astype(int).tolist(), "site": sites, "age": ["old", "young"] * 200, **columns}


def session_without_extras(folder: Path, rows: dict[str, Any], **options: Any) -> dict[str, Any]:
    (folder / "rows.json").write_text(json.dumps(rows))
    done = without_extras(folder, json.dumps({"thresholds": "uniform:17", **options}), code=SESSION)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("protocol", "backend"),
    [
        pytest.param("semi-honest", "openfhe", marks=pytest.mark.openfhe),
        ("malicious", "tenseal"),
        ("exact", "tenseal"),
        pytest.param("verified", "openfhe", marks=pytest.mark.openfhe),
        ("histogram-federated", "tenseal"),
    ],
)
def test_sessions_that_add_no_noise_need_no_extra(
    tmp_path: Path, rows: dict[str, Any], protocol: str, backend: str
) -> None:
    found = session_without_extras(tmp_path, rows, columns={}, protocol=protocol, setup={"backend": backend})
    assert found["auc"] == pytest.approx(roc_auc_score(rows["y_true"], rows["y_score"]), abs=1e-5)
    assert (found["interval"] is not None) == (protocol in ("exact", "verified"))
    assert found["bins"] == (17 if protocol == "histogram-federated" else 0)


def test_models_groups_and_sites_need_no_extra(tmp_path: Path, rows: dict[str, Any]) -> None:
    breakdown = {"by": ["age"], "heterogeneity": True}
    found = session_without_extras(tmp_path, rows, columns={"score": ["y_score", "other"]}, breakdown=breakdown)
    aucs = {(each["model"], each["group"]): each["auc"] for each in found["estimates"]}
    for model in ("y_score", "other"):
        assert aucs[model, "all"] == pytest.approx(roc_auc_score(rows["y_true"], rows[model]), abs=1e-12)
    assert len(aucs) == 6
    assert all(each["prediction"] is not None for each in found["sites"])


@pytest.mark.parametrize("protocol", ["histogram-local-dp", "ustat-krr", "ustat-hierarchy"])
def test_rows_that_are_randomised_one_by_one_need_no_extra(folder: Path, protocol: str) -> None:
    arguments = ["--protocol", protocol, "-o", "epsilon=30", "--thresholds", "uniform:20", "--json"]
    done = without_extras(folder, "evaluate", *FILES, *arguments)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["protocol"] == protocol
    assert 0 <= found["auc"] <= 1  # of so few rows, with so much noise, it says no more


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", *FILES],
        ["evaluate", *FILES, "--score-scale", "logit", "--thresholds", "quantile:20"],
        ["calibrate", "fit", *FILES, "--thresholds", "uniform:20", "--out", "map.json"],
        ["plan"],
        ["protocols"],
        ["demo", "--cheat", "add-positives", "--no-interval"],
    ],
)
def test_these_commands_need_no_extra(folder: Path, arguments: list[str]) -> None:
    done = without_extras(folder, *arguments)
    assert done.returncode == (1 if "--cheat" in arguments else 0), done.stderr
    assert "need" not in done.stderr


def test_the_demo_needs_no_extra(tmp_path: Path) -> None:
    done = without_extras(tmp_path, "demo", "--dataset", "credit-default", "--thresholds", "uniform:20", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pooled_auc"] == pytest.approx(0.634744, abs=1e-6)


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("plots", ["report", *FILES]),
        ("plots", ["demo", "--plot", "a.png"]),
        ("dp", ["evaluate", "north.csv", "south.csv", "--protocol", "dpauc-laplace", "-o", "epsilon=1"]),
        ("dp", ["evaluate", *FILES, "--protocol", "dpauc-gaussian", "-o", "epsilon=1", "-o", "delta=1e-6"]),
        ("dp", ["plan", "--protocol", "histogram-distributed-dp", "-o", "epsilon=1"]),
        ("dp", ["calibrate", "fit", *FILES, "--model", "distributed-dp", "--epsilon", "1", "--out", "map.json"]),
        ("dp", ["ustat", "north.csv", *KENDALL, "--exact"]),
        ("dp", ["ustat", "north.csv", *KENDALL, "--method", "pairs"]),
        ("benchmark", ["compare-protocols", "north.csv", "south.csv"]),
        ("benchmark", ["attack", "--trials", "0"]),
        flower("simulation", ["flower", "simulate", "north.csv", "south.csv"]),
        flower("flower", ["flower", "local-deployment", "north.csv", "south.csv"]),
        flower("flower", ["flower", "bundle", "app"]),
        flower("flower", ["flower", "superlink", "--insecure"]),
        flower("flower", ["flower", "supernode", "--bundle-sha256", "0" * 64]),
    ],
)
def test_what_needs_an_extra_says_so_in_one_sentence(folder: Path, extra: str, arguments: list[str]) -> None:
    done = without_extras(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1
    assert f"pip install '.[{extra}]'" in done.stderr


@FLOWER
def test_a_simulation_without_ray_says_what_to_install(folder: Path) -> None:
    done = without_extras(folder, "flower", "simulate", "north.csv", "south.csv", but="flower")
    assert done.returncode == 2
    told = "error: simulations over Flower need ray: in a clone of fhe-auc, pip install '.[simulation]'"
    assert done.stderr.splitlines() == [told]


def test_on_an_old_python_flower_says_which_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.version_info", (3, 10, 13))
    with pytest.raises(InputError, match=r"^Flower needs Python 3\.11 or later, and this is 3\.10$"):
        require_flower()


@FLOWER
def test_another_version_of_flower_than_the_one_relied_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fhe_auc.machines.flower.version", lambda name: "1.42.0")
    with pytest.raises(InputError, match=rf"flwr 1\.42\.0 is installed, fhe-auc relies on {re.escape(FLWR)}: "):
        require_flower()


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("plots", ["report", *FILES, "--thresholds", "uniform:20"]),
        # Budgets so large that noise leaves rows of both classes, whatever is drawn.
        ("dp", ["evaluate", *FILES, "--protocol", "histogram-distributed-dp", "-o", "epsilon=32"]),
        ("dp", ["evaluate", *FILES, "--protocol", "dpauc-gaussian", "-o", "epsilon=32", "-o", "delta=1e-6"]),
    ],
)
def test_an_extra_is_all_that_its_uses_need(folder: Path, extra: str, arguments: list[str]) -> None:
    done = without_extras(folder, *arguments, but=extra)
    assert done.returncode == 0, done.stderr


def test_an_extra_of_which_a_part_is_missing_names_that_part(monkeypatch: pytest.MonkeyPatch) -> None:
    require("dp")
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(InputError, match="protocols that add noise need scipy: "):
        require("dp")
    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(InputError, match="protocols that add noise need opendp and scipy: "):
        require("dp")


def test_a_session_that_needs_an_extra_makes_no_key_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*arguments: object, **named: object) -> None:
        raise AssertionError("a key was made")

    request = Request(
        parties=("north", "south", "west"), thresholds=np.linspace(0, 1, 20, endpoint=False), options={"epsilon": 1.0}
    )
    plugin = registry.load("histogram-distributed-dp")
    monkeypatch.setattr("fhe_auc_keys.roles.sealed_vectors.new_common_secret", forbidden)
    with pytest.raises(AssertionError, match="a key was made"):
        plugin.prepare(request)
    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(InputError, match="protocols that add noise need opendp: "):
        plugin.prepare(request)


@pytest.mark.parametrize("digits", [1, 3, 17])
def test_the_auc_of_rows_is_scikit_learns(digits: int) -> None:
    random = np.random.default_rng(digits)
    labels = random.random(500) < 0.3
    scores = np.round(random.random(500) + 0.2 * labels, digits)
    assert float(auc_of_rows(labels, scores)) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)

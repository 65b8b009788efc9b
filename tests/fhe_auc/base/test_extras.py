"""Without the extras the package works; what needs one says so in one sentence, with the command that installs it."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import EXTRAS, require
from fhe_auc.ckks import available_backends
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from tests.support.lazy import Lazy
from tests.support.programs import output_of

roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

MISSING = [*(module for modules, _ in EXTRAS.values() for module in modules), "pandas", "polars", "statsmodels"]
FILES = ["north.csv", "south.csv", "west.csv"]


WITHOUT = """
import json, sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *others: None if name in {modules!r} else find(name, *others)
"""
COMMANDS = """
from click.testing import CliRunner
from fhe_auc.cli import main
done = [CliRunner().invoke(main, words) for words in json.loads(sys.argv[1])]
print(json.dumps([(each.exit_code, each.stdout, each.stderr) for each in done]))
"""
SESSIONS = """
import pyarrow
from fhe_auc import federated_auc
def found(**options):
    rows = pyarrow.table(json.load(open("rows.json")))
    found = federated_auc(rows, site="site", thresholds="uniform:17", **options)
    return {**found.as_dict(), "bins": 0 if found.histogram is None else found.histogram.bins}
print(json.dumps([found(**options) for options in json.loads(sys.argv[1])], default=str))
"""


def without_extras(folder: Path, code: str, asked: list[Any], *, but: str = "") -> list[Any]:
    """Run commands or sessions, one after another, in a process where no extra, `but` one, is installed."""
    there = EXTRAS[but][0] if but else ()
    hidden = WITHOUT.format(modules=[each for each in MISSING if each not in there])
    command = [sys.executable, "-c", hidden + code, json.dumps(asked)]
    found: list[Any] = json.loads(output_of(command, cwd=folder, timeout=240).splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, rows: dict[str, Any]) -> Path:
    place = tmp_path_factory.mktemp("sites")
    for more, name in enumerate(FILES):
        lines = "".join(f"{k % 2},{(k * 7 % 20) / 20}\n" for k in range(60 + more))
        (place / name).write_text(f"y_true,y_score\n{lines}")
    (place / "rows.json").write_text(json.dumps(rows))
    return place


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    """Five sites of 80 rows, two models; scores are thresholds, so that bins tie no two that differ."""
    random = np.random.default_rng(22)
    labels = np.arange(400) % 3 == 0
    scores = {name: random.integers(0, 12, 400) + 4 * labels for name in ("y_score", "other")}
    columns = {name: (found / 16).tolist() for name, found in scores.items()}
    sites = [f"site {k % 5}" for k in range(400)]
    return {"y_true": labels.astype(int).tolist(), "site": sites, "age": ["old", "young"] * 200, **columns}


@pytest.mark.backends("all")
def test_sessions_without_noise_need_no_extra_nor_do_several_models_and_groups(
    folder: Path, rows: dict[str, Any]
) -> None:
    protocols = ("semi-honest", "malicious", "exact", "verified", "histogram-federated")
    backends = {"semi-honest": available_backends()[0], "verified": available_backends()[0]}
    asked = [{"protocol": protocol, "backend": backends.get(protocol, "tenseal")} for protocol in protocols]
    breakdown = {"by": ["age"], "heterogeneity": True}
    asked.append({"score": ["y_score", "other"], **breakdown})
    *plain, several = without_extras(folder, SESSIONS, asked)
    for protocol, found in zip(protocols, plain, strict=True):
        off = 0.05 if protocol == "semi-honest" else 1e-5  # it is rounded, to one decimal here
        assert found["auc"] == pytest.approx(roc_auc_score(rows["y_true"], rows["y_score"]), abs=off)
        assert (found["interval"] is not None) == (protocol in ("exact", "verified"))
        assert found["bins"] == (17 if protocol == "histogram-federated" else 0)
    aucs = {(each["model"], each["group"]): each["auc"] for each in several["estimates"]}
    for model in ("y_score", "other"):
        assert aucs[model, "all"] == pytest.approx(roc_auc_score(rows["y_true"], rows[model]), abs=1e-12)
    assert len(aucs) == 6
    assert all(each["prediction"] is not None for each in several["sites"])


def test_commands_and_protocols_that_randomise_rows_need_no_extra_or_say_in_one_sentence_which(folder: Path) -> None:
    grid = ("--thresholds", "uniform:20")
    protocols = ("histogram-distributed-dp", "histogram-local-dp", "ustat-krr", "ustat-hierarchy")
    asked = [
        *(["evaluate", *FILES, *grid, "--protocol", protocol, "-o", "epsilon=30", "--json"] for protocol in protocols),
        ["evaluate", *FILES, *grid],
        ["evaluate", *FILES, "--score-scale", "logit", "--thresholds", "quantile:20"],
        ["calibrate", "fit", *FILES, *grid, "--out", "map.json"],
        ["calibrate", "fit", *FILES, "--model", "distributed-dp", "--epsilon", "32", "--out", "new.json"],
        ["plan"],
        ["plan", *grid, "--protocol", "histogram-distributed-dp", "-o", "epsilon=1"],
        ["protocols"],
        ["fleet", "simulate", "--parties", "20", "--thresholds", "uniform:9"],
        ["members", "--help"],
        ["demo", "--dataset", "credit-default", *grid, "--json"],
        ["demo", "--dataset", "credit-default", *grid, "--cheat", "add-positives"],
    ]
    need = [
        ("plots", ["report", *FILES]),
        ("plots", ["demo", "--plot", "a.png"]),
        ("dp", ["evaluate", "north.csv", "south.csv", "--protocol", "dpauc-laplace", "-o", "epsilon=1"]),
        ("dp", ["evaluate", *FILES, "--protocol", "dpauc-gaussian", "-o", "epsilon=1", "-o", "delta=1e-6"]),
        ("benchmark", ["compare-protocols", "north.csv", "south.csv"]),
        ("benchmark", ["attack"]),
        ("benchmark", ["benchmark", "--quick"]),
    ]
    if sys.version_info >= (3, 11):  # which Flower needs
        need.append(("simulation", ["evaluate", "north.csv", "south.csv", "--flower"]))
    found = without_extras(folder, COMMANDS, [*asked, *(arguments for _, arguments in need)])
    done, refused = found[: len(asked)], found[len(asked) :]
    for arguments, (status, _, stderr) in zip(asked, done, strict=True):
        assert status == (1 if "--cheat" in arguments else 0), stderr
        assert "need" not in stderr
    assert json.loads(done[-2][1])["pooled_auc"] == pytest.approx(0.634744, abs=1e-6)
    for protocol, (_, stdout, _) in zip(protocols, done, strict=False):
        told = json.loads(stdout)
        assert told["protocol"] == protocol
        assert 0 <= told["auc"] <= 1  # of so few rows, with so much noise, it says no more
    for (extra, arguments), (status, stdout, stderr) in zip(need, refused, strict=True):
        assert (status, stdout) == (2, ""), arguments
        assert len(stderr.strip().splitlines()) == 1
        assert f"pip install '.[{extra}]'" in stderr


@pytest.mark.parametrize(
    ("extra", "asked"),
    [
        ("plots", [["evaluate", *FILES, "--thresholds", "uniform:20", "--plot", "roc.png"]]),
        pytest.param("plots", [["report", *FILES, "--thresholds", "uniform:20"]], marks=pytest.mark.slow),
        # Budgets so large that noise leaves rows of both classes, whatever is drawn.
        pytest.param(
            "dp",
            [
                ["evaluate", *FILES, "--protocol", "dpauc-gaussian", "-o", "epsilon=32", "-o", "delta=1e-6"],
            ],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_extra_is_all_that_its_uses_need(folder: Path, extra: str, asked: list[list[str]]) -> None:
    for status, _, stderr in without_extras(folder, COMMANDS, asked, but=extra):
        assert status == 0, stderr


def test_a_session_names_the_part_of_an_extra_that_is_missing_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(
        parties=("north", "south", "west"), thresholds=np.linspace(0, 1, 20, endpoint=False), options={"epsilon": 1.0}
    )
    plugin = registry.load("dpauc-laplace")
    plugin.prepare(request)
    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(InputError, match="protocols that add noise need opendp: "):
        plugin.prepare(request)
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(InputError, match="protocols that add noise need opendp and scipy: "):
        require("dp")

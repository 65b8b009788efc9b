"""Flower for real: a simulation and a deployment over TLS give the AUC of `evaluate`, and leave nothing behind."""

import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from click.testing import CliRunner

from fhe_auc.cli import main
from fhe_auc.rows.party_data import PartyData
from tests.support.chosen import federated_auc
from tests.support.processes import marked
from tests.support.programs import check_training_example

PROGRAM = str(Path(sys.executable).parent / "fhe-auc")
PRECISION = 1e-6
GRID = "uniform:16"
slow = partial(pytest.param, marks=pytest.mark.slow)

# One after the other: each of them wants all cores for itself.
pytestmark = [pytest.mark.xdist_group("flower"), pytest.mark.timeout(600)]


class Terminal:
    """Runs our program where everything that it starts and writes can be found again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Short, because Ray's sockets lie below it.
        self.temporary = Path(tempfile.mkdtemp(prefix="fl"))
        self.mark = f"FHE_AUC_TEST={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        self.environment = {**os.environ, name: value, "TMPDIR": str(self.temporary)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, "flower", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell that runs tests in the background has it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self, *arguments: str) -> dict[str, Any]:
        with self.start(*arguments, "--json") as process:
            printed, told = process.communicate(timeout=500)
        assert process.returncode == 0, told
        found: dict[str, Any] = json.loads(printed)
        return found

    def left(self) -> set[int]:
        """What still runs: it has our mark, or, as Ray's agents overwrite theirs, a file of ours."""
        opened = (entry for entry in Path("/proc").glob("[0-9]*") if self.has_open(entry / "fd"))
        return {*marked(self.mark), *(int(entry.name) for entry in opened)}

    def has_open(self, descriptors: Path) -> bool:
        with contextlib.suppress(OSError):
            for each in descriptors.iterdir():
                with contextlib.suppress(OSError):
                    if str(each.readlink()).startswith(f"{self.temporary}/"):
                        return True
        return False

    def assert_clean(self) -> None:
        """All that was started has ended, and nothing is left on the disk: our program ends after that only."""
        assert not self.left()
        assert list(self.temporary.iterdir()) == []


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    shutil.rmtree(made.temporary, ignore_errors=True)


def write(path: Path, sites: list[PartyData]) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["site", "y_true", "y_score"])
        for data in sites:
            pairs = zip(data.y_true.tolist(), data.y_score.tolist(), strict=True)
            rows.writerows([data.name, int(label), repr(score)] for label, score in pairs)


@pytest.fixture
def files(terminal: Terminal, site_rows: list[PartyData]) -> list[str]:
    for data in site_rows:
        write(terminal.folder / f"{data.name}.csv", [data])
    return [f"{data.name}.csv" for data in site_rows]


@pytest.mark.parametrize(
    ("command", "protocol", "sites", "rounds"),
    [("simulate", "exact", 2, 2), slow("local-deployment", "verified", 3, 3)],
)
def test_a_simulation_gives_the_auc_of_evaluate_and_leaves_nothing_behind(
    command: str, protocol: str, sites: int, rounds: int, terminal: Terminal, site_rows: list[PartyData]
) -> None:
    write(terminal.folder / "all.csv", site_rows[:sites])
    asked = {"thresholds": GRID, "protocol": protocol}
    options = [each for name, value in asked.items() for each in (f"--{name}", value)]
    found = terminal.run(command, "all.csv", "--site-column", "site", *options)
    expected = federated_auc(site_rows[:sites], **asked)
    assert found["auc"] == pytest.approx(expected.auc, abs=PRECISION)
    assert found["binning_error"] == pytest.approx(expected.binning_error, abs=PRECISION)
    assert (found["parties"], found["rounds"], found["protocol"]) == (sites, rounds, protocol)
    assert set(found["seconds"]) == {"keys", "submit", "recover"}
    terminal.assert_clean()


@pytest.mark.slow
def test_the_training_example_prints_how_far_the_average_is_off(terminal: Terminal) -> None:
    check_training_example("run_flower.py", terminal.environment)
    terminal.assert_clean()


def test_bad_usage_is_one_line_and_a_bundle_is_the_same_each_time_and_holds_no_code(
    terminal: Terminal, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(terminal.folder)
    for arguments, message in (
        (("simulate", "north.csv", "--protocol", "nonsense"), "unknown protocol 'nonsense'"),
        (("simulate", "nowhere.csv"), "nowhere.csv"),
        (("supernode", "--bundle-sha256", "abc"), "64 hexadecimal digits"),
    ):
        done = CliRunner().invoke(main, ["flower", *arguments])
        assert (done.exit_code, message in done.stderr.splitlines()[-1]) == (2, True)
        assert "Traceback" not in done.output
    made = [CliRunner().invoke(main, ["flower", "bundle", str(terminal.folder / name), "--json"]) for name in "ab"]
    first, second = (json.loads(done.stdout) for done in made)
    assert first["sha256"] == second["sha256"]
    assert [path.name for path in (terminal.folder / "a").iterdir()] == ["pyproject.toml"]

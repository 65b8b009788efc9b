"""docs/guide/flower.md, executed: three machines as three folders, from certificates to a result at each site."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from fhe_auc import federated_auc
from fhe_auc.rows.party_data import PartyData
from fhe_auc_keys.roles.local_consortium import TRIAL
from tests.support.programs import run

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "flower.md"
BLOCK = re.compile(r"^```sh (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SITES = ("north", "south", "west")
TERMINALS = {"all": ("authority", "aggregator", *SITES), "sites": SITES}
"""Blocks for more than one terminal."""

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flower"), pytest.mark.timeout(600)]


class Walk:
    """Runs the guide's blocks, each where its terminal's earlier ones have left it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = str(uuid.uuid4())

    def run(self, terminal: str, commands: str) -> str:
        state = self.folder / f".{terminal}"
        state.touch()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FHE_AUC")} | {
            "FHE_AUC_TEST": self.mark,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        shell = ["/bin/bash", "-euc", f". {state}\n{commands}\nexport -p > {state}"]
        same = "y\n" * 9  # to whether fingerprints are the same
        done = run(shell, cwd=self.folder, input=same, env=environment, stderr=subprocess.STDOUT)
        assert done.returncode == 0, f"{terminal}: {commands}\n{done.stdout}{self.logs()}"
        return done.stdout

    def logs(self) -> str:
        return "".join(f"{path}: {path.read_text()[-2000:]}" for path in self.folder.glob("*/*.log"))

    def stop(self) -> None:
        """End what the guide leaves running."""
        deadline = time.monotonic() + 10
        while left := list(self.left()):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL)
            time.sleep(0.2)

    def left(self) -> Iterator[int]:
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
                if alive and f"FHE_AUC_TEST={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)


@pytest.fixture
def walk(tmp_path: Path, site_rows: list[PartyData]) -> Iterator[Walk]:
    made = Walk(tmp_path)
    pooled = ["site,y_true,y_score"]
    for data, name in zip(site_rows, SITES, strict=True):
        rows = [f"{int(y)},{float(s)!r}" for y, s in zip(data.y_true, data.y_score, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["y_true,y_score", *rows]) + "\n")
        pooled += [f"{name},{row}" for row in rows]
    (tmp_path / "all.csv").write_text("\n".join(pooled) + "\n")
    yield made
    made.stop()


def test_the_guide_runs_as_it_stands_and_ends_with_the_auc_of_evaluate(walk: Walk, site_rows: list[PartyData]) -> None:
    expected = federated_auc(site_rows)
    printed = [
        (terminal, walk.run(terminal, commands))
        for place, commands in BLOCK.findall(GUIDE.read_text())
        for terminal in TERMINALS.get(place, (place,))
    ]
    tried, checked = (text for terminal, text in printed if terminal == "here")
    assert len(re.findall(rf"^AUC, encrypted +{expected.auc:.6f} ", tried, re.MULTILINE)) == 2
    assert tried.count(TRIAL.model) == 2
    *_, shown, trail = (text for terminal, text in printed if terminal == "south")
    assert float(shown) == pytest.approx(expected.auc, abs=1e-6)
    assert re.findall(r"verified: (\w+)", checked) == ["yes", "yes"]
    assert re.findall(r"\b(?:submitted|ended)\b", trail) == ["submitted", "ended"]
    for log in ("aggregator/superlink.log", *(f"{name}/supernode.log" for name in SITES)):
        lines = (walk.folder / log).read_text().splitlines()
        assert lines
        assert [line for line in lines if not re.match(r"20[0-9-]{8}T[0-9:.]{12}[+]00:00 [A-Z]+ ", line)] == []
    for name in SITES:
        (written,) = (walk.folder / name / "results").iterdir()
        told = json.loads(written.read_text())
        assert told["evaluation"]["auc"] == pytest.approx(expected.auc, abs=1e-6)
        assert told["evaluation"]["study"]["outcome"] == "infarction"
    record = json.loads((walk.folder / "aggregator" / "week-18" / "record.json").read_text())
    assert record["counted"] == record["delivered"] == [*SITES]
    assert "auc" not in json.dumps(record)

"""A site's process after a hundred rounds takes no more memory than the guide says, over a folder and over S3."""

from __future__ import annotations

import os
import random
import signal
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from fhe_auc.exchange.remote import open_exchange
from tests.support.exchanges import server_of
from tests.support.keys_folder import ADDER
from tests.support.platforms import needs_linux
from tests.support.processes import wait_for
from tests.support.served import (
    HOLDER,
    MOST_MEMORY,
    SITES,
    Started,
    change,
    delivered,
    kill,
    look,
    make_session,
    serving,
    start,
    status,
    until,
)

ROUNDS, OF_A_SESSION = 100, 3
MOST_OVER_S3 = 90e6  # bytes
ROWS = 10_000


def resident(process: int) -> int:
    """Bytes."""
    told = Path(f"/proc/{process}/status").read_text()
    return int(told.partition("VmRSS:")[2].split()[0]) * 1024


def cpu_seconds(process: int) -> float:
    """Of a process, and of those of its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@needs_linux("/proc")
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # the server's
@pytest.mark.parametrize(("kind", "most"), [("folder", MOST_MEMORY), ("s3", MOST_OVER_S3)])
def test_a_hundred_rounds_of_ten_thousand_rows_leave_the_process_as_small_as_it_was(
    kind: str, most: float, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a round costs (CPU, with all processes, looks and taking in) depends on the machine, and is printed."""
    drawn, started = random.Random(63), Started()
    rows = [(label := int(drawn.random() < 0.2), 0.2 * label + drawn.random() * 0.8) for _ in range(ROWS)]
    Path("south.csv").write_text("y_true,y_score\n" + "".join(f"{label},{score:.6f}\n" for label, score in rows))
    (tmp_path / "server").mkdir()
    with server_of(kind, tmp_path / "server") if kind != "folder" else nullcontext(("exchange", here)) as (url, home):
        monkeypatch.setenv("HOME", str(home))
        exchange = open_exchange(url)
        for name in (ADDER, *SITES):
            change(name, exchange=url)
        start(started, "south")
        process, sizes = started["south"].pid, list[int]()
        try:
            until(lambda: status("south")["wrong"] == "")
            before = cpu_seconds(process)
            with serving(ADDER, "north", "west"):
                for night in range(1, 2 + ROUNDS // OF_A_SESSION):
                    session = make_session(
                        f"night-{night}", publish=False, thresholds="hybrid:1000", protocol="verified"
                    )
                    for file in sorted(Path(f"night-{night}").iterdir()):
                        exchange.put(f"{HOLDER}/{session}/{file.name}", file.read_bytes())
                    wait_for(partial(delivered, *SITES, number=night), 600.0, meanwhile=look, pause=0.02)
                    sizes.append(resident(process))
            rounds = Path("south.log").read_text().count(" answered, ")
            spent = (cpu_seconds(process) - before) / rounds
            print(
                f"{kind}: {1000 * spent:.0f} ms of CPU a round, {sizes[0] / 2**20:.1f} to {sizes[-1] / 2**20:.1f} MiB"
            )
            assert rounds >= ROUNDS
            assert max(sizes) < most
        finally:
            kill(started, "south", signal.SIGKILL)

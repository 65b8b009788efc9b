"""A site's process after a hundred rounds takes no more memory than the guide says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.keys_folder import ADDER
from tests.support.platforms import needs_linux
from tests.support.served import (
    MOST_MEMORY,
    SITES,
    Started,
    delivered,
    kill,
    make_session,
    serving,
    start,
    status,
    until,
)

ROUNDS, OF_A_SESSION = 100, 3
ROWS = 10_000


@needs_linux("/proc")
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_rounds_of_ten_thousand_rows_leave_the_process_as_small_as_it_was(here: Path) -> None:
    drawn, started = random.Random(63), Started()
    rows = [(label := int(drawn.random() < 0.2), 0.2 * label + drawn.random() * 0.8) for _ in range(ROWS)]
    Path("south.csv").write_text("y_true,y_score\n" + "".join(f"{label},{score:.6f}\n" for label, score in rows))
    start(started, "south")
    try:
        until(lambda: status("south")["wrong"] == "")
        with serving(ADDER, "north", "west"):
            for night in range(1, 2 + ROUNDS // OF_A_SESSION):
                make_session(f"night-{night}", thresholds="hybrid:1000", protocol="verified")
                until(lambda night=night: delivered(*SITES, number=night))
                told = Path(f"/proc/{started['south'].pid}/status").read_text()
                assert int(told.partition("VmRSS:")[2].split()[0]) * 1024 < MOST_MEMORY
        assert Path("south.log").read_text().count(" answered, ") >= ROUNDS
    finally:
        kill(started, "south")

"""The end of Flower's and Ray's processes on this machine, and of the folder in which they live.

They start others, which do not all end with them. Each has that folder in its environment, and is found by it in /proc
(Linux). Run as a program, with nothing but the standard library, this waits until the process that started it has
ended, however that came about (SIGKILL, a closed terminal, Ctrl-C twice), and then ends what that has left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

GRACE = 2.0
"""Seconds between asking processes to end and ending them."""


def clean_up(folder: Path, deadline: float) -> None:
    """End all that lives in the folder, by force from `deadline` (monotonic) on, and remove it."""
    while left := list(_living_in(folder)):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if time.monotonic() > deadline else signal.SIGTERM)
        time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


def home(folder: Path) -> str:
    """Return the FLWR_HOME by which the folder's processes are known."""
    return f"{folder}/flwr"


def _living_in(folder: Path) -> Iterator[int]:
    """Yield the ids of living processes that were started with this folder in their environment."""
    mark = os.fsencode(f"FLWR_HOME={home(folder)}")
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0") and not _is_dead(entry):
                yield int(entry.name)
        except OSError:
            continue  # ended meanwhile, or somebody else's


def _is_dead(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")


if __name__ == "__main__":
    sys.stdin.read()  # until the other end is closed
    clean_up(Path(sys.argv[1]), time.monotonic() + GRACE)

"""Processes of this machine, found by what stands in their environment."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def marked(*marks: str, words: Iterable[str] = ()) -> list[int]:
    """Ids of living processes with these variables (NAME=value), and these texts in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            alive = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
            there = {each.encode() for each in marks} <= set((entry / "environ").read_bytes().split(b"\0"))
            command = (entry / "cmdline").read_text(errors="replace")
            if alive and there and all(word in command for word in words):
                found.append(int(entry.name))
    return found


def kill(pids: Iterable[int], sent: int = 9) -> list[int]:
    """Return the ids of those that were still there."""
    found = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sent)
            found.append(pid)
    return found


def wait_for(
    condition: Callable[[], Any],
    seconds: float = 60.0,
    *,
    meanwhile: Callable[[], object] = lambda: None,
    told: Callable[[], object] = lambda: None,
    pause: float = 0.05,
) -> Any:
    """Return what a condition is, once it is; else fail after so many seconds with what is `told`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, told()
        meanwhile()
        time.sleep(pause)
    return found

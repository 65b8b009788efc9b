"""The end of Flower's and Ray's processes on this machine, and of the folder in which they live.

They start others, which do not all end with them. Each has a mark in their environment, by which they are found in
/proc (Linux). Run as a program, with nothing but the standard library, this waits until the process that started it has
ended, however that came about (SIGKILL, a closed terminal, Ctrl-C twice), and then ends what that has left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

GRACE = 2.0
"""Seconds between asking processes to end and ending them."""

_LOOKS = 3  # without finding any: a process that is just starting a program shows no environment for a moment


def clean_up(mark: str, deadline: float, folder: Path | None = None) -> None:
    """End all that has "NAME=value" in its environment, by force from `deadline` (monotonic) on; remove the folder."""
    quiet = 0
    while quiet < _LOOKS:
        left = list(_living_with(mark))
        quiet = 0 if left else quiet + 1
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if time.monotonic() > deadline else signal.SIGTERM)
        time.sleep(0.1)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def clean_up_after_this_process(mark: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a process that does `clean_up` once this one has ended, even by SIGKILL, or has closed its standard input.

    It must not have the mark itself: put that in the environment of others afterwards.
    """
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", __file__, mark, *([] if folder is None else [str(folder)])],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _living_with(mark: str) -> Iterator[int]:
    """Yield the ids of living processes that were started with this mark in their environment."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(mark) in (entry / "environ").read_bytes().split(b"\0") and not _is_dead(entry):
                yield int(entry.name)
        except OSError:
            continue  # ended meanwhile, or somebody else's


def _is_dead(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")


if __name__ == "__main__":
    sys.stdin.read()  # until the other end is closed
    clean_up(sys.argv[1], time.monotonic() + GRACE, Path(sys.argv[2]) if sys.argv[2:] else None)

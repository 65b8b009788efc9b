"""The end of other programs' processes on this machine (`fhe_auc.processes`), and of the folder in which they live.

They start others, which do not all end with them. Each has a mark in its environment, by which it is found in /proc
(Linux), or has a parent or an ancestor with it. Run as a program, with nothing but the standard library, this waits
until the process that started it has ended, however that came about (SIGKILL, a closed terminal, Ctrl-C twice), and
then ends what that has left.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, NamedTuple

_GRACE = 2.0  # seconds between asking processes to end and ending them
_LOOKS = 3  # without finding any: a process that is just starting a program shows no environment for a moment
_BETWEEN = 5.0  # seconds between looks while the owner lives; one takes some 7 ms for a hundred processes


class Family:
    """Processes with "NAME=value" in their environment, and their descendants.

    Some show no environment, or have lost it (Ray's agents write their names over theirs), and a parent can have ended.
    So who was found once is known from then on, by id and start: ids are used again.
    """

    def __init__(self, mark: str) -> None:
        self._mark = os.fsencode(mark)
        self._starts: dict[int, int] = {}

    def look(self) -> list[int]:
        """Return the ids of all that live now, without this process and its ancestors."""
        living = _living()
        pid = os.getpid()
        while pid in living:
            pid = living.pop(pid).parent
        found = {
            pid
            for pid, process in living.items()
            if self._starts.get(pid) == process.start or self._mark in _environment(pid)
        }
        while children := {pid for pid, process in living.items() if process.parent in found} - found:
            found |= children
        self._starts = {pid: living[pid].start for pid in found}
        return list(found)


def clean_up_after_this_process(mark: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a process that, once this one has ended, even by SIGKILL, or has closed its standard input, cleans up.

    It ends the `Family` of the mark, and removes the folder. It must not have the mark itself: put that in the
    environment of others afterwards.
    """
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", __file__, mark, *([] if folder is None else [str(folder)])],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


class _Process(NamedTuple):
    parent: int
    start: int  # clock ticks since the machine has started


def _living() -> dict[int, _Process]:
    """Return all processes by their id; those that have ended, and only wait to be asked how, are left out."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()  # from the third on: proc_pid_stat(5)
            if fields[0] not in (b"Z", b"X"):
                found[int(entry.name)] = _Process(parent=int(fields[1]), start=int(fields[19]))
    return found


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # it has ended meanwhile, or is somebody else's


def _watch(family: Family, owner: IO[str]) -> None:
    """Look now and then, so that children are known before their parents end, until the owner closes its end."""
    while not select.select([owner], [], [], _BETWEEN)[0]:
        family.look()


def _end(family: Family) -> None:
    """Ask all to end, and end them by force after a while."""
    deadline = time.monotonic() + _GRACE
    quiet = 0
    while quiet < _LOOKS:
        quiet += 1
        for pid in family.look():
            with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended; it is another user's (sudo)
                os.kill(pid, signal.SIGKILL if time.monotonic() > deadline else signal.SIGTERM)
                quiet = 0
        time.sleep(0.1)


if __name__ == "__main__":
    marked = Family(sys.argv[1])
    _watch(marked, sys.stdin)
    _end(marked)
    if sys.argv[2:]:
        shutil.rmtree(sys.argv[2], ignore_errors=True)

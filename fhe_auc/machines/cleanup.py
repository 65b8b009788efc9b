"""The end of other programs' processes on this machine (`processes`), and of the folder in which they live.

They start others, which do not all end with them. Each has a mark in its environment, by which it is found, or has a
parent or an ancestor with it. Run as a program, this waits until the process that started it has ended, however that
came about (SIGKILL, a closed terminal, Ctrl-C twice), and then ends what that has left.
"""

import contextlib
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import psutil

_ENDED = psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD  # one only waits to be asked how it has ended
_GRACE = 2.0  # seconds between asking processes to end and ending them
_LOOKS = 3  # without finding any: a process that is just starting a program shows no environment for a moment
_BETWEEN = 5.0  # seconds between looks while the owner lives; one takes some 4 ms for sixty processes


class Family:
    """Processes with "NAME=value" in their environment, and their descendants.

    Some show no environment, or have lost it (Ray's agents write their names over theirs), and a parent can have ended.
    So who was found once is known from then on, by id and start: ids are used again.
    """

    def __init__(self, mark: str) -> None:
        self._name, _, self._value = mark.partition("=")
        self._known: set[psutil.Process] = set()

    def look(self) -> list[psutil.Process]:
        """Return all that live now, without this process and its ancestors."""
        apart = {psutil.Process(), *psutil.Process().parents()}
        there = [process for process in psutil.process_iter(["status", "ppid"]) if process not in apart]
        living = {process.pid: process for process in there if process.info["status"] not in _ENDED}
        found = {pid for pid, process in living.items() if process in self._known or self._is_marked(process)}
        while children := {pid for pid, process in living.items() if process.info["ppid"] in found} - found:
            found |= children
        self._known = {living[pid] for pid in found}
        return list(self._known)

    def _is_marked(self, process: psutil.Process) -> bool:
        try:
            return bool(process.environ().get(self._name) == self._value)
        except (psutil.Error, OSError):
            return False  # it has ended meanwhile, or is somebody else's


def clean_up_after_this_process(mark: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a process that, once this one has ended, even by SIGKILL, or has closed its standard input, cleans up.

    It ends the `Family` of the mark, and removes the folder. It must not have the mark itself: put that in the
    environment of others afterwards.
    """
    from fhe_auc.base.terminal import APART  # here: the program below runs alone

    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", __file__, mark, *([] if folder is None else [str(folder)])],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **APART,
    )


def _watch(family: Family, owner: IO[str]) -> None:
    """Look now and then, so that children are known before their parents end, until the owner closes its end."""
    reading = threading.Thread(target=owner.read, daemon=True)
    reading.start()
    reading.join(_BETWEEN)
    while reading.is_alive():
        family.look()
        reading.join(_BETWEEN)


def _end(family: Family) -> None:
    """Ask all to end, and end them by force after a while."""
    deadline = time.monotonic() + _GRACE
    quiet = 0
    while quiet < _LOOKS:
        quiet += 1
        for process in family.look():
            with contextlib.suppress(psutil.Error):  # it has ended; it is another user's (sudo)
                if time.monotonic() > deadline:
                    process.kill()
                else:
                    process.terminate()
                quiet = 0
        time.sleep(0.1)


if __name__ == "__main__":
    marked = Family(sys.argv[1])
    _watch(marked, sys.stdin)
    _end(marked)
    if sys.argv[2:]:
        shutil.rmtree(sys.argv[2], ignore_errors=True)

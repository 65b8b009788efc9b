"""Keeps a program, or a folder, from outliving who holds this process's standard input (`processes`), however it ends.

SIGKILL, a closed terminal, Ctrl-C twice: that input then ends, and so do all processes that the program has started.
On Linux those that lose their parents become children of this process, which finds them whatever they do to hide.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import psutil

_GRACE = 2.0  # seconds between asking processes to end and ending them
_ADOPT = 36  # prctl(2), PR_SET_CHILD_SUBREAPER


def _keep(command: list[str]) -> int:
    """Run a command until it ends, or our input does, and end what is left of it; return its status."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)
    process, over = subprocess.Popen(command, stdin=subprocess.DEVNULL), threading.Event()  # noqa: S603 - our owner's

    def tell(ends: Callable[[], object]) -> None:
        ends()
        over.set()

    for ends in (process.wait, lambda: os.read(0, 1)):
        threading.Thread(target=tell, args=(ends,), daemon=True).start()
    over.wait()
    deadline = time.monotonic() + _GRACE
    while living := psutil.Process().children(recursive=True):
        for each in living:
            with contextlib.suppress(psutil.Error):  # it has ended
                each.terminate() if time.monotonic() < deadline else each.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
        # Not for the command itself, whose status that would take away.
        psutil.wait_procs([each for each in living if each.pid != process.pid], 0.1)
    return process.wait()


if __name__ == "__main__":
    what, *asked = sys.argv[1:]
    if what == "run":
        sys.exit(_keep(asked) % 256)
    os.read(0, 1)
    shutil.rmtree(what, ignore_errors=True)

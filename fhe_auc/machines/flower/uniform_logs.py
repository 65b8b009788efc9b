"""Logs of Flower's processes, brought into the form of ours: a time on each line, no colours, JSON where that is asked.

Flower colours what it logs, in files too, logs some of it on stdout, and starts programs that do likewise. So what
these write goes through a process of its own to stderr, which passes our lines on as they are, and makes a line of ours
of each other one. That lives until the last of them has closed it.
"""

import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fhe_auc.base.logs import RoleFormatter, chosen_format, one_line
from fhe_auc.machines.cleanup import APART

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LEVEL = re.compile(r"(?:[0-9T:.-]+Z )?(DEBUG|INFO|WARNING|ERROR|CRITICAL)[\s:]+")
_LAST_WORDS = 1.0  # seconds that what is still on its way may take


@contextmanager
def uniform_output() -> Iterator[None]:
    """Bring what this process and its children write into the form of our logs, on stderr; not text on a terminal."""
    if chosen_format() == "text" and os.isatty(2):
        yield
        return
    command = [sys.executable, "-P", "-m", __name__]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=2, **APART)  # noqa: S603 - ours
    assert writer.stdin is not None  # noqa: S101 - for the type checker
    before = {stream: os.dup(number) for number, stream in enumerate((sys.stdout, sys.stderr), 1)}
    for number in (1, 2):
        os.dup2(writer.stdin.fileno(), number)
    writer.stdin.close()
    try:
        yield
    finally:
        for number, (stream, own) in enumerate(before.items(), 1):
            stream.flush()
            os.dup2(own, number)
            os.close(own)
        with suppress(subprocess.TimeoutExpired):  # what was started may go on for a while
            writer.wait(_LAST_WORDS)


def uniform(line: str, form: RoleFormatter) -> str:
    """Return a line in the form of our logs; empty where nothing is in it."""
    bare = one_line(_COLOURS.sub("", line))
    if not bare or form.has_made(bare):
        return bare
    level = _LEVEL.match(bare)
    text = bare[level.end() :] if level else bare
    if not text:
        return ""
    told = {"name": "flower", "levelname": level[1] if level else "INFO", "msg": text, "created": time.time()}
    return form.format(logging.makeLogRecord(told))


def _main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # systemd tells all at once, and the others have last words
    form = RoleFormatter(chosen_format())
    with open(0, encoding="utf-8", errors="replace") as lines, open(1, "wb", buffering=0) as log:
        for line in lines:
            if told := uniform(line, form):
                with suppress(OSError):  # a full disk: there may be room for the next line
                    log.write(f"{told}\n".encode())


if __name__ == "__main__":
    _main()

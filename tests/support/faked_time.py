"""Commands in processes of their own that all see the time that a test sets: by libfaketime, from files."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

_PLACES = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib*/faketime/libfaketime.so.1")
LIBRARY = next((str(found) for place in _PLACES for found in Path("/").glob(place[1:])), "")

needs_faketime = pytest.mark.skipif(not LIBRARY, reason="needs libfaketime (Debian: apt-get install libfaketime)")

# Processes are forked from one that has imported everything: 22 roles start in the time of one.
_PROGRAM = """
import importlib, json, os, select, sys, time
time.sleep = lambda seconds: select.select((), (), (), seconds)  # libfaketime 0.9.10 takes no times to sleep until
modules, settings = json.loads(sys.argv[1])
for name in modules:
    importlib.import_module(name)
for module, name, value in settings:
    assert hasattr(sys.modules[module], name)
    setattr(sys.modules[module], name, value)
from fhe_auc.cli import main
from fhe_auc.machines.site_state import site_storage
from fhe_auc.session import registry
registry._installed(registry.GROUP), site_storage()

def start(clock, log, arguments):
    made = os.fork()
    if not made:
        os.environ["FAKETIME_TIMESTAMP_FILE"] = clock  # libfaketime looks it up each time
        for number in (1, 2):
            os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        status = 70
        try:
            main(arguments)
        except SystemExit as end:
            status = end.code or 0
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(status)
    return made

def end(process, number):
    os.kill(process, number)
    return ended(process)

def ended(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

while line := sys.stdin.readline():
    name, *given = json.loads(line)
    print(json.dumps({"start": start, "end": end, "ended": ended}[name](*given)), flush=True)
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
"""


class FakedTime:
    """A context manager; `settings` are (module, name, value) that hold in all its processes.

    Each role, a name, has its clock in the folder `clocks`, and its output in ``NAME.log``; `roles` are those that run.
    """

    def __init__(self, modules: Sequence[str], settings: Sequence[tuple[str, str, Any]]) -> None:
        self._clocks, self.roles = Path("clocks").absolute(), dict[str, int]()
        self._clocks.mkdir()
        self._given = json.dumps([modules, settings])

    def __enter__(self) -> "FakedTime":
        faked = {"LD_PRELOAD": LIBRARY, "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}
        faked["FAKETIME_TIMESTAMP_FILE"] = str(self._clocks / "all")
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        command = [sys.executable, "-c", _PROGRAM, self._given]
        self._process = subprocess.Popen(command, env={**os.environ, **faked}, **pipes)
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.roles.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.communicate()

    def set(self, at: datetime, *names: str) -> None:
        """Set these roles' clocks, or by default the one of all others; from there it goes on."""
        for name in names or ("all",):
            new = self._clocks / ".new"
            new.write_text(f"{at.timestamp() - time.time():+.3f}\n")
            new.replace(self._clocks / name)

    def set_right(self, name: str) -> None:
        (self._clocks / name).unlink(missing_ok=True)
        (self._clocks / name).symlink_to("all")

    def start(self, *names: str) -> None:
        """Start ``fhe-auc serve NAME.toml``."""
        for name in names:
            self.roles[name] = self._start(name, f"{name}.log", ["serve", f"{name}.toml"])

    def end(self, name: str, number: int = signal.SIGKILL) -> int:
        status = int(self._ask("end", self.roles[name], number))
        del self.roles[name]
        return status

    def run(self, name: str, *arguments: str) -> tuple[int, str]:
        """Have a role run ``fhe-auc``; return the status, and what it has printed."""
        said = Path(f"{name}.said")
        said.unlink(missing_ok=True)
        status = self._ask("ended", self._start(name, str(said), list(arguments)))
        return int(status), said.read_text()

    def _start(self, name: str, log: str, arguments: list[str]) -> int:
        if not os.path.lexists(self._clocks / name):
            self.set_right(name)
        return int(self._ask("start", str(self._clocks / name), log, arguments))

    def _ask(self, *asked: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

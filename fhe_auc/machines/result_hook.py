"""A command of the site's own that gets each result: `ResultHook`."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fhe_auc.base.clock import SYSTEM, Clock, Retry
from fhe_auc.base.errors import InputError
from fhe_auc.base.logs import RoleLog
from fhe_auc.base.terminal import APART

_SECONDS = 60.0  # for one result, unless configured
_GRACE = 10.0  # seconds, in the end
_RESULT = re.compile(r"[0-9TZ]+-([0-9a-f]+)\.json")


class ResultHook:
    """Gives each new file in ``results`` of `config` to a command, one after the other, again until it takes it.

    ``on-result`` is the command, a list: it gets the file and the session's id as two more arguments, without a shell,
    and has taken the result once its status is 0; after ``on-result-seconds`` it is killed. Which results it has taken
    is kept in the folder `taken`; what is there before `taken` is, is not new. Raises `InputError` for another list.
    """

    def __init__(self, config: Mapping[str, Any], taken: Path, log: RoleLog, clock: Clock = SYSTEM) -> None:
        self._command, self._results = config["on-result"], Path(str(config["results"]))
        self._seconds = float(config.get("on-result-seconds") or _SECONDS)
        if not (isinstance(self._command, list) and all(isinstance(each, str) for each in self._command)):
            raise InputError("on-result is a list of texts: a command and its arguments")
        self._taken, self._log = taken, log
        self._running: tuple[subprocess.Popen[bytes], float] | None = None
        self._time: object = None  # of the folder
        self._waiting: list[Path] = []
        self._retry, self._wrong, self._clock = Retry(clock), "", clock
        if not taken.is_dir():
            taken.mkdir(mode=0o700)
            for file in self._found():
                (taken / file.name).touch()

    def look(self) -> str:
        """See how the command is doing, start it for the next result; return what is wrong, if anything is."""
        if self._running is not None:
            self._see(*self._running)
        try:
            if self._running is None and (self._retry.due or not self._retry.wanted):
                time_of_folder = self._results.stat().st_mtime_ns if self._results.is_dir() else None
                if time_of_folder != self._time:
                    self._waiting = [file for file in self._found() if not (self._taken / file.name).exists()]
                    self._time = time_of_folder
                if self._waiting:
                    self._start(self._waiting[0])
        except OSError as error:
            self._wrong = f"on-result: {error}"
        return self._wrong

    def end(self) -> None:
        """Let the command finish for a while; what it has not taken, it gets the next time."""
        if self._running is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._running[0].wait(_GRACE)
            self._see(self._running[0], -math.inf)

    def _start(self, file: Path) -> None:
        session = _RESULT.fullmatch(file.name)[1]  # type: ignore[index] # as in `_found`
        given = [*self._command, str(file), session]
        try:
            process = subprocess.Popen(given, stdin=subprocess.DEVNULL, stdout=2, **APART)  # noqa: S603
            self._running = process, self._clock.monotonic() + self._seconds
        except OSError as error:
            self._failed(str(error))

    def _see(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        status = process.poll()
        if status is None and self._clock.monotonic() < deadline:
            return
        self._running = None
        if status == 0:
            file = self._waiting[0]
            try:
                (self._taken / file.name).touch()
            except OSError as error:
                self._failed(f"it has taken the result, but that cannot be written down: {error}")
                return
            self._waiting.pop(0)
            self._retry.plan(wanted=False)
            self._wrong = ""
            self._log.info("on-result has taken %s", file.name)
        elif status is None:
            if sys.platform == "win32":
                process.kill()
            else:  # with what it has started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._failed(f"it takes more than {self._seconds:g} s")
        else:
            self._failed(f"exit status {status}")

    def _failed(self, why: str) -> None:
        file = self._waiting.pop(0)
        self._wrong = f"on-result: {self._command[0]!r} has failed for {str(file)!r} ({why}): mend it; it is run again"
        self._waiting.append(file)  # the others have their turn
        self._retry.plan(wanted=True)

    def _found(self) -> list[Path]:
        files = self._results.iterdir() if self._results.is_dir() else ()
        return sorted(file for file in files if _RESULT.fullmatch(file.name))

"""Where the work of a process that stays is done: in processes of its own, or in that one.

A process of its own gives back the memory of rows and libraries, and takes no other work down with it. It has none of
the server's files, and ends when the server does. Where the system makes none, everything is done here: an answer at
once, an aggregator's session a pass at each look.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import pairwise
from typing import TypeVar

from fhe_auc.base.errors import EvaluationError, FheAucError
from fhe_auc.base.logs import RoleLog

_GRACE, _PAUSE = 10.0, 0.02  # seconds that processes have to end, and between looks for that
_MOST_OPEN = 2**16  # files of a process, of which one for a session keeps none of the server's
_PLUG_INS = "fhe_auc_"  # beginning of the names of modules that a process which stays takes in: they are small
T = TypeVar("T")
Failed = Callable[[Exception], None]


class Work:
    """A session that a process conducts, or one that is conducted here, by its passes.

    `status` is how it has ended: 0 well, below 0 by a signal.
    """

    def __init__(self, process: int, passes: Iterator[float], failed: Failed) -> None:
        self._process, self._passes, self._failed = process, passes, failed
        self.status = 0

    def runs(self) -> bool:
        """Whether it goes on; a pass is done where it has no process."""
        if self._process and sys.platform != "win32":
            ended, status = os.waitpid(self._process, os.WNOHANG)
            if ended:
                self._process, self.status = 0, os.waitstatus_to_exitcode(status)
            return not ended
        try:
            return next(self._passes, None) is not None
        except Exception as error:
            self.status = 1
            self._failed(error)
            return False

    def end(self) -> None:
        """Wait until its process has ended, or end it; close what is open here."""
        deadline = time.monotonic() + _GRACE
        while self._process and self.runs():
            time.sleep(_PAUSE)
            if sys.platform != "win32" and time.monotonic() > deadline:
                os.kill(self._process, signal.SIGKILL)
        self._passes = iter(())


class Isolation:
    """Work `apart`, in processes that end with this one, and once `end` is called; or in this one."""

    def __init__(self, log: RoleLog, *, apart: bool) -> None:
        self._log, self._apart = log, apart
        self._living, self._life = os.pipe()  # whose end, at ours, ends the processes

    def end(self, works: Iterable[Work]) -> None:
        """End what is being done."""
        os.close(self._life)
        for work in works:
            work.end()
        os.close(self._living)

    def call(self, work: Callable[[], T], *, learns: bool = False) -> T:
        """Return what `work` returns, or raise what it raises, which is pickled where that is done apart.

        Where it `learns`, this process imports the plug-ins that the work has needed (1.5 MB), so that its children
        need not, which would take half of a round; but neither the library (4 MB) nor Arrow (27 MB).
        """
        if not self._apart:
            return work()
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as file:
            try:
                child = self._fork(lambda: _write(writing, pickle.dumps(_outcome(work))), self._told, writing)
            finally:  # also where there can be no more processes
                os.close(writing)
            returned = file.read()
        _, status = os.waitpid(child, 0)
        if status:
            raise EvaluationError(f"the process that answers has ended with {os.waitstatus_to_exitcode(status)}")
        value, error, modules = pickle.loads(returned)  # noqa: S301 - our own
        for name in modules if learns else ():
            import_module(name)
        if error is not None:
            raise error
        done: T = value
        return done

    def begin(self, passes: Callable[[], Iterator[float]], is_told: Callable[[], bool]) -> Work:
        """Have a session conducted, by its passes; an error is logged unless it `is_told` elsewhere."""

        def failed(error: Exception) -> None:
            if not is_told():
                self._told(error)

        def conduct() -> None:
            for pause in passes():
                time.sleep(pause)

        return Work(self._fork(conduct, failed), iter(()), failed) if self._apart else Work(0, passes(), failed)

    def _told(self, error: Exception) -> None:
        self._log.error("%s", sentence(error))

    def _fork(self, work: Callable[[], object], failed: Failed, *kept: int) -> int:
        """Do `work` in a process that has these files, none of the server's locks, and ends with it; return its id."""
        if sys.platform == "win32":
            raise NotImplementedError
        if child := os.fork():
            return child
        status = 1
        try:
            held = sorted({2, self._living, *kept, _MOST_OPEN})
            for below, above in pairwise(held):
                os.closerange(below + 1, above)
            threading.Thread(target=lambda: os._exit(1 + len(os.read(self._living, 1))), daemon=True).start()
            work()
            status = 0
        except Exception as error:
            failed(error)
        finally:
            os._exit(status)


def sentence(error: Exception) -> str:
    """Return what may be told of an error: of those that are not ours no text, which might hold somebody's rows."""
    return str(error) if isinstance(error, (FheAucError, OSError)) else f"internal error: {type(error).__name__}"


def _outcome(work: Callable[[], T]) -> tuple[T | None, Exception | None, list[str]]:
    """Return what `work` returns, what it raises, and the modules of plug-ins that it has imported."""
    before, done, failed = set(sys.modules), None, None
    try:
        done = work()
    except (FheAucError, OSError) as error:
        failed = error
    except Exception as error:
        failed = EvaluationError(sentence(error))
    return done, failed, [name for name in sys.modules if name.startswith(_PLUG_INS) and name not in before]


def _write(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)

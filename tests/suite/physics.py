"""What a machine does to the role that runs on it: it dies at a write, its disk is full, a listing is stale, time jumps.

All of it is done below production code, to calls of the operating system: what is durable is what `os.replace`,
`os.write` to a file, `os.mkdir` and `os.unlink` have done. Roles take turns; `Physics.role` is whose turn it is.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.machines import aggregator_role, file_transport, outcomes, result_hook, serve
from fhe_auc.session import journal
from fhe_auc_keys.site import key_store_sites
from fhe_auc_keys.store import key_store, list_places

WITH_TIME = (serve, file_transport, aggregator_role, result_hook, journal, list_places, key_store)
WITH_DATES = (serve, journal, outcomes, key_store_sites, list_places)
BEGIN = datetime(2030, 5, 1, 12, tzinfo=timezone.utc)


class Killed(BaseException):
    """Of a role, at once: no production code catches it, and the dead write nothing more."""


class Turns:
    """Work that waits by sleeping, done a turn at a time."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.ended, self.status, self._killed = False, 0, False
        self._ours, self._its = threading.Semaphore(0), threading.Semaphore(0)
        self._raised: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            self._its.acquire()
            if not self._killed:
                work()
        except Killed as killed:
            self._raised, self.status = killed, -9
        except Exception:
            self.status = 1  # the role's record says why
        except BaseException as error:  # an invariant
            self._raised, self.status = error, 1
        self.ended = True
        self._ours.release()

    def turn(self) -> None:
        """Go on until it sleeps, or ends; raise what has killed it."""
        if not self.ended:
            self._its.release()
            self._ours.acquire()
            if self._raised is not None and not self._killed:
                raise self._raised

    def sleep(self) -> None:
        if self._killed:
            raise Killed
        self._ours.release()
        self._its.acquire()
        if self._killed:
            raise Killed

    def kill(self) -> None:
        self._killed = True
        self.turn()

    @property
    def runs(self) -> bool:
        return threading.current_thread() is self._thread


class Physics:
    """One world's; `installed` puts it below all roles of this process."""

    def __init__(self) -> None:
        self.role = ""
        self.writes = 0  # of this turn
        self.fault, self.at = "", 0  # what happens at which write, or to listings
        self.dead = False
        self.seen: dict[str, set[str]] = {}  # names in folders, at a look before
        self.turns: list[Turns] = []
        self.passed = 0.0  # seconds since the world's beginning
        self.ahead: dict[str, float] = {}  # by how much a role's clock is ahead
        self.after_write: Callable[[str], None] = lambda path: None

    @contextmanager
    def turn_of(self, role: str, fault: str = "", at: int = 0) -> Iterator[None]:
        """Let a role do what it does; one that is killed is told of by `Killed`."""
        self.role, self.fault, self.at, self.writes, self.dead = role, fault, at, 0, False
        try:
            yield
        finally:
            self.role, self.fault, self.dead = "", "", False

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.passed + self.ahead.get(self.role, 0.0))

    def _sleep(self, seconds: float) -> None:
        for each in self.turns:
            if each.runs:
                each.sleep()
                return
        self.passed += seconds

    def _writing(self, call: Callable[..., Any], *, grows: bool, target: int) -> Callable[..., Any]:
        def writing(*given: Any, **named: Any) -> Any:
            if not self.role:
                return call(*given, **named)
            if self.dead:
                raise Killed
            self.writes += 1
            if self.fault == "full" and grows and self.writes >= self.at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self.fault == "killed before" and self.writes == self.at:
                self.dead = True
                raise Killed
            done = call(*given, **named)
            if target == 1:
                self.after_write(os.fspath(given[1]))
            if self.fault == "killed after" and self.writes == self.at:
                self.dead = True
                raise Killed
            return done

        return writing

    def _shown(self, folder: Any, name: str) -> bool:
        if self.fault != "stale" or not isinstance(folder, (str, os.PathLike)):
            return True
        before = self.seen.get(os.fspath(folder))
        return before is None or name in before

    @contextmanager
    def installed(self, exchange: Path) -> Iterator[None]:
        listdir, scandir, within = os.listdir, os.scandir, os.fspath(exchange)
        physics = self

        class Dates(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
                return physics.now()

        class Times:
            monotonic = staticmethod(lambda: self.passed)
            sleep = staticmethod(self._sleep)

            def __getattr__(self, name: str) -> Any:
                return getattr(time, name)

        class Scanned(list):  # type: ignore[type-arg]
            def __enter__(self) -> Scanned:
                return self

            def __exit__(self, *error: object) -> None:
                pass

            def close(self) -> None:
                pass

        def listed(folder: Any = ".") -> list[Any]:
            return [name for name in listdir(folder) if self._shown(folder, name)]

        def scanned(folder: Any = ".") -> Any:
            if not self.role or not os.fspath(folder).startswith(within):
                return scandir(folder)
            with scandir(folder) as entries:
                return Scanned(each for each in entries if self._shown(folder, each.name))

        with pytest.MonkeyPatch.context() as patch:
            for name, grows, target in (
                ("replace", True, 1),
                ("rename", True, 1),
                ("write", True, 0),
                ("mkdir", True, 0),
                ("unlink", False, 0),
            ):
                patch.setattr(os, name, self._writing(getattr(os, name), grows=grows, target=target))
            patch.setattr(os, "fsync", lambda descriptor: None)
            patch.setattr(os, "listdir", listed)
            patch.setattr(os, "scandir", scanned)
            for module in WITH_TIME:
                patch.setattr(module, "time", Times())
            for module in WITH_DATES:
                patch.setattr(module, "datetime", Dates)
            yield

    def remember_listing(self, exchange: Path) -> None:
        """Have what is there now be what a stale listing shows later."""
        self.seen = {root: {*folders, *files} for root, folders, files in os.walk(exchange)}

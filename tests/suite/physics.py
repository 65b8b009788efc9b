"""What a machine does to the role that runs on it: it dies at a write, its disk is full, a listing is old, time jumps.

Durable are what roles put into the exchange, what a key store has committed, and, below production code, what
`os.replace`, `os.rename`, `os.mkdir`, `os.unlink` and `os.write` to a file have done. Roles take turns; `Physics.role`
is whose turn it is.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

import pytest

from fhe_auc.base.clock import Clock
from fhe_auc.base.files import LONGEST
from fhe_auc.exchange.exchange import Exchange, Version
from fhe_auc_keys.store import database
from tests.suite.memory_exchange import Memory

BEGIN = datetime(2030, 5, 1, 12, tzinfo=timezone.utc)
GROWING = ("replace", "rename", "mkdir", "write")
"""Calls that a full disk refuses; the other one that is durable is `os.unlink`."""

T = TypeVar("T")


class Killed(BaseException):
    """Of a role, at once: no production code catches it, and the dead write nothing more."""


class Physics:
    """One world's; `installed` puts it below all roles of this process."""

    def __init__(self) -> None:
        self.role = ""
        self.fault, self.at = "", 0  # what happens, and at which write of this turn
        self.writes, self.dead = 0, False
        self.passed = 0.0  # seconds since the world's beginning
        self.ahead: dict[str, float] = {}  # by how much a role's clock is ahead
        self.committed: Callable[[sqlite3.Connection], None] = lambda connection: None

    @contextmanager
    def turn_of(self, role: str, fault: str = "", at: int = 0) -> Iterator[None]:
        """Let a role do what it does; one that is killed is told of by `Killed`."""
        self.role, self.fault, self.at, self.writes, self.dead = role, fault, at, 0, False
        try:
            yield
        finally:
            self.role, self.fault, self.dead = "", "", False

    def durable(self, call: Callable[[], T], *, grows: bool) -> T:
        """Write, unless something happens before; and then something may happen."""
        if not self.role:
            return call()
        if self.dead:
            raise Killed
        self.writes += 1
        if self.fault == "full" and grows and self.writes >= self.at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        for when in ("before", "after"):
            if self.fault == f"killed {when}" and self.writes == self.at:
                self.dead = True
                raise Killed
            if when == "before":
                done = call()
        return done

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Be below all that roles write to their own machines."""

        def below(name: str) -> Callable[..., Any]:
            call = getattr(os, name)

            def writing(*given: Any, **named: Any) -> Any:
                return self.durable(lambda: call(*given, **named), grows=name in GROWING)

            return writing

        ends = database.commit

        def commit(connection: sqlite3.Connection) -> None:
            def done() -> None:
                ends(connection)
                self.committed(connection)

            self.durable(done, grows=True)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database, "commit", commit)
            for name in (*GROWING, "unlink"):
                patch.setattr(os, name, below(name))
            patch.setattr(os, "fsync", lambda descriptor: None)
            patch.setattr(database, "_require_local", lambda path: None)  # which reads all mounts each time
            yield


class RoleClock(Clock):
    """Goes as that of the world that is played now, ahead or behind."""

    def __init__(self, role: str) -> None:
        self.physics, self._role = Physics(), role

    def now(self) -> datetime:
        ahead = self.physics.ahead.get(self._role, 0.0)
        return BEGIN + timedelta(seconds=self.physics.passed + ahead)

    def monotonic(self) -> float:
        return self.physics.passed


class View(Exchange):
    """The one exchange, as a role reaches it."""

    def __init__(self, physics: Physics, memory: Memory, put: Callable[[str, bytes], None]) -> None:
        self._physics, self._memory, self._told = physics, memory, put
        self._before: dict[str, dict[str, Version]] = {}

    def __str__(self) -> str:
        return "exchange"

    def list(self, place: str) -> dict[str, Version]:
        """Return what is in a place, or what this role has seen there before."""
        if self._physics.fault == "stale" and place in self._before:
            return self._before[place]
        self._before[place] = self._memory.list(place)
        return self._before[place]

    def read(self, name: str, longest: int = LONGEST) -> bytes:
        return self._memory.read(name, longest)

    def put(self, name: str, data: bytes) -> None:
        def put() -> None:
            self._memory.put(name, data)
            self._told(name, data)

        self._physics.durable(put, grows=True)

    def remove(self, name: str) -> None:
        self._physics.durable(lambda: self._memory.remove(name), grows=False)

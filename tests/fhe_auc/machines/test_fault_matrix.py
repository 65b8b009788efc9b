"""For each fault: `status` and the log name who it is and what to do, the rest goes on, and the session ends well.

Elsewhere: two roles on one store or state, half a bundle (`test_serve`), every write of a key store on a full disk
(`tests/keys/test_full_disk.py`); another version, and faults of all kinds at any moment: any night (`tests/suite`).
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.base.clock import SYSTEM
from fhe_auc.base.logs import LOGGER, RoleFormatter
from fhe_auc.machines import aggregator_role, serve
from fhe_auc_keys.cli import common
from tests.support.command_line import call
from tests.support.keys_folder import ADDER
from tests.support.platforms import full_disk, needs_limits
from tests.support.served import (
    PASSPHRASE,
    SITES,
    change,
    check_results,
    delivered,
    exists,
    make_session,
    place,
    put,
    serving,
    status,
    until,
)

pytestmark = needs_limits
CLOCK = r"only, and the clock says \d{4}-\d\d-\d\d \d\dh: set the clock, or "


class World:
    """What a role sees while it looks: by its name a clock that is off, a disk that is full."""

    def __init__(self) -> None:
        self.off: dict[str, timedelta] = {}
        self.full: set[str] = set()
        self.children: set[int] = set()  # processes that were there before
        self.looks = ""

    def heal(self) -> None:
        for each in (self.off, self.full):
            each.clear()

    def now(self) -> datetime:
        return datetime.now(timezone.utc) + self.off.get(self.looks, timedelta(0))

    def look(self, server: serve.Server, *stop: Any) -> None:
        self.looks = str(server.config["store"]).split("/")[0]
        with ExitStack() as stack:
            stack.enter_context(full_disk() if self.looks in self.full else nullcontext())
            _LOOK(server, *stop)
        self.looks = ""


_LOOK = serve.Server.look
WORLD = World()
_WARNING = re.compile(r"[0-9T:.-]{23}\+00:00 (WARNING|ERROR) ")


@pytest.fixture(autouse=True)
def as_the_world_is(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_session("night-1", publish=False)
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setattr(aggregator_role, "_POLL", 0.05)
    WORLD.heal()
    WORLD.children = children()
    monkeypatch.setattr(serve.Server, "look", lambda server, *stop: WORLD.look(server, *stop))
    monkeypatch.setattr(SYSTEM, "now", WORLD.now)
    monkeypatch.setattr(common, "now", WORLD.now)


@contextmanager
def logging_into() -> Iterator[Callable[[str], bool]]:
    """Have all roles log into a pipe, which is on no disk, as text and as JSON; whether somebody was warned so."""
    text, as_json = RoleFormatter("text"), RoleFormatter("json")
    both = logging.Formatter()
    both.format = lambda record: f"{text.format(record)}\n{as_json.format(record)}"  # type: ignore[method-assign]
    kept, (out, into) = os.dup(2), os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 2**20)
    os.set_blocking(out, False)
    os.dup2(into, 2)  # of what a role has open, the processes of its sessions keep no more
    handler = logging.StreamHandler(os.fdopen(2, "w", closefd=False))
    handler.setFormatter(both)
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    lines: list[str] = []

    def logged(pattern: str) -> bool:
        with suppress(BlockingIOError):
            lines.extend(os.read(out, 2**20).decode().splitlines())
        told = [json.loads(line) for line in lines if line.startswith("{")]
        return any(_WARNING.match(line) and re.search(pattern, line) for line in lines) and any(
            re.search(pattern, each["message"]) and each["level"] in ("WARNING", "ERROR") for each in told
        )

    try:
        yield logged
    finally:
        LOGGER.removeHandler(handler)
        os.dup2(kept, 2)
        for each in (kept, out, into):
            os.close(each)


def add_row() -> None:
    shutil.copy("north.csv", "kept.csv")
    with Path("north.csv").open("a") as file:
        file.write("1,0.5\n")


def spoil_rows() -> None:
    shutil.move("north.csv", "kept.csv")
    Path("north.csv").write_text("a,b\n1,2\n")


def children() -> set[int]:
    return {*map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())}


def child() -> int:
    """The process of the aggregator's session; other tests may have left some."""
    (found,) = children() - WORLD.children
    return found


def fill_disk_of_session() -> None:
    """The aggregator's disk is full for its process, and for that of its session."""
    WORLD.full.add(ADDER)
    resource.prlimit(child(), resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def nothing() -> None:
    pass


FIRST = "exchange/north/*/round-1.submission"
MESSAGE = f"exchange/{ADDER}/*/round-1.message"


@dataclass(frozen=True)
class Row:
    """A fault, and what `role` says of it: in its status `says`, in the log that or `logs`."""

    role: str
    says: str
    fault: Callable[[], object] = nothing
    mend: Callable[[], object] = WORLD.heal
    logs: str = ""
    healthy: bool = False  # what anybody could have put there makes nobody ill
    when: str = ""  # the fault comes once this file is there; else before the session
    west_is_away: bool = False  # until the fault is mended
    ends: tuple[str, ...] = SITES  # who has a result in the end, of these sites' rows
    timeout: float = 1000.0
    quick: bool = False


def disk_full(role: str, *, fault: Callable[[], object] | None = None, logs: str = "", **more: Any) -> Row:
    says = rf"it runs, but no status can be read or written in '{role}/state' \(a full disk\?\): see its log"
    told = logs or rf"[0-9a-f]{{8}}: failed: \[Errno 5\] disk I/O error: '.*{role}/store/store\.sqlite'"
    return Row(role, says, fault or (lambda: WORLD.full.add(role)), logs=told, **more)


ROWS = {
    "a site away": Row(
        ADDER,
        "2 of 3 parties submitted.* missing: 'west' .*: have them answer, or ask for a session without them",
        west_is_away=True,
        timeout=0.5,
        quick=True,
    ),
    "a share away": Row(
        "north",
        r"exchange: there is no folder 'exchange'",
        lambda: Path("exchange").rename("elsewhere"),
        lambda: Path("elsewhere").rename("exchange"),
        when=FIRST,
        west_is_away=True,
    ),
    "other rows": Row(
        "north",
        "result delivered",
        add_row,
        lambda: shutil.move("kept.csv", "north.csv"),
        logs="party 'north': the rows have changed since they were submitted, .* and was not compared with them",
        healthy=True,
        when=FIRST,
    ),
    "rows of another form": Row(
        "north",
        r"failed: file 'north\.csv': there is no column 'y_true' \(there are: a, b\)",
        spoil_rows,
        lambda: shutil.move("kept.csv", "north.csv"),
    ),
    "a site's clock 8 days ahead": Row(
        "north",
        f"the session announced by 'north' is outdated, or has not begun: it counts .* {CLOCK}ask 'north' for a new",
        lambda: WORLD.off.update(north=timedelta(days=8)),
        when=FIRST,
        logs=" ",
    ),
    "an aggregator's process killed": Row(
        ADDER,
        "its process was ended by signal 9, and is started again",
        lambda: os.kill(child(), signal.SIGKILL),
        when=FIRST,
        west_is_away=True,
        quick=True,
    ),
    "a site's disk full after it has submitted": disk_full("north", when=FIRST),
    "an aggregator's disk full": disk_full(
        ADDER, fault=fill_disk_of_session, logs=r"File too large: '.*coordinator/state/journals/", when=MESSAGE
    ),
}


def says(row: Row) -> bool:
    shown = call("status", f"{row.role}.toml")
    told = " ".join(shown.stdout.split())
    as_json = json.dumps(status(row.role), ensure_ascii=False)
    return (shown.exit_code == 0) is row.healthy and all(re.search(row.says, each) for each in (told, as_json))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if row.quick else pytest.mark.slow) for name, row in ROWS.items()]
)
def test_a_fault_is_told_with_what_to_do(name: str) -> None:
    row = ROWS[name]
    change(ADDER, round_timeout=row.timeout)
    if row.when:
        put()
    away = {"west"} if row.west_is_away else set[str]()
    with logging_into() as logged, ExitStack() as all_roles:
        all_roles.enter_context(serving(*sorted({ADDER, *SITES} - away), apart=True))
        if row.when:
            until(exists(row.when))
        first = place("north") / "round-1.submission"
        submitted = first.read_bytes() if first.exists() else b""
        row.fault()
        if not row.when:
            put()
        until(lambda: logged(row.logs or row.says) and says(row))
        row.mend()
        all_roles.enter_context(serving(*away, apart=True))
        until(lambda: delivered(*row.ends))
        check_results(*row.ends, counted=row.ends)
        if row.ends:
            assert not submitted or first.read_bytes() == submitted
            until(lambda: status(row.role)["wrong"] == "")


def test_what_a_process_has_read_or_writes_for_others_can_vanish(here: Path) -> None:
    """A passphrase file, a damaged status, and a damaged lock; where a new process needs it, it says what is wrong."""
    Path("own").write_text(PASSPHRASE)
    Path("own").chmod(0o600)
    change("north", **{"passphrase-file": "own"})
    put()
    with serving(ADDER, *SITES, apart=True):
        until(exists(FIRST))
        Path("own").unlink()
        Path("north/state/status.json").write_text("{")
        assert status("north")["wrong"].startswith("it runs, but no status can be read or written in 'north/state' ")
        until(lambda: delivered(*SITES))
        until(lambda: status("north")["wrong"] == "")
    check_results(*SITES)
    started = call("serve", "north.toml")
    assert (started.exit_code, "passphrase file 'own' cannot be read: No such file" in started.stderr) == (1, True)
    change("north", **{"passphrase-file": "passphrase"})
    for lock in ("north/state/lock", "north/store/serve.lock"):
        Path(lock).write_bytes(b"\xff" * 99)
        with serving("north", apart=True):
            until(lambda: status("north")["wrong"] == "")
        Path(lock).unlink()
        Path(lock).mkdir()
        started = call("serve", "north.toml")
        assert (started.exit_code, lock in started.stderr) == (1, True)
        Path(lock).rmdir()

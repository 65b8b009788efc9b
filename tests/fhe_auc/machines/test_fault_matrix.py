"""For each fault: `status` and the log name who it is and what to do, the rest goes on, and the session ends well.

Roles have processes of their own here. Elsewhere: two roles on one store or state, half a bundle (`test_serve`), every
write of a key store on a full disk (`tests/keys/store/test_store_upkeep.py`); clocks, full disks and other versions:
any night, and what is told of them (`tests/suite`).
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from fhe_auc.base.logs import LOGGER, RoleFormatter
from fhe_auc.machines import aggregator_role
from tests.support.command_line import call
from tests.support.keys_folder import ADDER
from tests.support.platforms import needs_linux
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

pytestmark = needs_linux("/proc")


@pytest.fixture
def logged(here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[[str], bool]:
    """Whether anybody was warned so: all roles, and their children, log on stderr."""
    make_session("night-1", publish=False)
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setattr(aggregator_role, "_POLL", 0.05)
    handler = logging.StreamHandler(os.fdopen(2, "w", closefd=False))  # the one file that children keep
    handler.setFormatter(RoleFormatter("text"))
    monkeypatch.setattr(LOGGER, "handlers", [handler])
    lines: list[str] = []

    def was_warned(pattern: str) -> bool:
        lines.extend(capfd.readouterr().err.splitlines())
        return any(re.search(rf"\+00:00 (WARNING|ERROR) .*{pattern}", line) for line in lines)

    return was_warned


def spoil_rows(text: str) -> None:
    shutil.copy("north.csv", "kept.csv")
    Path("north.csv").write_text(text)


def children() -> set[int]:
    return {*map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())}


FIRST = "exchange/north/*/round-1.submission"


class Row(NamedTuple):
    """A fault, and what `role` says of it in its status, and in the log, where that is not the same."""

    role: str
    says: str
    fault: Callable[[], object] = lambda: None
    mend: Callable[[], object] = lambda: None
    logs: str = ""
    healthy: bool = False  # what anybody could have put there makes nobody ill
    begun: bool = True  # the fault comes once a site has answered; else before the session
    west_is_away: bool = True  # until the fault is mended
    timeout: float = 1000.0


def mend_rows() -> None:
    shutil.move("kept.csv", "north.csv")


ROWS = {
    "a site away": Row(
        ADDER,
        "2 of 3 parties submitted.* missing: 'west' .*: have them answer, or ask for a session without them",
        begun=False,
        timeout=0.5,
    ),
    "an aggregator's process killed": Row(
        ADDER,
        "its process was ended by signal 9, and is started again",
        lambda: [os.kill(child, signal.SIGKILL) for child in children()],
    ),
    "a share away": Row(
        "north",
        r"exchange: there is no folder 'exchange'",
        lambda: Path("exchange").rename("elsewhere"),
        lambda: Path("elsewhere").rename("exchange"),
    ),
    "other rows": Row(
        "north",
        "result delivered",
        lambda: spoil_rows("y_true,y_score\n1,0.5\n"),
        mend_rows,
        logs="party 'north': the rows have changed since they were submitted, .* and was not compared with them",
        healthy=True,
        west_is_away=False,
    ),
    "rows of another form": Row(
        "north",
        r"failed: file 'north\.csv': there is no column 'y_true' \(there are: a, b\)",
        lambda: spoil_rows("a,b\n1,2\n"),
        mend_rows,
        begun=False,
        west_is_away=False,
    ),
}


def says(row: Row) -> bool:
    shown = call("status", f"{row.role}.toml")
    told = " ".join(shown.stdout.split())
    as_json = json.dumps(status(row.role), ensure_ascii=False)
    return (shown.exit_code == 0) is row.healthy and all(re.search(row.says, each) for each in (told, as_json))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (number > 1)) for number, name in enumerate(ROWS)]
)
def test_a_fault_is_told_with_what_to_do(name: str, logged: Callable[[str], bool]) -> None:
    row, away = ROWS[name], {"west"}
    change(ADDER, round_timeout=row.timeout)
    away = away if row.west_is_away else set()
    with ExitStack() as all_roles:
        if row.begun:
            put()
        all_roles.enter_context(serving(*sorted({ADDER, *SITES} - away), apart=True))
        submitted = b""
        if row.begun:
            until(exists(FIRST))
            submitted = (place("north") / "round-1.submission").read_bytes()
        row.fault()
        if not row.begun:
            put()
        until(lambda: logged(row.logs or row.says) and says(row))
        row.mend()
        all_roles.enter_context(serving(*away, apart=True))
        until(lambda: delivered(*SITES))
        check_results(*SITES, counted=SITES)
        assert (place("north") / "round-1.submission").read_bytes().startswith(submitted)
        until(lambda: status(row.role)["wrong"] == "")


def test_what_a_process_has_read_or_writes_for_others_can_vanish(logged: Callable[[str], bool]) -> None:
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

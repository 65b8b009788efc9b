"""What is wrong at a role is named for as long as it is so, and no longer."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.base.clock import SYSTEM
from fhe_auc.base.files import LONGEST, read_config
from fhe_auc.base.logs import RoleLog
from fhe_auc.exchange.exchange import Arrivals, Folder, Version, place_of
from fhe_auc.machines import serve
from fhe_auc.machines.file_transport import Begun
from fhe_auc.machines.served_session import Session
from fhe_auc.machines.site_state import Meeting
from fhe_auc_keys.cli import common
from tests.support.command_line import told
from tests.support.keys_folder import ADDER
from tests.support.served import HELPER, SITES, make_roles, status
from tests.support.studies import STUDY, make
from tests.support.studies import roles as roles

pytestmark = pytest.mark.usefixtures("roles")


def test_a_session_that_has_failed_is_told_until_a_later_one_of_its_study_has_a_result() -> None:
    """A later one that fails, too, or one of another study, hides nothing; and nothing hides what was replaced."""
    exchange, log = Folder(Path("exchange")), RoleLog()

    def session(night: int, outcome: str | None, **known: Any) -> Session:
        times = datetime(2030, 1, night, tzinfo=timezone.utc), datetime(2030, 2, 1, tzinfo=timezone.utc)
        met = Meeting(bytes([night] * 16), ADDER, *times, study=known.pop("study", ("sepsis",)), maker="north")
        return Session(
            "north", f"{night:032x}", SYSTEM, Arrivals(exchange), log, meeting=met, met=met, outcome=outcome, **known
        )

    failed = {"wrong": "there is no result: VerificationError", "rule": "no result"}
    first, second = session(1, "VerificationError", **failed), session(2, "VerificationError", **failed)
    first.replaced = "round-1.submission"
    with serve.Server(read_config(Path("south.toml"), None), exchange=exchange) as server:

        def red(*sessions: Session) -> list[tuple[str, int]]:
            server._sessions = {(each.maker, each.name): each for each in sessions}
            server._see([])
            return [(problem.rule, int(problem.session, 16)) for problem in server.health.problems]

        both = [("no result", 1), ("replaced", 1), ("no result", 2)]
        assert red(first, second) == both
        assert red(first, second, session(3, None)) == both
        assert red(first, second, session(3, "result", study=("stroke",))) == both
        assert red(first, second, session(3, "result")) == [("replaced", 1)]
        assert red(session(1, "result"), second) == [("no result", 2)]
        refused = session(1, None, wrong="no such study", rule="refused")
        refused.meeting = None
        assert red(refused, session(2, None)) == [("refused", 1)]
        assert red(refused, session(2, None, answered=Begun(1, b""))) == []
        server._sessions = {}


class Counting(Folder):
    """A folder that says what was asked of it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[str] = []

    def list(self, place: str) -> dict[str, Version]:
        self.asked.append(place)
        return super().list(place)

    def read(self, name: str, longest: int = LONGEST) -> bytes:
        self.asked.append(name)
        return super().read(name, longest)


def test_a_pass_looks_where_sessions_are_made_and_at_a_few_of_all_other_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request costs 4 ms over S3. Others have answered there before, in sessions that are none of ours."""
    began, passed = datetime.now(timezone.utc), [0.0]
    monkeypatch.setattr(SYSTEM, "monotonic", lambda: passed[0])
    monkeypatch.setattr(SYSTEM, "now", lambda: began + timedelta(seconds=passed[0]))
    monkeypatch.setattr(common, "now", SYSTEM.now)
    members = [f"member {number}" for number in range(14)]
    Path("many").mkdir()
    make_roles(Path("many"), *members)
    monkeypatch.chdir("many")
    for name in members:
        Path("exchange", name, name[7:].strip().zfill(32)).mkdir(parents=True)
    Path("study.toml").write_text(STUDY)
    exchange = Counting(Path("exchange"))
    places = {place_of(name) for name in (*members, *SITES, HELPER, ADDER, "office")}
    with serve.Server(read_config(Path("south.toml"), None), exchange=exchange) as server:

        def asked() -> list[str]:
            exchange.asked = []
            passed[0] += 60.0
            server.look()
            return exchange.asked

        assert places <= set(asked())
        for _ in range(15):  # what lies there is none of ours, and is looked at less and less
            asked()
        passes = [asked() for _ in range(30)]
        assert sum(map(len, passes)) <= 7 * 30
        assert all(set().union(*passes[start : start + 5]) >= places for start in range(25))
        first = make()["session"]
        until_asked = [first in str(status("south")["sessions"]) or asked() for _ in range(6)]
        assert until_asked[-1] is True
        told("pending", "south.toml", "--yes", first)
        assert places <= set(asked())
        assert all("north/" in asked() for _ in range(5))

"""Sessions carried by files in a folder, by roles of one process; what is killed or lost: `tests/suite`."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from fhe_auc.base.errors import ResultCheckError
from fhe_auc.base.names import HELPER
from fhe_auc.cli import main
from fhe_auc.exchange.exchange import Arrivals, Folder, Version, place_of
from fhe_auc.machines.file_transport import Own
from fhe_auc.rows.party_data import PartyData
from tests.suite.physics import RoleClock
from tests.support.exact_sessions import pairs_of
from tests.support.machines import GRID, Attendant, MachineSession, played_over_files

pytestmark = pytest.mark.usefixtures("nothing_installed")


def trail_of(session: MachineSession, role: str) -> list[str]:
    """What a role has done by its audit trail, which is whole."""
    config = session.roles.get(role, session.aggregator)
    store = ("--store", config["store"], "--passphrase-file", config["passphrase-file"])
    told = CliRunner().invoke(main, ["audit", *store, "--json"])
    assert told.exit_code == 0, told.output
    return [line["event"] for line in json.loads(told.stdout)["lines"]]


def play(session: MachineSession, absent: str = "", **changes: int) -> None:
    exchange = session.folder / "exchange"
    played_over_files(session.aggregator, session.files, session.roles, exchange, absent=absent, **changes)


def test_every_site_gets_the_result_and_the_aggregator_learns_who_took_part(
    site_rows: list[PartyData], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session = MachineSession(site_rows, tmp_path / "session", "exact")
    with caplog.at_level(logging.INFO):
        play(session)
    session.check()
    told = session.told()
    assert (told["counted"], told["missing"], told["delivered"]) == (list(session.sites), [], list(session.sites))
    assert "auc" not in (session.folder / "journal" / "record.json").read_text()
    assert trail_of(session, "") == ["started", "ended"]
    assert [trail_of(session, name) for name in session.sites] == [["submitted", "ended"]] * 3
    accepted = {(line.round, line.party) for line in caplog.records if "accepted" in line.getMessage()}
    assert accepted == {(number, name) for number in (1, 2) for name in session.sites}
    assert str(session.outcome("north").auc)[:6] not in caplog.text
    places = {file.parent.parent.name: file.parent.name for file in (session.folder / "exchange").rglob("round-*")}
    assert places == dict.fromkeys((*session.sites, "coordinator"), session.id.hex())


def test_a_session_with_a_helper_closes_at_the_number_that_is_configured(
    site_rows: list[PartyData], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One is not there, and comes too late."""
    session = MachineSession(site_rows, tmp_path / "session", "exact", keys="helper", min_parties=2, max_rows=20_000)
    play(session, "east", **{"close-at": 2})
    told = session.told()
    assert (told["counted"], told["missing"]) == (["north", "south"], ["east"])
    session.check("north", "south")
    assert trail_of(session, HELPER) == ["opened", "ended"]
    play(session, **{"close-at": 2})  # it is over: nobody is asked
    assert session.told() == told
    late = Attendant(session.roles["east"], Folder(session.folder / "exchange"), session.id).look()
    assert "gone on to round 4 without 'east'" in late.step
    assert late.wrong == ""
    session.check("north", "south")


def test_the_aggregator_sees_no_difference_between_a_result_that_is_accepted_and_one_that_is_refused(
    site_rows: list[PartyData], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in the answer's length, nor in record or log; the site's own log alone has a word."""
    seen, rows = [], sum(data.rows for data in site_rows)
    for name, most in (("accepted", rows), ("refused", rows - 1)):
        session = MachineSession(site_rows, tmp_path / name, "exact", max_rows=most)
        caplog.clear()
        with caplog.at_level(logging.INFO):
            play(session)
        lines = [each.getMessage() for each in caplog.records if each.module == "aggregator_role"]
        record = session.told()
        sizes = [len(file.read_bytes()) for file in sorted((session.folder / "exchange").rglob("*.submission"))]
        for site in session.sites:
            if name == "accepted":
                assert session.outcome(site).fraction == pairs_of(site_rows, GRID)[0]
            else:
                with pytest.raises(ResultCheckError, match="rows in all"):
                    session.outcome(site)
        told = {key: record[key] for key in ("counted", "missing", "delivered", "refused")}
        seen.append((sorted(lines), sorted(sizes), told))
    assert seen[0] == seen[1]


def test_an_own_file_that_is_replaced_with_equal_size_and_time_is_put_back_within_ten_minutes(tmp_path: Path) -> None:
    """Over SFTP and WebDAV whoever writes there may set times; a folder of this machine tells of each change."""
    clock = RoleClock("")

    class Told(Folder):
        coarse = 2.0

        def list(self, place: str) -> dict[str, Version]:
            return {name: (version[0], version[-1]) for name, version in super().list(place).items()}

    view = Arrivals(Told(tmp_path), clock=clock)
    file, own = tmp_path / "round-1.submission", Own(view, "round-1.submission", b"mine")

    def look() -> str:
        view.begin()
        view.names("")
        return own.keep(lambda: b"mine")

    assert look() == ""
    clock.physics.passed = 2.0
    assert look() == ""
    clock.physics.passed = 4.0
    assert look() == ""
    before = file.stat()
    file.write_bytes(b"evil")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    clock.physics.passed = 599.0
    assert (look(), file.read_bytes()) == ("", b"evil")
    clock.physics.passed = 600.0
    assert (look(), file.read_bytes()) == ("it was replaced by another, and is put back", b"mine")
    assert look() == ""


@pytest.mark.parametrize(
    ("member", "place"),
    [("north", "north/"), ("St. Mary's / Köln", "St=2E Mary=27s =2F K=C3=B6ln/"), ("..", "=2E=2E/")],
)
def test_every_member_has_a_place_of_its_own_inside_the_exchange(member: str, place: str) -> None:
    assert place_of(member) == place
    long = place_of("漢" * 64)
    assert len(os.fsencode(long)) < 255
    for other in (long[:-1], long[2:-1]):  # who is called as somebody's place has another one
        assert place_of(other).casefold() != long

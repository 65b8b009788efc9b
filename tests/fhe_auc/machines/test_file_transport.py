"""Sessions carried by files, their roles real processes and commands; what is killed or lost: `tests/suite`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fhe_auc.base.errors import ResultCheckError
from fhe_auc.base.exchange import Folder
from fhe_auc.base.files import read_config
from fhe_auc.base.names import HELPER
from fhe_auc.cli import main
from fhe_auc.machines import aggregator_role, file_transport
from fhe_auc.machines.file_transport import file_name
from fhe_auc.rows.party_data import PartyData
from tests.support.exact_sessions import pairs_of
from tests.support.machines import GRID, MachineSession, answer_in, newest_in, toml
from tests.support.processes import wait_for

pytestmark = pytest.mark.usefixtures("nothing_installed")

CLI = (sys.executable, "-c", "from fhe_auc.cli import main; main()")
PATIENCE = 300.0  # seconds, for a step that takes one; only a broken test waits for them


class Session(MachineSession):
    """A session of three sites; every role is a process, which finds its configuration in the folder."""

    def __init__(self, sites: list[PartyData], folder: Path, protocol: str = "nothing", **asked: Any) -> None:
        super().__init__(sites, folder, protocol, **asked)
        self.configure()

    def configure(self) -> Session:
        self.started: list[subprocess.Popen[str]] = []
        (self.folder / "run.toml").write_text(toml(self.aggregator))
        for name, config in self.roles.items():
            (self.folder / f"{'helper' if name == HELPER else name}.toml").write_text(toml(config))
        return self

    @property
    def exchange(self) -> Path:
        return self.folder / "exchange"

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    def start(self, *arguments: str, group: str = "session") -> subprocess.Popen[str]:
        """Start a role."""
        process = subprocess.Popen(
            [*CLI, group, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.started.append(process)
        return process

    def aggregate(self) -> subprocess.Popen[str]:
        return self.start("aggregate", "exchange", "run.toml", "--json")

    def open(self) -> subprocess.Popen[str]:
        """Start the aggregator, and wait until the first round is open."""
        aggregator = self.aggregate()
        wait_for(self.opened(1), PATIENCE)
        return aggregator

    def attend_first(self, *absent: str) -> None:
        """And wait until the second round is open."""
        self.attend(*absent)
        wait_for(self.opened(2), PATIENCE)

    def finish(self, aggregator: subprocess.Popen[str]) -> None:
        """Have the sites answer the last round, and check what everybody has."""
        self.attend()
        assert finished(aggregator)[0] == 0
        self.check_all()

    def answer(self, site: str, *arguments: str) -> subprocess.Popen[str]:
        return self.start("answer", "exchange", f"{site}.toml", *arguments)

    def attend(self, *absent: str) -> None:
        """Have all sites but those answer the newest round, in this process: another takes a second to start."""
        number = newest_in(self.exchange)
        for name in self.sites:
            if name not in absent:
                config = read_config(self.folder / f"{name}.toml", None)
                answer_in(self.exchange, config, number or 0)

    def invoke(self, command: str, *arguments: str) -> Result:
        """Run a command in this process; its arguments are options, or files in the folder."""
        places = [each if each.startswith("-") else str(self.folder / each) for each in arguments]
        return CliRunner().invoke(main, ["session", command, *places])

    def opened(self, number: int) -> Callable[[], bool]:
        return (self.exchange / f"round-{number}.message").exists

    def submission(self, number: int, site: str) -> Path:
        return self.exchange / f"round-{number}" / f"{site}.submission"

    def check_all(self) -> None:
        """All sites have the result, all have confirmed it, and each was counted once."""
        self.check()
        told = self.told()
        assert (told["counted"], told["missing"], told["delivered"]) == (list(self.sites), [], list(self.sites))


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    told, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, told


@pytest.fixture(scope="module")
def made_session(site_rows: list[PartyData], tmp_path_factory: pytest.TempPathFactory) -> Session:
    return Session(site_rows, tmp_path_factory.mktemp("made") / "session")


@pytest.fixture
def session(made_session: Session, tmp_path: Path) -> Iterator[Session]:
    made = made_session.copied(tmp_path / "session").configure()
    yield made
    for process in made.started:
        kill(process)


def test_every_site_gets_the_result_and_the_aggregator_learns_who_took_part(session: Session) -> None:
    aggregator = session.aggregate()
    sites = [session.answer(name, "--wait", "1") for name in session.sites]
    assert [finished(process)[0] for process in sites] == [0, 0, 0]
    status, told = finished(aggregator)
    assert (status, json.loads(told[told.index("{") :])["delivered"]) == (0, list(session.sites))
    session.check_all()
    assert "auc" not in (session.journal / "record.json").read_text()
    again = session.invoke("aggregate", "exchange", "run.toml", "--json")
    assert (again.exit_code, "finished: all 3 sites have its result" in again.stderr) == (0, True)
    told = session.invoke("status", "run.toml").stdout
    assert told.split()[:2] == ["state", "finished:"]
    assert trail_of(session, "run.toml") == ["started", "ended"]
    assert [trail_of(session, f"{name}.toml") for name in session.sites] == [["submitted", "ended"]] * 3
    results = [str(file) for name in session.sites for file in session.results(name)]
    assert CliRunner().invoke(main, ["check", *results, *store_of(session, "south.toml")]).exit_code == 0


class Attended(file_transport.FileTransport):
    """Has those who are asked answer in this process, by their files in a session's folder."""

    def __init__(self, session: Session, absent: tuple[str, ...], *rest: Any) -> None:
        super().__init__([Folder(session.exchange, make=True)], "", *rest)
        self._session, self._absent = session, absent

    def tell(self, awaited: Mapping[str, str], deadline: float) -> None:
        super().tell(awaited, deadline)
        for name in set(awaited).difference(self._absent):
            file, place = (name, "") if name in self._session.sites else ("helper", "helpers")
            config = read_config(self._session.folder / f"{file}.toml", None)
            answer_in(self._session.exchange / place, config, self.aggregator.round)


def play(session: Session, *absent: str, **changes: Any) -> None:
    """Play a whole session in this process."""
    run = read_config(session.folder / "run.toml", None)
    aggregator_role.run({**run, "round-timeout": PATIENCE, **changes}, partial(Attended, session, absent))


def test_a_session_with_a_helper_closes_at_the_number_that_is_configured(
    site_rows: list[PartyData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are there from the start but one, who is not waited for."""
    monkeypatch.setattr(file_transport, "_POLL", 0.01)
    session = Session(site_rows, tmp_path / "session", "exact", keys="helper", min_parties=2, max_rows=20_000)
    play(session, "east", **{"close-at": 2})
    told = session.told()
    assert (told["counted"], told["missing"]) == (["north", "south"], ["east"])
    session.check("north", "south")
    assert trail_of(session, "helper.toml") == ["opened", "ended"]
    play(session, *session.sites, **{"close-at": 2})  # it is over: nobody is asked
    assert session.told() == told
    late = session.invoke("answer", "exchange", "east.toml")
    assert (late.exit_code, "gone on to round 4 without 'east'" in late.stderr) == (1, True)
    session.check("north", "south")


def store_of(session: Session, role: str) -> tuple[str, ...]:
    config = read_config(session.folder / role, None)
    return "--store", config["store"], "--passphrase-file", config["passphrase-file"]


def trail_of(session: Session, role: str) -> list[str]:
    """What a role has done by its audit trail, which is whole."""
    told = CliRunner().invoke(main, ["audit", *store_of(session, role), "--json"])
    assert told.exit_code == 0, told.output
    return [line["event"] for line in json.loads(told.stdout)["lines"]]


# --- Faults; kills at any write of the aggregator's: tests/fhe_auc/session/test_journal.py ---------------------------


@pytest.mark.slow
def test_logs_in_json_tell_session_round_and_party_and_no_result(
    site_rows: list[PartyData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(site_rows, tmp_path / "session", "exact")
    monkeypatch.setenv("FHE_AUC_LOG_FORMAT", "json")
    roles = [session.aggregate(), *(session.answer(name, "--wait", "1") for name in session.sites)]
    logs = [[line for line in finished(each)[1].splitlines() if line.startswith('{"time"')] for each in roles]
    told = [[json.loads(line) for line in log] for log in logs]
    assert {line["session"] for lines in told for line in lines} == {session.id.hex()}
    accepted = {(line["round"], line["party"]) for line in told[0] if "accepted" in line["message"]}
    assert accepted == {(number, name) for number in (1, 2) for name in session.sites}
    for name, lines in zip(session.sites, told[1:], strict=True):
        assert {line["party"] for line in lines} == {name}
        assert [line["round"] for line in lines if "answered" in line["message"]] == [1, 2]
    assert str(session.outcome("north").auc)[:6] not in "".join(line for log in logs for line in log)


@pytest.mark.slow
def test_the_aggregator_sees_no_difference_between_a_result_that_is_accepted_and_one_that_is_refused(
    site_rows: list[PartyData], tmp_path: Path
) -> None:
    """Neither in the answer's length, nor in exit status, record or retries; the site's own log alone has a word."""
    seen = []
    rows = sum(data.rows for data in site_rows)
    for name, most in (("accepted", rows), ("refused", rows - 1)):
        session = Session(site_rows, tmp_path / name, "exact", max_rows=most)
        aggregator = session.open()
        session.attend_first()
        told = []
        for site in session.sites:
            status, line = finished(session.answer(site))
            line = line.replace(str(session.folder), "").replace(session.id.hex(), "SESSION")
            line = re.sub(r"20[0-9]{6}T[0-9]{6}Z|20[0-9T:.-]+[+]00:00", "TIME", line)
            words = [each for each in line.splitlines() if "the session has ended here" not in each]
            told.append((status, words, len(session.submission(2, site).read_bytes())))
        assert finished(aggregator)[0] == 0
        record = session.told()
        for site in session.sites:
            if name == "accepted":
                assert session.outcome(site).fraction == pairs_of(site_rows, GRID)[0]
            else:
                with pytest.raises(ResultCheckError, match="rows in all"):
                    session.outcome(site)
        seen.append((told, {key: record[key] for key in ("counted", "missing", "delivered", "refused")}))
    assert seen[0] == seen[1]


def test_each_session_has_a_folder_of_its_own(session: Session, tmp_path: Path) -> None:
    kill(session.open())
    another = Session(list(session.sites.values()), tmp_path / "other")
    done = another.invoke("aggregate", str(session.exchange), "run.toml")
    assert (done.exit_code, "is for session" in done.stderr) == (2, True)
    assert "give each session a folder of its own" in done.stderr


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        ("aggregate", "store = 1", "session is not configured"),
        ("aggregate", "sesion = 'x'", "there is no entry 'sesion'; did you mean 'session'?"),
        ("aggregate", "x =", "run.toml"),
        ("aggregate", "session = 'nowhere.bundle'", "store is not configured"),
        ("answer", "", "holds no message of a session yet"),
    ],
)
def test_a_wrong_configuration_or_folder_is_one_sentence(command: str, text: str, words: str, folder: Path) -> None:
    Path("run.toml").write_text(text)
    Path("exchange").mkdir()
    found = CliRunner().invoke(main, ["session", command, "exchange", "run.toml"])
    assert (found.exit_code, found.stdout, found.stderr.count("\n")) == (2, "", 1)
    assert words in found.stderr


@pytest.mark.parametrize(
    ("party", "name"),
    [
        ("north", "north.submission"),
        ("St. Mary's / Köln", "St%2E Mary%27s %2F K%C3%B6ln.submission"),
        ("..", "%2E%2E.submission"),
    ],
)
def test_every_party_has_a_file_name_of_its_own_inside_the_folder(party: str, name: str) -> None:
    assert file_name(party) == name
    assert len(os.fsencode(file_name("漢" * 64))) < 255

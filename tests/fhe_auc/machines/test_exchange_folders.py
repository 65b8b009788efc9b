"""Folders that carry sessions: of several users, one or many, with whatever else lies in them."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.base.exchange import Arrivals, Folder
from fhe_auc.base.files import read_config
from fhe_auc.base.logs import RoleLog
from fhe_auc.machines import aggregator_role, file_transport
from fhe_auc.machines.file_transport import FileTransport, forward
from fhe_auc.machines.site_state import site_storage
from fhe_auc.session.journal import CLAIM, Journal, read_status
from tests.fhe_auc.machines.test_file_transport import PATIENCE, Session, finished, kill, play
from tests.fhe_auc.machines.test_file_transport import made_session as made_session
from tests.support.platforms import needs_unix_files
from tests.support.processes import wait_for
from tests.support.users import give, needs_root, start
from tests.support.wire import changed

pytestmark = pytest.mark.usefixtures("nothing_installed")


@pytest.fixture
def session(made_session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(file_transport, "_POLL", 0.01)
    made = made_session.copied(tmp_path / "session").configure()
    yield made
    for process in made.started:
        kill(process)


def test_an_inbox_that_is_away_is_named_and_gets_its_message_later_and_submissions_count_wherever_they_lie(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    away = session.folder / "away"
    away.write_bytes(b"not mounted")
    inbox, seen = away / "inbox", list[int]()

    class Carried(FileTransport):
        def tell(self, awaited: Mapping[str, str], deadline: float) -> None:
            super().tell(awaited, deadline)
            name = f"round-{self.aggregator.round}"
            if away.is_file():
                told = read_status(session.journal)
                assert told is not None
                assert "the message is not there yet" in told["skipped"][str(inbox)]
                seen.append(self.aggregator.round)
                (stray := session.exchange / name / "nroth.submission").write_bytes(b"whose?")
                if len(seen) == 3:
                    assert "named for no party of the session: rename" in told["skipped"][str(stray)]
                    away.unlink()
            elif (inbox / f"{name}.message").exists() and awaited:
                session.attend()
                (session.exchange / name / "north.submission").replace(inbox / name / "north.submission")

    run = read_config(session.folder / "run.toml", None)
    connect = partial(Carried, [Folder(each, make=True) for each in (session.exchange, inbox)], "")
    aggregator_role.run({**run, "round-timeout": PATIENCE}, connect)
    session.check_all()
    assert sum("the message is not there yet" in each for each in caplog.messages) == 1


@needs_unix_files
def test_what_the_key_holder_has_put_into_one_inbox_is_forwarded_to_all_and_never_over_another_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inboxes = [tmp_path / name for name in ("north", "south", "east")]
    for inbox in inboxes:
        inbox.mkdir()
    views = [Arrivals(Folder(inbox), RoleLog()) for inbox in inboxes]

    def check(data: bytes) -> None:
        if not data.endswith(b"signed"):
            raise InputError("it is not whole")

    def put(inbox: int, name: str, data: bytes) -> None:
        (inboxes[inbox] / name).write_bytes(data)

    def found(name: str) -> list[bytes]:
        for _ in range(3):
            forward(views, "", check)
        return [(inbox / name).read_bytes() for inbox in inboxes if (inbox / name).is_file()]

    put(0, "session.announcement", b"to all, signed")
    put(0, "south.bundle", b"to south, signed")
    put(0, "session.keys", b"nobody's business, signed")
    assert found("session.announcement") == [b"to all, signed"] * 3
    assert found("south.bundle") == [b"to south, signed"] * 3
    assert len(found("session.keys")) == 1
    put(1, "east.bundle", b"to east, sig")  # half of it, as a client writes it under its final name
    assert len(found("east.bundle")) == 1
    put(1, "east.bundle", b"to east, signed")
    assert found("east.bundle") == [b"to east, signed"] * 3
    put(2, "north.bundle", b"of a hostile site")  # counts nowhere, and is in nobody's way
    assert found("north.bundle") == [b"of a hostile site"]
    os.mkfifo(inboxes[0] / "north.bundle")
    put(1, "north.bundle", b"to north, signed")
    assert found("north.bundle") == [b"to north, signed", b"of a hostile site"]
    put(0, "west.bundle", b"to west, signed")
    put(2, "west.bundle", b"to south once more, signed")  # where the site's own should be
    assert found("west.bundle") == [b"to west, signed", b"to south once more, signed"]
    for inbox in inboxes:
        held = {file.read_bytes() for file in inbox.glob("*.bundle") if file.is_file()}
        assert {b"to west, signed", b"to south once more, signed"} <= held
    (inboxes[1] / "east.bundle").unlink()  # a site has taken it in
    assert len(found("east.bundle")) == 2
    named = Counter(each.split(": ")[0].removeprefix(f"skipped {tmp_path}/") for each in caplog.messages)
    assert named.keys() == {"south/east.bundle", "east/north.bundle", "north/north.bundle"}
    assert set(named.values()) == {1}


# --- One aggregator a folder: a second one, with whatever journal, is refused before it sends -------------------------


def transported(session: Session, journal: Journal) -> FileTransport:
    """What an aggregator with this open journal begins with."""
    aggregator = site_storage().aggregator(session.aggregator).aggregator()
    return FileTransport([Folder(session.exchange, make=True)], "", aggregator, journal, 60.0)


def test_another_journal_and_a_copy_are_refused_before_anything_is_sent(session: Session) -> None:
    own, other, copy = (session.folder / name for name in ("journal", "other", "copy"))
    with Journal(own) as journal, Journal(other) as second:
        transported(session, journal)
        why = r"another aggregator runs .*, with another journal .*exchange/aggregator'$"
        with pytest.raises(InputError, match=why):
            transported(session, second)
        shutil.copytree(own, copy)
        with Journal(copy) as copied, pytest.raises(EvaluationError, match="with a copy of this journal"):
            transported(session, copied)
    with Journal(own) as journal:  # run again, it goes on
        transported(session, journal)


def test_a_killed_aggregator_goes_on_and_a_round_of_another_journal_is_nobodys_to_repeat(session: Session) -> None:
    with Journal(session.folder / "other") as journal:
        for _ in range(2):
            process = session.open()
            with pytest.raises(InputError, match="another aggregator"):
                transported(session, journal)
            kill(process)
        (session.exchange / CLAIM).unlink()  # its journal is lost, and somebody helps himself
        with pytest.raises(EvaluationError, match=r"round 1 .* new session$"):
            transported(session, journal)


@needs_unix_files
def test_a_claim_that_a_crash_has_left_empty_or_that_is_no_file_stops_nobody_for_long(session: Session) -> None:
    session.exchange.mkdir()
    claim = session.exchange / CLAIM
    with Journal(session.journal) as journal:
        for make, remove in ((lambda: claim.symlink_to("/etc/hostname"), claim.unlink), (claim.mkdir, claim.rmdir)):
            make()
            with pytest.raises(OSError, match=f"exchange/{CLAIM}'$"):
                transported(session, journal)
            remove()
        os.mkfifo(claim)
        with pytest.raises(OSError, match=f"exchange/{CLAIM}'$"):
            transported(session, journal)
        claim.unlink()
        claim.touch()
        transported(session, journal)
    assert claim.read_bytes() == (session.journal / "name").read_bytes()


# --- Several users ----------------------------------------------------------------------------------------------------

SERVER, FIRST, GROUP = 64_100, 64_101, 64_200  # nobody's on any machine


@pytest.fixture
def shared(made_session: Session) -> Iterator[Session]:
    """A session whose roles are users of their own, in a folder that all can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o711)
    made = made_session.copied(folder / "session").configure()
    for each in (made.folder, made.folder / "keys"):
        each.chmod(0o711)
    users = {"aggregator": SERVER, **{name: FIRST + number for number, name in enumerate(made.sites)}}
    for name, user in users.items():
        config = made.aggregator if name == "aggregator" else made.roles[name]
        for each in ("journal", "results"):
            if each in config:
                Path(config[each]).mkdir(mode=0o700)
        for value in map(Path, config.values()):
            if value.is_absolute() and value.exists():
                give(value, user, user)
        file = made.folder / ("run.toml" if name == "aggregator" else f"{name}.toml")
        give(file, user, user)
    made.users = users  # type: ignore[attr-defined]
    yield made
    for process in made.started:
        kill(process)
    shutil.rmtree(folder)


@needs_root
@pytest.mark.parametrize("inboxes", [False, True])
def test_roles_that_are_different_users_carry_a_session_whatever_their_umask(
    inboxes: bool, shared: Session, session: Session
) -> None:
    """In one folder, of a group; or an inbox for each, which other sites cannot reach: of a group that the site shares
    with the aggregator, or the site's own, and the aggregator's group may write. A forged round lies in one."""
    play(session)  # has imported what they need
    users, sites = shared.users, list(shared.sites)  # type: ignore[attr-defined]
    places = {name: shared.folder / (f"to {name}" if inboxes else "exchange") for name in sites}
    groups = {name: GROUP + (users[name] if inboxes else 0) for name in sites}
    for name in sites if inboxes else sites[:1]:
        places[name].mkdir()
        os.chown(places[name], users[name] if name == "south" else 0, groups[name])
        places[name].chmod(0o2770)

    def begin(role: str, belongs: Iterable[int], *arguments: str) -> None:
        user = users[role]
        shared.started.append(start(user, [user, *belongs], "session", *arguments, "--json", cwd=shared.folder))

    opening = Path(shared.aggregator["session"]).read_bytes()  # of the key holder
    (places["north"] / "aggregator.bundle").write_bytes(opening)
    folders = list(dict.fromkeys(places.values()))
    begin("aggregator", groups.values(), "aggregate", *map(str, folders), "run.toml")
    first = places["east"] / "round-1.message"
    wait_for(lambda: first.exists() or shared.started[0].poll() is not None, PATIENCE)
    assert first.exists(), finished(shared.started[0])
    (places["east"] / "round-99.message").write_bytes(changed(first.read_bytes(), round=99))
    for name in sites:
        belongs = [] if inboxes and name == "south" else [groups[name]]
        begin(name, belongs, "answer", str(places[name]), f"{name}.toml", "--wait", "1")
    done = [finished(process) for process in shared.started]
    assert [status for status, _ in done] == [0] * 4, "\n".join(told for _, told in done)
    shared.check_all()
    assert "round-99.message: it bears no genuine signature" in done[1 + sites.index("east")][1]
    for folder in folders:
        assert (folder / "aggregator.bundle").read_bytes() == opening
        modes = {stat.S_IMODE(each.stat().st_mode) & 0o777 for each in folder.glob("round-*/*")}
        assert modes == {0o644}
        assert {stat.S_IMODE(each.stat().st_mode) & 0o777 for each in folder.glob("round-?")} == {0o770}

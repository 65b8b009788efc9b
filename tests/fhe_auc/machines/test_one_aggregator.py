"""One aggregator runs a session through a folder: a second one, with whatever journal, is refused before it sends."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.machines.file_transport import FileTransport
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.journal import CLAIM, Journal
from tests.support.machines import MachineSession, toml
from tests.support.processes import wait_for

pytestmark = pytest.mark.usefixtures("nothing_installed")

CLI = (sys.executable, "-c", "from fhe_auc.cli import main; main()")


@pytest.fixture
def session(site_rows: list[PartyData], tmp_path: Path) -> MachineSession:
    return MachineSession(site_rows, tmp_path / "session")


def transported(session: MachineSession, journal: Journal) -> FileTransport:
    """What an aggregator with this open journal begins with."""
    aggregator = site_storage().aggregator(session.aggregator).aggregator()
    return FileTransport(session.folder / "exchange", aggregator, journal, 60.0)


def test_another_journal_and_a_copy_are_refused_before_anything_is_sent(session: MachineSession) -> None:
    own, other, copy = (session.folder / name for name in ("journal", "other", "copy"))
    with Journal(own) as journal, Journal(other) as second:
        transported(session, journal)
        with pytest.raises(
            InputError, match=r"another aggregator runs .*, with another journal .*exchange/aggregator'$"
        ):
            transported(session, second)
        shutil.copytree(own, copy)
        with Journal(copy) as copied, pytest.raises(EvaluationError, match="with a copy of this journal"):
            transported(session, copied)
    with Journal(own) as journal:  # run again, it goes on
        transported(session, journal)


def test_a_killed_aggregator_goes_on_and_a_round_of_another_journal_is_nobodys_to_repeat(
    session: MachineSession,
) -> None:
    exchange, config = session.folder / "exchange", session.folder / "run.toml"
    for _ in range(2):
        config.write_text(toml(session.aggregator))
        process = subprocess.Popen([*CLI, "session", "aggregate", str(exchange), str(config)])
        try:
            wait_for((exchange / "round-1.message").exists)
            with Journal(session.folder / "other") as journal, pytest.raises(InputError, match="another aggregator"):
                transported(session, journal)
        finally:
            process.kill()
            process.wait()
    (exchange / CLAIM).unlink()  # its journal is lost, and somebody helps himself
    with Journal(session.folder / "other") as journal, pytest.raises(EvaluationError, match=r"round 1 .* new session$"):
        transported(session, journal)


def test_a_claim_that_a_crash_has_left_empty_or_that_is_no_file_stops_nobody_for_long(session: MachineSession) -> None:
    exchange = session.folder / "exchange"
    exchange.mkdir()
    for make, why in (
        (lambda path: path.symlink_to("/etc/hostname"), CLAIM),
        (lambda path: path.mkdir(), CLAIM),
        (lambda path: os.mkfifo(path), CLAIM),
        (lambda path: path.touch(), ""),
    ):
        make(exchange / CLAIM)
        with Journal(session.folder / "journal") as journal:
            if why:
                with pytest.raises(OSError, match=f"exchange/{CLAIM}'$"):
                    transported(session, journal)
                (exchange / CLAIM).rmdir() if (exchange / CLAIM).is_dir() else (exchange / CLAIM).unlink()
            else:
                transported(session, journal)
    assert (exchange / CLAIM).read_bytes() == (session.folder / "journal" / "name").read_bytes()

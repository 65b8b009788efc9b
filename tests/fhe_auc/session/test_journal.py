"""What an aggregator's journal keeps and refuses. Deaths at any write, and full disks: any session and any night."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.errors import EvaluationError, InputError, MessageError
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import journal as journals
from fhe_auc.session.aggregator import Aggregator, SessionRecord, conduct
from fhe_auc.session.journal import Journal, is_finished, is_running, read_record
from tests.support.platforms import needs_modes
from tests.support.stored_sites import Consortium

pytestmark = pytest.mark.usefixtures("nothing_installed")


def aggregator(consortium: Consortium, journal: Journal) -> Aggregator:
    made = consortium.aggregator()
    made.journal = journal
    return made


def asking(consortium: Consortium, made: Aggregator) -> Any:
    """A transport that asks whom the aggregator has not heard of in this round."""

    def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
        for name in consortium.sites:
            if name in made.counted and not made.has_accepted(name):
                yield name, consortium.answer(name, message)

    return exchange


def finished(consortium: Consortium, folder: Path) -> SessionRecord:
    with Journal(folder) as journal:
        made = aggregator(consortium, journal)
        return conduct(made, asking(consortium, made))


@pytest.fixture
def consortium(site_rows: list[PartyData], tmp_path: Path) -> Consortium:
    return Consortium(site_rows, tmp_path / "sites", "nothing")


def test_a_submission_cut_off_in_writing_is_asked_for_again_damage_named(
    consortium: Consortium, tmp_path: Path
) -> None:
    with Journal(tmp_path / "journal") as journal:
        made = aggregator(consortium, journal)
        message = made.start()
        for name in ("north", "south"):
            made.receive(name, consortium.answer(name, message))
    log = tmp_path / "journal" / "round-1.submissions"
    whole = log.read_bytes()
    first = 8 + int.from_bytes(whole[:8], "big")
    cuts = np.random.default_rng(1).integers(0, len(whole), 20)
    for length in (0, 1, 7, 8, first - 1, first, first + 1, first + 8, len(whole) - 1, *cuts):
        log.write_bytes(whole[:length])
        with Journal(tmp_path / "journal") as journal:
            assert [party for party, _ in journal.submissions(1)] == ["north"] * int(length >= first)
            journal.add(1, "east", b"what comes next is whole")
            assert [party for party, _ in journal.submissions(1)][-1] == "east"
    for damaged in (b"\xff" * 8, b"\0\0\0\0\0\0\0\x04abcd", bytes(100)):
        log.write_bytes(damaged)
        with Journal(tmp_path / "journal") as journal:
            assert not list(journal.submissions(1))
    for place in (45, 7):  # before its end: a byte, the version
        changed = bytearray(whole)
        changed[8 + place] ^= 1
        log.write_bytes(changed)
        with Journal(tmp_path / "journal") as journal, pytest.raises(EvaluationError, match="damaged or of another"):
            list(journal.submissions(1))
        assert log.read_bytes() == changed


def test_closing_a_round_makes_what_an_earlier_process_has_written_survive_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.add(1, "north", b"submission")
    synced: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    with Journal(tmp_path / "journal") as journal:
        journal.close_round(1, ("north",))
    assert synced[0] == (tmp_path / "journal" / "round-1.submissions").stat().st_ino


def test_a_damaged_journal_or_another_sessions_is_named_and_nothing_is_sent(
    consortium: Consortium, tmp_path: Path, site_rows: list[PartyData]
) -> None:
    folder = tmp_path / "journal"
    finished(consortium, folder)
    another = Consortium(site_rows, tmp_path / "another", "nothing")
    with Journal(folder) as journal, pytest.raises(EvaluationError, match="of another session: round 1"):
        aggregator(another, journal).start()
    for name in ("round-1.message", "round-1.closed", "round-2.message", "round-1.submissions"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(b"" if name == "round-1.submissions" else whole[:-1])
        with Journal(folder) as journal, pytest.raises(EvaluationError, match=r"is damaged or of another session"):
            aggregator(consortium, journal).start()
        (folder / name).write_bytes(whole)
    (folder / "round-1.submissions").unlink()
    with Journal(folder) as journal, pytest.raises(EvaluationError, match="submissions are gone"):
        aggregator(consortium, journal).start()


def test_what_bears_no_signature_of_its_party_is_not_kept(consortium: Consortium, tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        made = aggregator(consortium, journal)
        submission = consortium.answer("north", made.start())
        for party in ("south", "nobody"):
            with pytest.raises(MessageError, match=party):
                made.receive(party, submission)
        assert not list(journal.submissions(1))


_HELD = """
import sys, time
from pathlib import Path
from fhe_auc.session.journal import Journal

with Journal(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_one_process_runs_a_session_until_it_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "_PATIENCE", 0.1)
    folder = tmp_path / "journal"
    assert not is_running(folder)
    with subprocess.Popen([sys.executable, "-c", _HELD, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert is_running(folder)
        with pytest.raises(EvaluationError, match=r"^another process runs the session of '.*journal'$"):
            Journal(folder)
        process.kill()
    assert not is_running(folder)
    with Journal(folder):
        pass


@needs_modes
def test_a_journal_that_others_can_change_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir(mode=0o755)
    with pytest.raises(InputError, match=r"journal: '.*' is another user's, or open to others: chmod 700 it"):
        Journal(folder)


def test_once_all_have_their_results_what_it_took_to_go_on_is_removed(consortium: Consortium, tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    finished(consortium, folder)
    parties = ["north", "south", "east"]
    with Journal(folder) as journal:
        for number in (2, 3):
            record = {"session": "", "counted": parties, "missing": [], "delivered": parties[:number], "refused": {}}
            journal.keep_record(record)
            assert bool(list(folder.glob("*.submissions"))) is (number == 2)
            assert is_finished(read_record(folder) or {}) is (number == 3)

"""What an aggregator's journal keeps and refuses. Deaths at any write, and full disks: any session and any night."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def test_a_damaged_journal_or_another_sessions_is_named_and_nothing_is_sent(
    consortium: Consortium, tmp_path: Path, site_rows: list[PartyData]
) -> None:
    folder = tmp_path / "journal"
    finished(consortium, folder)
    another = Consortium(site_rows, tmp_path / "another", "nothing")
    with Journal(folder) as journal, pytest.raises(EvaluationError, match="of another session: round 1"):
        aggregator(another, journal).start()
    for name in ("round-1.message", "round-1.closed", "round-2.message", "round-1.south.submission"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-1])
        with Journal(folder) as journal, pytest.raises(EvaluationError, match=r"is damaged or of another session"):
            aggregator(consortium, journal).start()
        (folder / name).write_bytes(whole)
    (folder / "round-1.south.submission").unlink()
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
            assert bool(list(folder.glob("*.submission"))) is (number == 2)
            assert is_finished(read_record(folder) or {}) is (number == 3)

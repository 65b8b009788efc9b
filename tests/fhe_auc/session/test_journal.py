"""An aggregator that dies at any moment: the session goes on as if it had not, and nobody sees a second message."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
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
from tests.support.pooled import exact_auc
from tests.support.stored_sites import GRID, Consortium

pytestmark = pytest.mark.usefixtures("nothing_installed")


class DiedError(Exception):
    """The process is gone."""


class Mortal(Journal):
    """A journal whose process dies at its so-manieth write: before it, or once it is done."""

    def __init__(self, folder: Path, writes: int, *, done: bool) -> None:
        super().__init__(folder)
        self._left, self._done = writes, done
        for name in ("keep_message", "add", "close_round"):
            setattr(self, name, partial(self._write, getattr(self, name)))

    def _write(self, write: Callable[..., None], *what: Any) -> None:
        self._left -= 1
        if self._left or self._done:
            write(*what)
        if not self._left:
            raise DiedError


def aggregator(consortium: Consortium, journal: Journal) -> Aggregator:
    made = consortium.aggregator()
    made.journal = journal
    return made


def asking(consortium: Consortium, made: Aggregator, seen: set[tuple[int, bytes]]) -> Any:
    """A transport that asks whom the aggregator has not heard of in this round."""

    def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
        seen.add((made.round, message))
        for name in consortium.sites:
            if name in made.counted and not made.has_accepted(name):
                yield name, consortium.answer(name, message)

    return exchange


def finished(consortium: Consortium, folder: Path) -> SessionRecord:
    with Journal(folder) as journal:
        made = aggregator(consortium, journal)
        return conduct(made, asking(consortium, made, set()))


@pytest.mark.parametrize(
    ("protocol", "request_of"),
    [
        pytest.param("malicious", {}, id="with an echo", marks=pytest.mark.slow),
        pytest.param("exact", {}, id="sealed keys", marks=pytest.mark.slow),
        pytest.param("nothing", {}, id="nothing encrypted"),
    ],
)
def test_an_aggregator_may_die_at_any_write_and_the_session_ends_as_if_it_had_not(
    protocol: str, request_of: dict[str, Any], site_rows: list[PartyData], tmp_path: Path
) -> None:
    consortium = Consortium(site_rows, tmp_path / "sites", protocol, **request_of)
    folder, seen, died, record = tmp_path / "journal", set[tuple[int, bytes]](), 0, None
    while record is None:  # each process comes one write further than the one before, which it finds done or not
        with Mortal(folder, 1, done=died % 2 == 1) as journal:
            try:
                made = aggregator(consortium, journal)
                record = conduct(made, asking(consortium, made, seen))
            except DiedError:
                died += 1
    parties = tuple(consortium.sites)
    assert (record.counted, record.missing, record.delivered) == (parties, (), parties)
    assert len(seen) == made.rounds  # one message a round, whoever sent it
    assert died == 2 * (made.rounds + made.rounds * len(parties) + made.rounds - 1)  # messages, submissions, closings
    right = 0.5 if protocol == "nothing" else exact_auc(site_rows, GRID)
    assert [result.auc for result in consortium.results.values()] == pytest.approx([right] * 3, abs=1e-6)


@pytest.fixture
def consortium(site_rows: list[PartyData], tmp_path: Path) -> Consortium:
    return Consortium(site_rows, tmp_path / "sites", "nothing")


def test_who_counts_is_fixed_before_anything_is_computed(site_rows: list[PartyData], tmp_path: Path) -> None:
    """A result of three sites after one of two, which died on its way, would tell the third one's rows."""
    consortium = Consortium(site_rows, tmp_path / "sites", "nothing", min_parties=2)
    with Mortal(tmp_path / "journal", 4, done=True) as journal:
        made = aggregator(consortium, journal)
        message = made.start()
        for name in ("north", "south"):
            made.receive(name, consortium.answer(name, message))
        with pytest.raises(DiedError):
            made.finish_round()
    with Journal(tmp_path / "journal") as journal:
        made = aggregator(consortium, journal)
        assert made.start() != message
        assert (made.round, made.counted) == (2, ("north", "south"))


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


def test_a_full_disk_takes_nothing_in(consortium: Consortium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path / "journal") as journal:
        made = aggregator(consortium, journal)
        message = made.start()
        write, room = os.write, [100]

        def full(descriptor: int, data: memoryview) -> int:
            if not room[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = write(descriptor, data[: room[0]])
            room[0] -= written
            return written

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            made.receive("north", consortium.answer("north", message))
        monkeypatch.undo()
        assert not made.has_accepted("north")
        assert not list(journal.submissions(1))
        made.receive("north", consortium.answer("north", message))
    assert finished(consortium, tmp_path / "journal").counted == ("north", "south", "east")


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

"""`fhe-auc serve`: roles that stay are killed, confused and asked to end within sessions, and lose nothing."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fhe_auc.cli.serve import ending
from fhe_auc.machines import answering
from tests.support.command_line import call
from tests.support.keys_folder import ADDER
from tests.support.platforms import needs_linux
from tests.support.served import (
    _HERE,
    HELPER,
    HOLDER,
    MOST_MEMORY,
    PATIENCE,
    SITES,
    Started,
    at,
    change,
    check_results,
    convene,
    delivered,
    kill,
    look,
    make_session,
    place,
    serving,
    start,
    status,
    step,
    until,
)
from tests.support.wire import changed


@pytest.fixture
def processes() -> Iterator[Started]:
    """Those that a test has started, by role; they are ended with it."""
    started: Started = {}
    yield started
    for each in started.values():
        each.kill()
        each.wait()


def memory_of(process: Any) -> int:
    """Bytes that it has."""
    return int(psutil.Process(process.pid).memory_info().rss)


# --- What must not stop it --------------------------------------------------------------------------------------------


def test_strays_and_half_copied_files_stop_no_session_and_stay_red_until_they_are_whole(here: Path) -> None:
    """In the maker's place lie what is none of ours, a pipe, a link, and bundles cut off; in a site's, rubbish."""
    Path("exchange/north/a folder").mkdir(parents=True)
    Path("exchange/north/stray").write_text("not a folder")
    Path("exchange/north", "0" * 32).symlink_to("/")
    Path("exchange/link").symlink_to("/")
    with serving(ADDER, *SITES):
        make_session(publish=False)
        whole = {name: Path("night-1", f"{name}.bundle").read_bytes() for name in ("aggregator", *SITES)}
        folder = place(HOLDER)
        folder.mkdir()
        shutil.copy("night-1/session", folder)
        os.mkfifo(folder / "pipe.bundle")
        (folder / "link.bundle").symlink_to("/dev/zero")
        for name, data in whole.items():
            (folder / f"{name}.bundle").write_bytes(data[: len(data) // 2])
        until(lambda: all("damaged (checksum mismatch)" in step(name) for name in (ADDER, *SITES)))
        until(lambda: all("damaged (checksum mismatch)" in status(name)["health"] for name in (ADDER, *SITES)))
        for name, data in whole.items():
            with (folder / f"{name}.bundle").open("ab") as file:
                file.write(data[len(data) // 2 :])
        until(lambda: delivered(*SITES))
        check_results(*SITES)
        until(lambda: all(status(name)["health"] == "ok" for name in (ADDER, *SITES)))


def test_a_hook_that_fails_or_hangs_gets_each_result_again_until_it_takes_it(here: Path) -> None:
    """It fails, hangs, and takes the first; meanwhile the other session has ended."""
    program = """
n=$(ls tried* 2>/dev/null | wc -l); echo "$1 $2" > tried-$n
case $n in 0) exit 3;; 1) sleep 60;; *) cp "$1" taken/;; esac
"""
    Path("taken").mkdir()
    Path("hook").write_text(program)
    change("south", on_result=["/bin/sh", "hook"], on_result_seconds=0.3)
    with serving(ADDER, *SITES):
        sessions = {make_session("night-1"), make_session("night-2")}
        until(lambda: "on-result: '/bin/sh' has failed" in status("south").get("health", ""))
        until(lambda: len(list(Path("taken").iterdir())) == 2)
        until(lambda: status("south")["health"] == "ok")
    assert {Path(each).read_text().split()[1] for each in ("tried-0", "tried-2", "tried-3")} == sessions
    with serving("south"):  # what it has taken does not come again
        until(lambda: status("south")["wrong"] == "")
    assert len(list(Path().glob("tried-*"))) == 4


# --- One process a role, and how it ends ------------------------------------------------------------------------------


def test_a_process_takes_little_memory_alone_has_its_store_and_state_and_ends_cleanly(
    here: Path, processes: Started
) -> None:
    convene(protocol="verified")
    start(processes, "north")
    until(lambda: step("north") == "opened")
    kill(processes, "north")
    start(processes, "north")  # which has opened nothing itself, and needs no library for that
    with serving(ADDER, HELPER, "south", "west"):
        until(lambda: delivered(*SITES))
    until(lambda: (status("north")["wrong"], step("north")) == ("", "result delivered"))
    assert memory_of(processes["north"]) < MOST_MEMORY
    assert call("keys", "show", *at("north"), "--passphrase-file", "passphrase").exit_code == 0  # meanwhile
    second = call("serve", "north.toml")
    assert (second.exit_code, "another process serves with 'north/state'" in second.stderr) == (1, True)
    change("north", state="north/other")
    second = call("serve", "north.toml")
    assert (second.exit_code, "another `fhe-auc serve` has the key store 'north/store'" in second.stderr) == (1, True)
    change("north", state="north/state")
    assert kill(processes, "north", signal.SIGTERM) == 0
    assert Path("north.log").read_text().endswith("heavy: nothing\n")  # what rounds need is in their processes
    shown = call("status", "north.toml")
    assert (shown.exit_code, "it does not run" in shown.stdout) == (1, True)


@needs_linux("/proc")
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_rounds_of_ten_thousand_rows_leave_a_process_as_small_as_it_was(
    here: Path, processes: Started
) -> None:
    drawn = random.Random(63)
    rows = [(label := int(drawn.random() < 0.2), 0.2 * label + drawn.random() * 0.8) for _ in range(10_000)]
    Path("south.csv").write_text("y_true,y_score\n" + "".join(f"{label},{score:.6f}\n" for label, score in rows))
    start(processes, "south")
    with serving(ADDER, "north", "west"):
        for night in range(1, 35):  # of three rounds
            make_session(f"night-{night}", thresholds="hybrid:1000", protocol="verified")
            until(lambda night=night: delivered(*SITES, number=night))
            assert memory_of(processes["south"]) < MOST_MEMORY
    assert Path("south.log").read_text().count(" answered, ") >= 100


def test_a_signal_ends_it_also_at_the_instant_at_which_it_begins_to_wait() -> None:
    stop = threading.Event()
    with stop._cond:  # as `Event.wait` has it
        ending(stop)(signal.SIGTERM, None)
    assert stop.wait(PATIENCE)


@pytest.mark.parametrize(
    ("role", "entries", "code", "words"),
    [
        ("north", {"passphrase_file": "wrong"}, 1, "the passphrase is not this key store's"),
        ("north", {"role": "sight"}, 2, "role is one of 'site', 'aggregator', 'helper', not 'sight'"),
        ("north", {"results": ""}, 2, "results is not configured"),
        ("north", {"exchange": ["exchange"]}, 2, "exchange is not configured"),
        (ADDER, {"data": "north.csv"}, 2, "there is no entry 'data'"),
    ],
)
def test_what_cannot_be_ends_it_at_once(here: Path, role: str, entries: dict[str, Any], code: int, words: str) -> None:
    Path("wrong").write_text("another passphrase")
    Path("wrong").chmod(0o600)
    change(role, **entries)
    found = call("serve", f"{role}.toml")
    assert (found.exit_code, found.stderr.count("\n"), words in found.stderr) == (code, 1, True), found.stderr


# --- What strangers without a key put into the exchange ---------------------------------------------------------------


def test_nothing_that_the_maker_has_not_signed_for_this_session_starts_a_process(here: Path) -> None:
    """Neither rubbish, nor a bundle whose signature is gone, nor what is a session's in the place of another."""
    session = make_session()
    whole = (place(HOLDER) / "aggregator.bundle").read_bytes()
    body = whole[40:-1] + bytes([whole[-1] ^ 1])
    spoilt = {
        "a" * 32: whole[:8] + hashlib.sha256(body).digest() + body,
        "b" * 32: whole[:8] + bytes(60),
        "c" * 32: whole,
    }
    for name, data in spoilt.items():
        Path("exchange", HOLDER, name).mkdir()
        Path("exchange", HOLDER, name, "aggregator.bundle").write_bytes(data)
        shutil.copy(place(HOLDER) / "session", Path("exchange", HOLDER, name))
    shutil.copytree(place(HOLDER), Path("exchange", "south", session))
    with serving(ADDER, apart=True):
        look()
        assert [each.name for each in _HERE[0]._sessions.values() if each.work] == [session]
        steps = [(each["session"], each["step"]) for each in status(ADDER)["sessions"]]
        assert {name for name, step in steps if step.startswith("refused")} == {*spoilt, session}
        assert f"it is of session {session}" in dict(steps)["c" * 32]
        assert (session, "refused: 'north' has made it, and it lies in the place of 'south'") in steps


def test_what_strangers_put_into_the_exchange_is_not_looked_at_and_steers_no_terminal(here: Path) -> None:
    """Places of nobody's; in those of ours, strange names, and a forged round, which is named."""
    make_session()
    strange = "\x1b[2J\u202e\n", os.fsdecode(b"\xff\xfe"), "unsigned"
    with serving(ADDER, "north"):
        until(lambda: step("north") == "round 1 answered")
        for name in strange:
            Path("exchange", name).mkdir()
            Path("exchange", HOLDER, name).mkdir()
            (place(HOLDER) / name).write_bytes(b"fhebund")
        look()
        assert [status(name)["wrong"] for name in (ADDER, "north")] == ["", ""]
        message = (place(ADDER) / "round-1.message").read_bytes()
        (place(ADDER) / "round-3.message").write_bytes(changed(message, round=3))
        look()
        look()
        assert "round-3.message: it bears no genuine signature" in status("north")["wrong"]
        assert step("north").startswith("round 1 answered")  # whatever the number of the forged one is
        shown = call("status", "north.toml")
        assert (shown.exit_code, "\x1b" in shown.stdout) == (1, False)
        (place(ADDER) / "round-3.message").unlink()
        look()
        assert status("north")["wrong"] == ""


def test_a_member_that_fills_its_place_is_named_and_ends_no_session(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a thousand sessions of nothing, one of them of more files than any has; what goes on there is not lost."""
    monkeypatch.setattr("fhe_auc.exchange.exchange.MOST_NAMES", 1500)
    make_session()
    with serving(ADDER, "south", "west"):
        until(lambda: all(step(name) == "round 1 answered" for name in ("south", "west")))
        for number in range(1000):
            Path("exchange", HOLDER, f"{number:032x}").mkdir()
        for number in range(1501):
            Path("exchange", HOLDER, f"{0:032x}", str(number)).touch()
        look()
        why = "north: of 1,001 sessions in its place 200 are looked at: it removes what is over"
        assert all(why in status(name)["wrong"] for name in (ADDER, "south", "west"))
        assert all(len(each._sessions) <= 200 for each in _HERE)
        assert not any(session.view.version(f"{session.place}9") for session in _HERE[0]._sessions.values())
        for path in Path("exchange", HOLDER).glob("0" * 20 + "*"):
            shutil.rmtree(path)
        with serving("north"):
            until(lambda: delivered(*SITES))
            until(lambda: all(status(name)["wrong"] == "" for name in SITES))


def test_what_fills_a_role_s_own_place_is_not_read_beyond_a_bound(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_session()
    with serving("north"):
        look()
        for number in range(1, 99):
            (place("north") / f"round-{number}.submission").write_bytes(bytes(1000))
            (place("north") / f"{number}").write_bytes(bytes(1000))
        monkeypatch.setattr(answering, "LONGEST", 10_500)
        (session,) = _HERE[0]._sessions.values()
        part = _HERE[0]._part
        assert isinstance(part, answering.Answering)
        assert sum(map(len, part._own(session))) == 10_000


def test_a_result_that_cannot_be_noted_as_taken_ends_nothing(here: Path) -> None:
    change("south", on_result=["/bin/true"])
    taken = Path("south/state/taken")
    with serving(ADDER, *SITES):
        taken.rmdir()
        taken.write_bytes(b"")
        make_session()
        until(lambda: "cannot be written down" in status("south")["wrong"])
        taken.unlink()
        taken.mkdir()
        until(lambda: status("south")["wrong"] == "")
    assert len(list(taken.iterdir())) == 1

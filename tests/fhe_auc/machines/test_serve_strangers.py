"""What strangers without a key put into the exchange, and what spoils the folder of results: it ends nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from fhe_auc.machines import answering
from tests.support.command_line import call
from tests.support.keys_folder import ADDER
from tests.support.served import (
    _HERE,
    HOLDER,
    SITES,
    change,
    delivered,
    look,
    make_session,
    place,
    serving,
    status,
    step,
    until,
)
from tests.support.wire import changed


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

"""What strangers without a key, or one hostile site, put into inboxes: it costs no other site anything."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import call
from tests.support.keys_folder import ADDER
from tests.support.served import (
    _HERE,
    HELPER,
    SITES,
    change,
    check_results,
    convene,
    delivered,
    exists,
    look,
    make_session,
    serving,
    status,
    step,
    until,
)
from tests.support.wire import changed


def written_anew(data: bytes) -> bytes:
    """The same signed document in other bytes: msgpack has longer forms of a length."""
    body = data[40:]
    longer = {0xC4: b"\xc5\0", 0xC5: b"\xc6\0\0"}[body[1]]
    other = body[:1] + longer + body[2:]
    return data[:8] + hashlib.sha256(other).digest() + other


def forged(inbox: str, **fields: object) -> bytes:
    """A message of the first round that is whole, and says something else; whoever has no key can make it."""
    return changed(Path(inbox, "night-1/round-1.message").read_bytes(), **fields)


# --- One inbox for all ------------------------------------------------------------------------------------------------


def test_a_session_has_one_journal_and_runs_in_one_folder_whoever_copies_its_files(here: Path) -> None:
    session = make_session()
    original = Path("inbox/night-1/aggregator.bundle").read_bytes()
    with serving(ADDER, "north"):
        until(exists("inbox/night-1/round-1.message"))
        for name, data in (("anew", written_anew(original)), ("copy", original)):
            Path("inbox", name).mkdir()
            Path("inbox", name, "aggregator.bundle").write_bytes(data)
        until(lambda: all(step(ADDER, name).startswith("refused") for name in ("anew", "copy")))
        assert "its session runs in the folder 'night-1'" in step(ADDER, "copy")
        assert "has been written anew" in step(ADDER, "anew") or "runs in the folder" in step(ADDER, "anew")
    with serving(ADDER, *SITES):  # started again, where the copies are newer
        until(lambda: delivered(*SITES))
        until(lambda: step(ADDER).startswith("ended: all"))
    assert [each.name for each in Path(ADDER, "state/journals").iterdir()] == [session]
    assert not list(Path("inbox").glob("[ac]*/round-*"))


def test_nothing_that_the_key_holder_has_not_signed_starts_a_process(here: Path) -> None:
    """Neither rubbish nor a bundle whose signature is gone, which claims to open a session of ours."""
    make_session()
    whole = Path("inbox/night-1/aggregator.bundle").read_bytes()
    body = whole[40:-1] + bytes([whole[-1] ^ 1])
    for name, data in (
        ("forged", whole[:8] + hashlib.sha256(body).digest() + body),
        ("rubbish", whole[:8] + bytes(60)),
    ):
        Path("inbox", name).mkdir()
        Path("inbox", name, "aggregator.bundle").write_bytes(data)
    with serving(ADDER):
        look()
        assert [each.name for each in _HERE[0]._sessions.values() if each.work] == ["night-1"]
        assert all(step(ADDER, name).startswith("refused") for name in ("forged", "rubbish"))
        assert status(ADDER)["health"] == "ok"


def test_what_strangers_put_into_the_inbox_changes_no_health_and_steers_no_terminal(here: Path) -> None:
    """Folders of strange names, one with a whole message that nobody has signed; a file in place of a folder."""
    make_session()
    strange = "\x1b[2J\u202e\n", os.fsdecode(b"\xff\xfe"), "unsigned"
    with serving(ADDER, HELPER, "north"):
        until(lambda: step("north") == "round 1 answered")
        for name in strange:
            Path("inbox", name).mkdir()
            Path("inbox", name, "north.bundle").write_bytes(b"fhebpar" + bytes(50))
        Path("inbox/unsigned/north.bundle").unlink()
        Path("inbox/unsigned/round-1.message").write_bytes(forged("inbox", session=bytes(16)))
        Path("inbox/unsigned/helpers").write_bytes(b"")
        Path("inbox/night-1/round-3.message").write_bytes(forged("inbox", round=3))
        for _ in range(4):
            look()
            time.sleep(0.02)
        assert {name: status(name)["wrong"] for name in (ADDER, HELPER, "north")} == dict.fromkeys(
            (ADDER, HELPER, "north"), ""
        )
        assert step("north", "unsigned").startswith("not for this role")
        assert step("north").startswith("round 1 answered")  # whatever the number of the forged one is
        shown = call("session", "status", "north.toml")
        assert (shown.exit_code, "[2J" in shown.stdout, "\x1b" in shown.stdout) == (0, True, False)


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


# --- An inbox for each site, one of which is hostile ------------------------------------------------------------------

PLACES = {"south": "in-a-hostile", "north": "in-north", "west": "in-west", HELPER: "in-helper"}
"""The hostile one is the first, in the list and by its name."""

FOLDER = Path("in-a-hostile/night-1")


def have_inboxes(**entries: int) -> None:
    for name, place in PLACES.items():
        Path(place).mkdir()
        change(name, inbox=place)
    change(ADDER, inbox=list(PLACES.values()), close_at=2, **entries)


def rubbish(session: str) -> None:
    """Of all names that count."""
    FOLDER.mkdir()
    names = "aggregator.bundle", "session.helper", "north.bundle"
    for name in (*names, "aggregator", "round-2.message"):
        (FOLDER / name).write_bytes(b"f" * 32)


def link(session: str) -> None:
    Path("victim").mkdir()
    FOLDER.symlink_to(Path("victim").resolve())


SPOIL: dict[str, Callable[[str], object]] = {
    "rubbish": rubbish,
    "no folder": lambda session: FOLDER.write_bytes(b""),
    "a link": link,
    "away": lambda session: FOLDER.parent.rmdir(),
}


@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=pytest.mark.slow if each != "rubbish" else ()) for each in SPOIL]
)
def test_what_one_site_has_put_into_its_inbox_costs_no_other_the_session(what: str, here: Path) -> None:
    """Who convenes puts the session into its own; the aggregator carries everything."""
    have_inboxes()
    SPOIL[what](convene(into="in-north"))
    with serving(ADDER, HELPER, "north", "west"):
        until(lambda: delivered("north", "west"))
        check_results("north", "west", counted=("north", "west"))
        assert all(status(name)["health"] == "ok" for name in ("north", "west", HELPER))
    assert what != "a link" or not list(Path("victim").iterdir())
    assert FOLDER.parent.exists() == (what != "away")
    spread = [file for name in ("north", "west", "helper") for file in Path(f"in-{name}").rglob("*") if file.is_file()]
    assert not [file for file in spread if file.read_bytes() == b"f" * 32]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("round-3.message", {"round": 3}),  # of this session
        pytest.param("round-1.message", {"session": bytes(16)}, marks=pytest.mark.slow),
        pytest.param("aggregator.bundle", {}, marks=pytest.mark.slow),
    ],
)
def test_a_session_goes_on_after_what_one_site_has_forged(name: str, fields: dict[str, object], here: Path) -> None:
    have_inboxes()
    convene(into="in-north")
    with serving(ADDER, "north"):
        until(exists("in-north/night-1/round-1/north.submission"))
    (FOLDER / name).write_bytes(forged("in-north", **fields))
    with serving(ADDER, HELPER, "north", "west"):
        until(lambda: delivered("north", "west"))
        check_results("north", "west", counted=("north", "west"))

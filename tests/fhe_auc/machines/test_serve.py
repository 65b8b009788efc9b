"""`fhe-auc serve`: roles that stay are killed, confused and asked to end within sessions, and lose nothing."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.cli.serve import ending
from tests.support.command_line import call
from tests.support.keys_folder import ADDER
from tests.support.served import (
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
    make_session,
    place,
    serving,
    start,
    status,
    step,
    until,
)


@pytest.fixture
def processes() -> Iterator[Started]:
    """Those that a test has started, by role; they are ended with it."""
    started: Started = {}
    yield started
    for each in started.values():
        each.kill()
        each.wait()


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


@pytest.mark.slow
def test_an_aggregator_that_has_lost_what_opened_a_session_says_so_and_goes_on_once_it_is_back(here: Path) -> None:
    make_session()
    bundle = place(HOLDER) / "aggregator.bundle"
    with serving(ADDER):
        until(lambda: step(ADDER).startswith("round 1 of 2, awaits"))
    bundle.rename("backup")
    with serving(ADDER, *SITES):
        until(lambda: "what has opened it is not here any more" in status(ADDER)["health"])
        Path("backup").rename(bundle)
        until(lambda: delivered(*SITES))


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
    if sys.platform == "linux":
        told = Path(f"/proc/{processes['north'].pid}/status").read_text()
        assert int(told.partition("VmRSS:")[2].split()[0]) * 1024 < MOST_MEMORY
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

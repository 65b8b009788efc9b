"""However our command ends, what it has started on this machine ends too, and nothing stays on the disk."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil
import pytest

from fhe_auc.machines import cleanup, processes
from fhe_auc.machines.cleanup import Family
from fhe_auc.machines.processes import QUIET, Processes
from tests.support.processes import marked, wait_for

STUBBORN = "import signal, time; [signal.signal(each, signal.SIG_IGN) for each in (1, 2, 15)]; time.sleep(600)"
STARTED = """
import signal, subprocess, sys, time
from fhe_auc.machines.processes import Processes
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs tests in the background has it ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and so has nohup
made = Processes()
(made.folder / "secret").write_text("share")
stubborn = sys.argv[1]
starting = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {stubborn!r}], start_new_session=True)"
made.start("one", [sys.executable, "-c", starting]).wait()
print(made.folder, flush=True)
time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize(
    "sent", [signal.SIGKILL, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGHUP, signal.SIGINT))]
)
def test_a_command_that_cannot_clean_up_leaves_nothing_behind(sent: signal.Signals, temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTED, STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        folder = process.stdout.readline().decode().strip()
        assert Path(folder).parent == temporary
        assert Path(folder).stat().st_mode & 0o777 == 0o700
        mark = f"FLWR_HOME={folder}/flwr"
        wait_for(lambda: len(marked(mark)) == 1)
        process.send_signal(sent)
    wait_for(lambda: not Path(folder).exists())
    assert not marked(mark)


def test_what_is_started_calls_nobody_home_and_closing_leaves_nothing_and_can_be_done_twice(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in QUIET:
        monkeypatch.delenv(name, raising=False)
    with Processes() as made:
        told = made.call(["env"]).splitlines()
        logged = made.start("logged", ["env"])
        logged.wait()
        told_too = (made.folder / "logged.log").read_text().splitlines()
    for lines in (told, told_too):
        assert {f"{name}={value}" for name, value in QUIET.items()} <= set(lines)
    made = Processes()
    sleeping = made.start("sleeping", ["sleep", "600"])
    made.close()
    assert sleeping.poll() is not None
    assert made._ender.poll() == 0
    assert list(temporary.iterdir()) == []
    made.close()


def test_memory_without_room_or_not_writable_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(processes, "_MEMORY", tmp_path / "missing")
    assert processes._in_memory() is None
    monkeypatch.setattr(processes, "_MEMORY", tmp_path)
    monkeypatch.setattr(processes, "_ROOM", shutil.disk_usage(tmp_path).free + 2**50)
    assert processes._in_memory() is None
    monkeypatch.setattr(processes, "_ROOM", 0)
    tmp_path.chmod(0o500)
    user, nobody = os.getuid(), 65534
    if user == 0:  # may write anywhere; access(2) asks for the real user
        os.setreuid(nobody, 0)
    try:
        assert processes._in_memory() is None
    finally:
        os.setreuid(user, -1)


PARENT = "env -i sh -c 'echo $$; exec sleep 600 > /dev/null' & read line"
"""A shell whose child has no environment, and says so by its id; it ends once its input does."""


@pytest.fixture
def mark() -> str:
    return f"FHE_AUC_TEST={uuid.uuid4()}"


class Started:
    """A parent with the mark in its environment, and its child without any."""

    def __init__(self, mark: str) -> None:
        name, _, value = mark.partition("=")
        self.parent = subprocess.Popen(
            ["/bin/sh", "-c", PARENT], env={**os.environ, name: value}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.parent.stdout is not None
        self.child = int(self.parent.stdout.readline())

    def end_parent(self) -> None:
        self.parent.communicate()
        assert self.parent.returncode is not None

    def lives(self) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return bool(psutil.Process(self.child).status() != psutil.STATUS_ZOMBIE)
        return False

    def end(self) -> None:
        if self.lives():
            os.kill(self.child, 9)
        self.parent.kill()
        self.parent.wait()


@pytest.fixture
def started(mark: str) -> Iterator[Started]:
    made = Started(mark)
    yield made
    made.end()


def test_a_child_without_an_environment_is_found_by_its_parent_and_known_later(mark: str, started: Started) -> None:
    family = Family(mark)
    assert sorted(process.pid for process in family.look()) == sorted([started.parent.pid, started.child])
    started.end_parent()
    assert [process.pid for process in family.look()] == [started.child]
    assert Family(mark).look() == []  # who has not seen the parent cannot know


def test_a_process_that_has_got_the_id_of_one_that_was_known_is_not_hit(mark: str, started: Started) -> None:
    family = Family(mark)
    family.look()
    started.end_parent()
    for known in family._known:
        known._ident = (known.pid, known.create_time() - 1)  # as if another had had this id, until then
    assert family.look() == []
    cleanup._end(family)
    assert started.lives()


def test_the_process_that_looks_and_its_ancestors_are_not_hit(mark: str) -> None:
    name, _, value = mark.partition("=")
    looking = f"import sys; from fhe_auc.machines.cleanup import Family; print(Family({mark!r}).look())"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {looking!r}], check=True)"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, name: value}, stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert done.stdout.strip() == b"[]"


def test_who_is_somebody_elses_child_is_not_hit(mark: str, started: Started) -> None:
    family = Family(mark)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as ours:
        cleanup._end(family)
        assert ours.poll() is None
        ours.kill()
    assert not started.lives()


class Counting(Family):
    """A family that tells when it has been looked for."""

    def __init__(self, mark: str) -> None:
        super().__init__(mark)
        self.looked = threading.Semaphore(0)

    def look(self) -> list[psutil.Process]:
        found = super().look()
        self.looked.release()
        return found


def test_what_is_started_and_loses_its_parent_while_the_owner_lives_is_known_in_the_end(
    mark: str, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "_BETWEEN", 0.01)
    family = Counting(mark)
    owned, owner = os.pipe()

    def watch(end: IO[str]) -> None:
        with end:
            cleanup._watch(family, end)

    watching = threading.Thread(target=watch, args=[os.fdopen(owned)])
    watching.start()
    family.looked.acquire()
    started.end_parent()
    os.close(owner)
    watching.join()
    cleanup._end(family)
    assert not started.lives()

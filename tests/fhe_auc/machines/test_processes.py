"""However our command ends, what it has started on this machine ends too, and nothing stays on the disk."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fhe_auc.machines import processes
from fhe_auc.machines.processes import QUIET, Processes
from tests.support.platforms import needs_linux
from tests.support.processes import wait_for

STUBBORN = "import signal, time; [signal.signal(each, signal.SIG_IGN) for each in (1, 2, 15)]; time.sleep(600)"
"""A process that hides: it has no environment, a session of its own, and loses its parents; it says who it is."""
HIDING = f"""
import os, subprocess, sys
hidden = [sys.executable, "-c", {STUBBORN!r}]
for _ in range(2):
    if os.fork():
        os._exit(0)
print(subprocess.Popen(hidden, env={{}}, start_new_session=True, stdout=subprocess.DEVNULL).pid)
"""
TELLING = f"""
import subprocess, sys, time
print(subprocess.check_output([sys.executable, "-c", {HIDING!r}], text=True), flush=True)
"""
STARTED = """
import signal, sys, time
from fhe_auc.machines.processes import Processes
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs tests in the background has it ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and so has nohup
made = Processes()
(made.folder / "secret").write_text("share")
made.start("one", [sys.executable, "-c", sys.argv[1]])
print(made.folder, flush=True)
time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def hidden_in(folder: Path) -> int:
    log = folder / "one.log"
    return int(wait_for(lambda: log.exists() and log.read_text().strip()))


@needs_linux("processes that adopt others")
@pytest.mark.parametrize(
    "sent", [signal.SIGKILL, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGHUP, signal.SIGINT))]
)
def test_a_command_that_cannot_clean_up_leaves_nothing_behind(sent: signal.Signals, temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTED, f"{TELLING}time.sleep(600)"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().decode().strip())
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        hidden = hidden_in(folder)
        process.send_signal(sent)
    wait_for(lambda: not folder.exists())
    assert not psutil.pid_exists(hidden)


@needs_linux("processes that adopt others")
def test_what_a_program_that_has_ended_by_itself_leaves_ends_too_and_it_is_named(temporary: Path) -> None:
    with Processes() as made:
        process = made.start("one", [sys.executable, "-c", f"{TELLING}raise SystemExit(3)"])
        hidden = hidden_in(made.folder)
        process.wait()
        assert not psutil.pid_exists(hidden)
        with pytest.raises(processes.EvaluationError, match=r"^one has ended with status 3: one: \d+ / $"):
            made.require_alive()


def test_what_is_started_calls_nobody_home_and_closing_leaves_nothing_and_hits_nobody_else(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in QUIET:
        monkeypatch.delenv(name, raising=False)
    ours = subprocess.Popen(["sleep", "600"])  # noqa: S607
    with Processes() as made:
        told = made.call(["env"]).splitlines()
        made.start("logged", ["env"]).wait()
        told_too = (made.folder / "logged.log").read_text().splitlines()
        sleeping = made.start("sleeping", ["sleep", "600"])
    lives = ours.poll() is None
    ours.kill()
    assert (sleeping.returncode, lives) == (256 - signal.SIGTERM, True)
    for lines in (told, told_too):
        assert {f"{name}={value}" for name, value in QUIET.items()} <= set(lines)
    assert list(temporary.iterdir()) == []


def test_memory_without_room_or_not_writable_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(processes, "_MEMORY", tmp_path / "missing")
    assert processes._in_memory() is None
    monkeypatch.setattr(processes, "_MEMORY", tmp_path)
    monkeypatch.setattr(processes, "_ROOM", shutil.disk_usage(tmp_path).free + 2**50)
    assert processes._in_memory() is None

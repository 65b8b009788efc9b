"""Processes are found by their mark, and by whose children they are; nobody else's are hit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil
import pytest

from fhe_auc.machines import cleanup
from fhe_auc.machines.cleanup import Family

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the processes are of a POSIX shell")

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
        return self.child in cleanup._parents()

    def end(self) -> None:
        if self.lives():
            os.kill(self.child, 9)
        self.parent.kill()
        self.parent.wait()


def ids(family: Family) -> list[int]:
    return [process.pid for process in family.look()]


@pytest.fixture
def started(mark: str) -> Iterator[Started]:
    made = Started(mark)
    yield made
    made.end()


def test_a_child_without_an_environment_is_found_by_its_parent_and_known_when_that_has_ended(
    mark: str, started: Started
) -> None:
    family = Family(mark)
    assert sorted(ids(family)) == sorted([started.parent.pid, started.child])
    started.end_parent()
    assert ids(family) == [started.child]
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


def test_the_program_ends_children_without_an_environment_and_removes_the_folder(
    mark: str, started: Started, tmp_path: Path
) -> None:
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "secret").write_text("share")
    ender = cleanup.clean_up_after_this_process(mark, folder)
    assert started.lives()
    ender.communicate()
    assert ender.returncode == 0
    assert not started.lives()
    assert not folder.exists()

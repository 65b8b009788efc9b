"""Five sites, a server, a helper, from nothing to a result each night: what people type, whoever dies.

Each command is a process of its own, and of a user of its own where the test runs as root. `systemctl` is a script that
notes what it is told; the test then does what systemd would, and starts what the units say that are there.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.base import clock
from fhe_auc.base.files import read_config
from fhe_auc.machines import health, outcomes, serve, service
from fhe_auc.results.evaluation import Evaluation
from fhe_auc_keys.cli import common
from fhe_auc_keys.trust import join_request
from tests.support.exchanges import server_of
from tests.support.platforms import needs_unix_files
from tests.support.processes import wait_for
from tests.support.served import auc_of
from tests.support.studies import study_text
from tests.support.users import give, is_root, start

pytestmark = [needs_unix_files, pytest.mark.timeout(1800)]

SITES = ("north", "south", "east", "west", "centre")
MAKER, SERVER, HELPER = SITES[0], "adder", "registry"
AWAY = SITES[3]
ROLES = (MAKER, SERVER, HELPER, *SITES[1:])
COMMANDS, COMPARISONS = 14, 6
FIRST_USER, GROUP = 64_300, 64_400  # nobody's on any machine
PATIENCE = 240.0  # seconds; only a broken test waits for them
NEEDED = (
    "fhe_auc_keys.cli",
    "fhe_auc_keys.cli.studies",
    "tuf.api.metadata",
    "tuf.api.serialization.json",
    "securesystemslib.signer",
    "_strptime",
    "cryptography.hazmat.backends.openssl.backend",
    "fhe_auc.cli.serve",
    "pyarrow.csv",
    "encodings.utf_16_be",
    "encodings.utf_8_sig",
)
ASKED = {"helper": HELPER, "every": "day", "min_parties": 4, "most_away": 1}
SYSTEMCTL = """#!/bin/sh
case "$*" in
*is-system-running) echo running ;;
show-user*) echo Linger=no ;;
*) echo "$HOME $*" >>"{calls}" ;;
esac
"""
LATER = multiprocessing.Value("d", 0.0)
"""Seconds by which all clocks are ahead, in all processes."""


def now(*_: object) -> datetime:
    return datetime.now(timezone.utc) + timedelta(seconds=LATER.value)


class Consortium:
    """Everybody's homes, and their exchange; it lists what people type, and counts the strings that they compare."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.exchange = folder, random.Random(25), "exchange"
        self.users = {name: FIRST_USER + number for number, name in enumerate(ROLES)}
        self.typed: list[str] = []
        self.compared = set[str]()
        self.nights: list[str] = []  # sessions
        self.serving: dict[str, subprocess.Popen[str]] = {}
        folder.chmod(0o711)
        for name, user in self.users.items():
            (folder / name).mkdir(mode=0o700)
            self._own(folder / name, user, user)
        (folder / "exchange").mkdir()
        self._own(folder / "exchange", 0, GROUP)
        (folder / "exchange").chmod(0o2770)
        self.calls, bin_ = folder / "calls", folder / "bin"
        self.calls.touch()
        self.calls.chmod(0o666)
        bin_.mkdir(mode=0o755)
        for program in ("systemctl", "loginctl"):
            (bin_ / program).write_text(SYSTEMCTL.format(calls=self.calls))
            (bin_ / program).chmod(0o755)

    def take(self, url: str, credentials: Path) -> None:
        """Exchange files there, with the credentials in that folder, which each gets in his home."""
        self.exchange = url
        for name, user in self.users.items():
            shutil.copytree(credentials, self.folder / name, dirs_exist_ok=True)
            self._own(self.folder / name, user, user)

    def write(self, name: str, text: str) -> None:
        """Write a file into somebody's home, whose first part its name is."""
        owner = name.split("/")[0]
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o600)
        self._own(self.folder / name, self.users[owner], self.users[owner])

    def _own(self, path: Path, user: int, group: int) -> None:
        if is_root:
            give(path, user, group)

    def _start(self, name: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        os.environ["HOME"] = str(self.folder / name)
        return start(self.users[name], (self.users[name], GROUP), *arguments, **{"cwd": self.folder, **options})

    def run(self, name: str, *arguments: str, typed: str = "") -> str:
        """Have somebody type a command, and answer what it asks."""
        process = self._start(name, *arguments, stdin=subprocess.PIPE)
        told = process.communicate(typed, timeout=PATIENCE)[0]
        assert process.returncode == 0, told
        self.typed.append(f"{name}: fhe-auc {' '.join(arguments)}")
        self.compared |= set(re.findall(r"\b(?:[a-z2-7]{4} ){3}[a-z2-7]{4}\b", told))
        if f"{self.folder / name} --user restart " in self.calls.read_text() and name not in self.serving:
            self.boot(name)
        return told

    def boot(self, *names: str) -> None:
        """Start somebody's unit, as systemd does where it is enabled, and goes on without a login."""
        for name in names:
            home, unit = self.folder / name, f"fhe-auc-{name}.service"
            calls = self.calls.read_text()
            assert f"{home} --user enable {unit} " in calls
            assert f"{home} enable-linger {self.users[name] if is_root else os.getuid()}\n" in calls
            lines = (home / ".config" / "systemd" / "user" / unit).read_text().splitlines()
            entries = dict(line.split("=", 1) for line in lines if "=" in line)
            program, *arguments = shlex.split(entries["ExecStart"])
            assert Path(program).name == "fhe-auc"
            with (self.folder / f"{name}.log").open("a") as log:
                where = entries["WorkingDirectory"]
                self.serving[name] = self._start(name, *arguments, cwd=where, stdout=log, stderr=log)

    def kill(self, *names: str) -> None:
        for name in names:
            process = self.serving.pop(name)
            process.kill()
            process.wait(PATIENCE)

    def results(self, name: str) -> list[Path]:
        return sorted((self.folder / name / "results").glob("*.json"))

    @property
    def session(self) -> str:
        """The newest night's."""
        told, _ = health.read_role(read_config(self.folder / MAKER / "config.toml", None))
        made = {str(each["session"]) for each in told.get("sessions", ())}
        self.nights += sorted(made.difference(self.nights))
        return self.nights[-1] if self.nights else ""

    def status(self, name: str) -> tuple[str, str]:
        """How somebody's process stands in the last session, and what is wrong."""
        told, wrong = health.read_role(read_config(self.folder / name / "config.toml", None))
        steps = [each["step"] for each in told.get("sessions", ()) if each["session"] == self.session]
        return (steps or [""])[0], wrong

    def wait(self, condition: Callable[[], bool]) -> None:
        wait_for(condition, PATIENCE, told=lambda: [file.read_text()[-2000:] for file in self.folder.glob("*.log")])


@pytest.fixture
def consortium(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consortium]:
    """With an exchange of the kind that is the parameter, or a folder."""
    folder = Path(tempfile.mkdtemp())
    for name in NEEDED:
        import_module(name)
    (folder / "any.toml").touch()
    service.texts("any", folder / "any.toml", "any", "")  # which imports what it needs
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(serve, "_LOOK", (0.4, 1.0))  # in their processes too
    monkeypatch.setattr(serve, "_RENEWAL", 0.5)
    monkeypatch.setattr(join_request, "_COST", 2**10)  # of a comparison, which people wait for
    monkeypatch.setattr(clock.Clock, "now", now)
    if library := sys.modules.get("fhe_auc.rlwe.openfhe_library"):
        monkeypatch.setattr(library, "_first_used_in", None)  # their processes are forks, which have not used it yet
    monkeypatch.setattr(common, "now", now)
    LATER.value = 0.0
    made, kind = Consortium(folder), getattr(request, "param", "folder")
    with ExitStack() as ends:
        ends.callback(shutil.rmtree, folder)
        if kind != "folder":
            (folder / "server").mkdir(mode=0o700)
            made.take(*ends.enter_context(server_of(kind, folder / "server")))
        ends.callback(lambda: made.kill(*made.serving))
        yield made


def set_up(they: Consortium, **study: Any) -> None:
    """All that people do, once."""
    told = they.run(MAKER, "members", "new", they.exchange, MAKER, "--data", f"{MAKER}/rows.csv")
    (link,) = re.findall(r"\S+#[a-z2-7]{32}", told.replace("\n", ""))
    for name in ROLES[1:]:
        role = {SERVER: "aggregator", HELPER: "helper"}.get(name, "site")
        how = ("--data", f"{name}/rows.csv") if role == "site" else ("--role", role)
        they.run(name, "join", link, name, *how, typed="y\n")
    they.run(MAKER, "members", "admit", f"{MAKER}/config.toml", typed="y\n" * len(ROLES[1:]))
    they.write(f"{MAKER}/study.toml", study_text(SITES, SERVER, **ASKED | study))
    they.run(MAKER, "session", "make", f"{MAKER}/study.toml", f"{MAKER}/config.toml")
    for name in (*SITES[1:], HELPER):
        they.wait(lambda name=name: "it waits for a person" in they.status(name)[0])
        they.run(name, "pending", f"{name}/config.toml", typed="y\n")
    print("\n".join(they.typed))
    assert (len(they.typed), len(they.compared)) == (COMMANDS, COMPARISONS)


def new_rows(they: Consortium) -> None:
    for name in SITES:
        rows = [(they.rows.random() < 0.4, (they.rows.randrange(15) + 0.5) / 15) for _ in range(40)]
        lines = "".join(f"{label:d},{score}\n" for label, score in rows)
        they.write(f"{name}/rows.csv", f"y_true,y_score\n{lines}")


def next_night(they: Consortium) -> None:
    """Nobody types anything."""
    before = they.session
    LATER.value += 86_400
    they.wait(lambda: they.session != before)


def check_night(they: Consortium, number: int, *counted: str) -> None:
    """Each of these sites gets one result, of the rows of all of them together."""
    they.wait(lambda: all(len(they.results(name)) >= number for name in counted))
    expected = auc_of(*(f"{name}/rows" for name in counted))
    for name in counted:
        newest = they.results(name)[-1]
        found = outcomes.read(newest)
        assert isinstance(found, Evaluation)
        assert found.verified
        assert found.auc == pytest.approx(expected, abs=1e-12)
        assert len(they.results(name)) == number
        assert they.session in newest.name
    away = "".join(f"; not counted: {name}" for name in SITES if name not in counted)
    they.wait(lambda: they.status(SERVER)[0] == f"ended: all have their results{away}")
    assert ("not counted" in they.status(SERVER)[1]) is (len(counted) < len(SITES))
    they.wait(lambda: all(they.status(name) == ("result delivered", "") for name in counted))


def kill_some(they: Consortium, moments: random.Random, number: int) -> None:
    """Kill one after the other, and start each again."""
    for _ in range(number):
        time.sleep(moments.uniform(0.0, 1.0))
        name = moments.choice(sorted(they.serving))
        they.kill(name)
        they.boot(name)


@pytest.mark.parametrize(
    ("consortium", "together", "without", "kills"),
    [
        ("folder", 0, 1, 1),
        *(pytest.param("folder", 1, 1, kills, marks=pytest.mark.slow) for kills in (11, 12, 13)),
        *(pytest.param(kind, 1, 1, 4, marks=pytest.mark.slow) for kind in ("s3", "sftp", "webdav")),
        pytest.param("folder", 0, 10, 10, marks=pytest.mark.slow),
    ],
    indirect=["consortium"],
)
def test_five_sites_need_14_commands_and_6_comparisons_and_then_nothing_whoever_is_killed_or_away(
    consortium: Consortium, together: int, without: int, kills: int
) -> None:
    """After the first night so many are of all, then so many without a site, all with new rows and kills."""
    they, moments, counted = consortium, random.Random(kills), SITES
    new_rows(they)
    set_up(they)
    check_night(they, 1, *SITES)
    for number in range(together + without):
        if number == together:
            they.kill(AWAY)
            counted = tuple(name for name in SITES if name != AWAY)
            config = (they.folder / SERVER / "config.toml").read_text()
            they.write(f"{SERVER}/config.toml", f"{config}close-at = {len(counted)}\n")
        new_rows(they)
        next_night(they)
        kill_some(they, moments, kills)
        check_night(they, 2 + number, *counted)
    they.boot(AWAY)
    they.wait(lambda: "has begun, and 'west' was not there" in they.status(AWAY)[0])
    they.wait(lambda: they.status(AWAY)[1] == "")
    assert len(they.results(AWAY)) == 1 + together
    assert len(they.typed) == COMMANDS

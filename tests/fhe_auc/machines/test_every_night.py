"""Five sites, a server, a helper, from nothing to a result: what people type for that, and whoever dies meanwhile.

Each command is a process of its own, and of a user of its own where the test runs as root.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.base.files import read_config
from fhe_auc.machines import outcomes, serve
from fhe_auc.results.evaluation import Evaluation
from tests.support.platforms import needs_unix_files
from tests.support.processes import wait_for
from tests.support.served import auc_of
from tests.support.users import give, is_root, start

pytestmark = needs_unix_files

SITES = ("north", "south", "east", "west", "centre")
HOLDER, SERVER, HELPER = SITES[0], "coordinator", "registry"
MOST_COMMANDS, MOST_COMPARISONS = 14, 6
FIRST_USER, GROUP = 64_300, 64_400  # nobody's on any machine
PATIENCE = 240.0  # seconds; only a broken test waits for them
NEEDED = (
    "fhe_auc_keys.cli",
    "fhe_auc_keys.cli.members",
    "fhe_auc_keys.cli.studies",
    "fhe_auc.cli.serve",
    "fhe_auc.machines.serve",
    "tuf.api.metadata",
    "tuf.api.serialization.json",
    "securesystemslib.signer",
    "cryptography.hazmat.primitives.kdf.scrypt",
    "cryptography.hazmat.backends.openssl.backend",
    "rich.console",
    "sqlite3",
    "tomllib",
    "_strptime",
    "pyarrow.csv",
    "rich.cells",
    "rich.table",
    "encodings.utf_16_be",
    "encodings.utf_8_sig",
)
STUDY = f"""
model = "sepsis-net 2.1"
outcome = "sepsis within 48 hours"
cohort = "adults"
period = "2026"
sites = {json.dumps(SITES)}
maker = "{HOLDER}"
aggregator = "{SERVER}"
helper = "{HELPER}"
every = "day"
min-parties = 4
most-away = 1
min-rows = 2
thresholds = "uniform:16"
"""


class Consortium:
    """Everybody's homes, and `exchange`; it counts what people have to do."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows = folder, random.Random(25)
        self.users = {name: FIRST_USER + number for number, name in enumerate((SERVER, HELPER, *SITES))}
        self.commands = self.comparisons = 0
        self.session = ""
        self.serving: dict[str, subprocess.Popen[str]] = {}
        folder.chmod(0o711)
        for name, user in self.users.items():
            (folder / name).mkdir(mode=0o700)
            self._own(folder / name, user, user)
        (folder / "exchange").mkdir()
        self._own(folder / "exchange", 0, GROUP)
        (folder / "exchange").chmod(0o2770)

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
        return start(self.users[name], (self.users[name], GROUP), *arguments, cwd=self.folder, **options)

    def run(self, name: str, *arguments: str, typed: str = "") -> str:
        """Have somebody give a command, and answer what it asks."""
        process = self._start(name, *arguments, stdin=subprocess.PIPE)
        told = process.communicate(typed, timeout=PATIENCE)[0]
        assert process.returncode == 0, told
        self.commands += 1
        self.comparisons += told.count("by telephone?") if arguments[:2] == ("members", "admit") else 0
        return told

    def serve(self, *names: str) -> None:
        """Start what stays; this is not counted."""
        for name in names:
            with (self.folder / f"{name}.log").open("a") as log:
                self.serving[name] = self._start(name, "serve", f"{name}/config.toml", stdout=log, stderr=log)

    def kill(self, *names: str) -> None:
        for name in names:
            process = self.serving.pop(name)
            process.kill()
            process.wait(PATIENCE)

    def results(self, name: str) -> list[Path]:
        return sorted((self.folder / name / "results").glob("*.json"))

    def status(self, name: str) -> tuple[str, str]:
        """How somebody's process stands in the last session, and what is wrong."""
        told, wrong = serve.read(read_config(self.folder / name / "config.toml", None))
        steps = [each["step"] for each in told.get("sessions", ()) if each["session"] == self.session]
        return (steps or [""])[0], wrong

    def wait(self, condition: Callable[[], bool]) -> None:
        wait_for(condition, PATIENCE, told=lambda: [file.read_text()[-2000:] for file in self.folder.glob("*.log")])


@pytest.fixture
def consortium(monkeypatch: pytest.MonkeyPatch) -> Iterator[Consortium]:
    for name in NEEDED:
        import_module(name)
    folder = Path(tempfile.mkdtemp())
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(serve, "_LOOK", (0.2, 0.5))  # in their processes too
    made = Consortium(folder)
    yield made
    made.kill(*made.serving)
    shutil.rmtree(folder)


def set_up(they: Consortium) -> None:
    """All that people do once; `join` starts no process here, as there is no systemd."""
    for name in SITES:
        rows = [(they.rows.random() < 0.4, (they.rows.randrange(15) + 0.5) / 15) for _ in range(40)]
        they.write(f"{name}/rows.csv", "y_true,y_score\n" + "".join(f"{label:d},{score}\n" for label, score in rows))
    they.write(f"{HOLDER}/study.toml", STUDY)
    founded = they.run(HOLDER, "members", "new", "exchange", HOLDER, *rows_of(HOLDER), "--no-start", "--json")
    link = json.loads(founded[founded.index("{") :])["link"]
    others = {
        SERVER: ("--role", "aggregator"),
        HELPER: ("--role", "helper"),
        **{name: rows_of(name) for name in SITES[1:]},
    }
    for name, about in others.items():
        they.run(name, "join", link, name, *about, "--no-start", typed="y\n")
    they.run(HOLDER, "members", "admit", f"{HOLDER}/config.toml", typed="y\n" * len(others))
    they.serve(SERVER, HELPER, *SITES)
    they.run(HOLDER, "session", "make", f"{HOLDER}/study.toml", f"{HOLDER}/config.toml")
    (place,) = (they.folder / "exchange" / HOLDER).iterdir()
    they.session = place.name
    for name in (HELPER, *SITES[1:]):
        they.wait(lambda name=name: "waits" in they.status(name)[0] or "person" in they.status(name)[0])  # type: ignore[misc]
        they.run(name, "pending", f"{name}/config.toml", typed="y\n")


def rows_of(name: str) -> tuple[str, str]:
    return "--data", f"{name}/rows.csv"


def kill_some(they: Consortium, moments: random.Random, number: int) -> None:
    """Kill one after the other, and start each again."""
    for _ in range(number):
        time.sleep(moments.uniform(0.0, 1.0))
        name = moments.choice(sorted(they.serving))
        they.kill(name)
        they.serve(name)


@pytest.mark.parametrize(
    ("seed", "kills"), [(1, 4), *(pytest.param(seed, 12, marks=pytest.mark.slow) for seed in (2, 3, 4))]
)
def test_five_sites_need_14_commands_and_6_comparisons_and_whoever_is_killed_all_get_the_result(
    consortium: Consortium, seed: int, kills: int
) -> None:
    they = consortium
    set_up(they)
    assert they.commands <= MOST_COMMANDS
    assert they.comparisons == MOST_COMPARISONS
    kill_some(they, random.Random(seed), kills)
    they.wait(lambda: all(they.results(name) for name in SITES))
    expected = auc_of(*(f"{name}/rows" for name in SITES))
    for name in SITES:
        (file,) = they.results(name)
        found = outcomes.read(file)
        assert isinstance(found, Evaluation)
        assert found.verified
        assert found.auc == pytest.approx(expected, abs=1e-12)
    they.wait(lambda: they.status(SERVER) == ("ended: all have their results", ""))
    they.wait(lambda: all(they.status(name) == ("result delivered", "") for name in SITES))

"""Five sites, a server, a helper, an authority, from nothing to a result each night: what it takes, whoever dies.

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
from tests.support.machines import toml
from tests.support.platforms import needs_unix_files
from tests.support.processes import wait_for
from tests.support.served import auc_of, config_of
from tests.support.users import give, is_root, start

pytestmark = needs_unix_files

SITES = ("north", "south", "east", "west", "centre")
HOLDER, SERVER, HELPER, AUTHORITY = SITES[0], "coordinator", "registry", "authority"
AWAY = SITES[3]
POST = ("--out", "post")
MOST_COMMANDS, MOST_COMPARISONS = 17, 14
FIRST_USER, GROUP = 64_300, 64_400  # nobody's on any machine
PATIENCE = 240.0  # seconds; only a broken test waits for them
NEEDED = (
    "fhe_auc_keys.cli",
    "fhe_auc.cli.serve",
    "pyarrow.csv",
    "rich.cells",
    "rich.table",
    "encodings.utf_16_be",
    "encodings.utf_8_sig",
)
STUDY = """
model = "sepsis-net 2.1"
outcome = "sepsis within 48 hours"
cohort = "adults"
period = "2026"
most-away = 1
"""
OFFER = f"""
exchange = "/srv/exchange"
[study]{STUDY}
[policy]
holder = "{HOLDER}"
protocols = ["verified"]
keys = ["helper"]
helpers = ["{HELPER}"]
model = "sepsis-net 2.1"
outcome = "sepsis within 48 hours"
min-parties = 4
most-away = 1
max-thresholds = 16
[policy.options]
interval = 0.95
"""


class Consortium:
    """Everybody's homes, `post` for e-mail, and `exchange`; it counts what people have to do."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows = folder, random.Random(25)
        self.users = {name: FIRST_USER + number for number, name in enumerate((AUTHORITY, SERVER, HELPER, *SITES))}
        self.commands = self.comparisons = 0
        self.session = ""
        self.serving: dict[str, subprocess.Popen[str]] = {}
        folder.chmod(0o711)
        for name, user in self.users.items():
            (folder / name).mkdir(mode=0o700)
            self._own(folder / name, user, user)
        for name in ("post", "exchange"):
            (folder / name).mkdir()
            self._own(folder / name, 0, GROUP)
            (folder / name).chmod(0o2770)

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
        process = self._start(name, "keys", *arguments, stdin=subprocess.PIPE)
        told = process.communicate(typed, timeout=PATIENCE)[0]
        assert process.returncode == 0, told
        self.commands += 1
        self.comparisons += told.count("Does ")
        return told

    def publish(self, made: str) -> None:
        """Put a session into the place of who has made it."""
        place = self.folder / "exchange" / HOLDER / self.session
        place.mkdir(parents=True)
        for file in sorted((self.folder / HOLDER / made).iterdir()):
            shutil.copy(file, place / ("session" if file.stem == "session" else file.name))
        if is_root:
            give(place.parent, self.users[HOLDER], GROUP)
        place.parent.chmod(0o2750)

    def serve(self, *names: str) -> None:
        """Start what stays; this is not counted."""
        for name in names:
            with (self.folder / f"{name}.log").open("a") as log:
                self.serving[name] = self._start(name, "serve", f"{name}/serve.toml", stdout=log, stderr=log)

    def kill(self, *names: str) -> None:
        for name in names:
            process = self.serving.pop(name)
            process.kill()
            process.wait(PATIENCE)

    def results(self, name: str) -> list[Path]:
        return sorted((self.folder / name / "results").glob("*.json"))

    def status(self, name: str) -> tuple[str, str]:
        """How somebody's process stands in the last session, and what is wrong."""
        told, wrong = serve.read(read_config(self.folder / name / "serve.toml", None))
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
    """All that people do once: seven take part, and a site makes the first session, in the folder of all."""
    secret = {name: ("--store", f"{name}/store", "--random-passphrase", f"{name}/secret") for name in they.users}
    known = {name: ("--store", f"{name}/store", "--passphrase-file", f"{name}/secret") for name in they.users}
    they.write(f"{AUTHORITY}/offer.toml", OFFER)
    they.write(f"{AUTHORITY}/secret", "a person's passphrase")
    they.run(AUTHORITY, "ca-init", "Sepsis", *known[AUTHORITY], "--invitation", f"{AUTHORITY}/offer.toml", *POST)
    for name in (SERVER, HELPER, *SITES):
        asked = ("y\n", "--no-policy") if name == SERVER else ("y\ny\n",)
        they.run(name, "join", "post/ca.invitation", name, *secret[name], *POST, *asked[1:], typed=asked[0])
    requests = [f"post/{name}.csr" for name in (SERVER, HELPER, *SITES)]
    they.run(AUTHORITY, "issue", *requests, *known[AUTHORITY], *POST, typed="y\n" * len(requests))
    for name in (SERVER, HELPER, *SITES):
        they.run(name, "join", "post/ca.invitation", "--certificate", f"post/{name}.pem", *known[name], *POST)
    they.write(f"{HOLDER}/study.toml", STUDY)
    shown = [f"post/{name}.credential" for name in SITES]
    about = ("--aggregator", f"post/{SERVER}.credential", "--study", f"{HOLDER}/study.toml")
    helped = ("--keys", "helper", "--helper", f"post/{HELPER}.credential", "--min-parties", "4")
    how = ("--thresholds", "uniform:16", "--out", f"{HOLDER}/night-1", "--json")
    they.session = session_in(they.run(HOLDER, "session", *shown, *known[HOLDER], *about, *helped, *how))
    they.publish("night-1")


def configure(they: Consortium, **more: Any) -> None:
    """Write what each role's process reads, with new rows at the sites: those of the first or of another night."""
    for name in (SERVER, HELPER, *SITES):
        own = {"exchange": "exchange", "passphrase-file": f"{name}/secret"}
        if name == SERVER:
            config = config_of(name, "aggregator", holder=HOLDER, **own, **more)
        elif name == HELPER:
            config = config_of(name, "helper", **own)
        else:
            config = config_of(name, "site", data=f"{name}/rows.csv", **own)
            rows = [(they.rows.random() < 0.4, (they.rows.randrange(15) + 0.5) / 15) for _ in range(40)]
            lines = "".join(f"{label:d},{score}\n" for label, score in rows)
            they.write(f"{name}/rows.csv", f"y_true,y_score\n{lines}")
        they.write(f"{name}/serve.toml", toml(config))


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


def session_in(told: str) -> str:
    return str(json.loads(told[told.index("{") :])["session"])


def repeat(they: Consortium) -> None:
    known = "--store", f"{HOLDER}/store", "--passphrase-file", f"{HOLDER}/secret"
    they.commands = 0
    told = they.run(HOLDER, "session", "--repeat", they.session, *known, "--out", HOLDER, "--json")
    they.session = session_in(told)
    they.publish(f"session-{they.session[:8]}")
    assert they.commands == 1


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
def test_five_sites_need_17_commands_and_14_comparisons_and_then_one_command_a_night_whoever_is_killed_or_away(
    consortium: Consortium, seed: int, kills: int
) -> None:
    """In the second night all get new rows; in the third a site is away."""
    they, moments = consortium, random.Random(seed)
    set_up(they)
    assert (they.commands, they.comparisons) == (MOST_COMMANDS, MOST_COMPARISONS)
    configure(they)
    they.serve(SERVER, HELPER, *SITES)
    check_night(they, 1, *SITES)
    configure(they)
    repeat(they)
    kill_some(they, moments, kills)
    check_night(they, 2, *SITES)
    they.kill(SERVER, AWAY)
    configure(they, **{"close-at": 4})
    they.serve(SERVER)
    repeat(they)
    kill_some(they, moments, kills)
    check_night(they, 3, *(name for name in SITES if name != AWAY))
    they.serve(AWAY)
    they.wait(lambda: "has begun, and 'west' was not there" in they.status(AWAY)[0])
    they.wait(lambda: they.status(AWAY)[1] == "")
    assert len(they.results(AWAY)) == 2

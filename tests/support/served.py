"""Roles of a consortium that serve (`fhe-auc serve`), in processes of their own or in that of a test."""

from __future__ import annotations

import atexit
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec
import pyarrow.csv  # noqa: F401 - or each process that answers a round would import it
import pytest

from fhe_auc.base.files import read_config
from fhe_auc.machines import health, outcomes, serve
from fhe_auc.results.evaluation import Evaluation
from fhe_auc_keys.site.policy import agree
from fhe_auc_keys.store.key_store import KeyStore
from tests.support.certified import STUDY, Consortium, write_session
from tests.support.keys_folder import ADDER
from tests.support.machines import toml
from tests.support.processes import wait_for

SITES, HOLDER, HELPER = ("north", "south", "west"), "north", "registry"
PATIENCE = 600.0  # seconds; only a broken test waits for them
# Bytes, of a role that waits, over a folder: 70 to 72 MB on Python 3.14.8, whatever numpy's version.
MOST_MEMORY = 75e6 if sys.version_info >= (3, 14) else 65e6
HEAVY = ("flwr", "pandas", "pyarrow", "scipy", "sklearn", "_sealapi_cpp", "openfhe")
PROGRAM = f"""
import atexit, sys
from fhe_auc.cli import main
atexit.register(lambda: print("heavy:", {{*{HEAVY}}} & {{*sys.modules}} or "nothing", file=sys.stderr))
main()
"""
Started = dict[str, "subprocess.Popen[Any]"]
_HERE: list[serve.Server] = []
PASSPHRASE = "correct horse battery staple"  # noqa: S105
# Pads are quicker than encryption, which is for the tests that rest on it.
ASKED = msgspec.structs.replace(
    STUDY,
    **{"sites": SITES, "maker": HOLDER, "aggregator": ADDER, "most_away": 1},
    **{"thresholds": "uniform:16", "protocol": "histogram-federated"},
)


def at(name: str) -> tuple[str, str]:
    return "--store", f"{name}/store"


@cache
def _template() -> Path:
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder)
    return make_roles(folder)


def copy_roles(folder: Path) -> Path:
    """Members with rows and configurations, as `make_roles` makes them: once."""
    return Path(shutil.copytree(_template(), folder, dirs_exist_ok=True))


def make_roles(folder: Path, *others: str) -> Path:
    """Members with rows and configurations, whose paths are relative; no session yet, and no study agreed to."""
    known = Consortium(*SITES, HELPER, ADDER, *others, at=datetime.now(timezone.utc))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("exchange").mkdir()
        Path("passphrase").write_text(PASSPHRASE)
        Path("passphrase").chmod(0o600)
        for number, name in enumerate((*SITES, HELPER, ADDER)):
            Path(name).mkdir()
            with KeyStore.create(Path(name, "store"), PASSPHRASE) as store:
                known.settle(store, name)
            config = {"role": {HELPER: "helper", ADDER: "aggregator"}.get(name, "site"), "exchange": "exchange"}
            config |= {"state": f"{name}/state", "store": f"{name}/store", "passphrase-file": "passphrase"}
            if name in SITES:
                rows = "".join(f"{row % 2},{(row * 7 + number) % 16 / 16}\n" for row in range(20 + number))
                Path(f"{name}.csv").write_text("y_true,y_score\n" + rows)
                config |= {"data": f"{name}.csv", "results": f"{name}/results"}
            Path(f"{name}.toml").write_text(toml(config))
    return folder


def start(processes: Started, name: str) -> None:
    """Afresh, to see what it loads."""
    with Path(f"{name}.log").open("ab") as log:
        processes[name] = subprocess.Popen([sys.executable, "-c", PROGRAM, "serve", f"{name}.toml"], stderr=log)


def kill(processes: Started, name: str, number: int = signal.SIGKILL) -> int:
    processes[name].send_signal(number)
    return processes[name].wait(PATIENCE)


@contextmanager
def serving(*names: str, apart: bool = False) -> Iterator[None]:
    """Have roles serve in this process, whenever it waits (`until`): that is quicker than to start one for each.

    So is all that they do: to fork a process of many tests takes longer than most that a role does in one `apart`.
    """
    with ExitStack() as servers:
        files = [Path(f"{name}.toml") for name in names]
        own = [servers.enter_context(serve.Server(read_config(file, None), apart=apart)) for file in files]
        _HERE.extend(own)
        try:
            yield
        finally:
            _HERE[:] = [each for each in _HERE if each not in own]


def look() -> None:
    for each in _HERE:
        each.look()


def until(condition: Callable[[], bool]) -> None:
    """Wait, while the roles in this process look."""
    told = lambda: [status(each.config["store"].split("/")[0]) for each in _HERE]  # noqa: E731
    wait_for(condition, PATIENCE, meanwhile=look, told=told, pause=0.02)


def make_session(night: str = "night-1", *, publish: bool = True, **changes: Any) -> str:
    """Make the session of a study of this night, to which all have agreed; return its id.

    Its files are in a folder of the night's name, and then arrive in the place of their maker.
    """
    study = msgspec.structs.replace(ASKED, period=night, **changes)
    with KeyStore(Path(HOLDER, "store"), PASSPHRASE) as store:
        session = write_session(Path(night), store, study, at=datetime.now(timezone.utc))
    for name in (*SITES, HELPER):
        with KeyStore(Path(name, "store"), PASSPHRASE) as store:
            agree(store, study)
    Path(f"{night}.id").write_text(session)
    if publish:
        put(night)
    return session


def place(who: str, night: str = "night-1") -> Path:
    """Where somebody writes in a session."""
    return Path("exchange", who, Path(f"{night}.id").read_text())


def put(night: str = "night-1") -> None:
    """Have a session's files arrive."""
    shutil.copytree(night, place(HOLDER, night))


def convene(night: str = "night-1", **changes: Any) -> str:
    """Make a session with a helper, in which a site may be away."""
    return make_session(night, helper=HELPER, min_parties=2, **changes)


def change(name: str, **entries: Any) -> None:
    changed = {key.replace("_", "-"): value for key, value in entries.items()}
    Path(f"{name}.toml").write_text(toml(read_config(Path(f"{name}.toml"), None) | changed))


def status(name: str) -> dict[str, Any]:
    told, wrong = health.read_role(read_config(Path(f"{name}.toml"), None))
    return {**told, "wrong": wrong}


def step(name: str, night: str = "night-1") -> str:
    session = Path(f"{night}.id").read_text()
    return next((each["step"] for each in status(name).get("sessions", ()) if each["session"] == session), "")


def results(name: str) -> list[Path]:
    """A site's results, the first that was written first: several may be of one second, which names tell."""
    return sorted(Path(name, "results").glob("*.json"), key=lambda file: file.stat().st_mtime_ns)


def delivered(*names: str, number: int = 1) -> bool:
    return all(len(results(name)) >= number for name in names)


def auc_of(*names: str) -> float:
    """What all of these sites' rows give, by pairs of rows."""
    rows = [line.split(",") for name in names for line in Path(f"{name}.csv").read_text().splitlines()[1:]]
    high, low = ([float(score) for label, score in rows if label == wanted] for wanted in "10")
    return sum((a > b) + (a == b) / 2 for a in high for b in low) / (len(high) * len(low))


def check_results(*names: str, counted: tuple[str, ...] = SITES) -> None:
    for name in names:
        for file in results(name):
            found = outcomes.read(file)
            assert isinstance(found, Evaluation)
            assert found.auc == pytest.approx(auc_of(*counted), abs=0.02)


def exists(pattern: str) -> Any:
    return lambda: any(Path().glob(pattern))

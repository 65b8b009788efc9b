"""What sites really run: a session of three by files, each role's commands as processes, with key stores.

`OurProtocol` times the protocol alone. Here every command starts Python, opens a key store.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fhe_auc.base.errors import EvaluationError
from fhe_auc_benchmarks.runtime.contender import Clock, Played, rounding
from fhe_auc_benchmarks.runtime.measure import Measurement, checked, summary
from fhe_auc_benchmarks.runtime.problem import BenchmarkProblem

BY_FILES = "by files"  # what the names of these measurements end with
SITES = ("north", "south", "west")
_AGGREGATOR, _HELPER = "coordinator", "registry"
_STUDY = 'model = "made up"\noutcome = "made up"\ncohort = "made up"\nperiod = "none"\n'
_LIMIT = 600.0  # seconds a round may take


def play(protocol: str, keys: str, problem: BenchmarkProblem) -> Measurement:
    """Play a session of three sites; of "party" and bytes, the first one's.

    "keys" is all that comes before: who is a member, making the session, opening it.

    Raises `EvaluationError` where a command fails, or the AUC is not that of exact integers.
    """
    with TemporaryDirectory() as folder:
        return _Session(Path(folder), protocol, keys, problem).play()


class _Session:
    """The roles' commands, in one folder."""

    def __init__(self, folder: Path, protocol: str, keys: str, problem: BenchmarkProblem) -> None:
        self._folder, self._protocol, self._keys, self._problem = folder, protocol, keys, problem
        self._clock = Clock()
        variables = {name: value for name, value in os.environ.items() if not name.startswith("FHE_AUC_")}
        self._variables = {**variables, "FHE_AUC_PASSPHRASE": "made up for a benchmark", "OMP_NUM_THREADS": "1"}

    def play(self) -> Measurement:
        files = self._prepare()
        started, before = time.perf_counter(), _children()
        with self._started("session", "aggregate", "exchange", f"{_AGGREGATOR}.toml") as aggregator:
            try:
                seen: set[Path] = set()
                while aggregator.poll() is None:
                    for message in set((self._folder / "exchange").rglob("round-*.message")) - seen:
                        seen.add(message)
                        self._answer(message.parent)
                    time.sleep(0.05)
            finally:
                aggregator.kill()  # where a site's command has failed, it would wait for that site
            _, error = aggregator.communicate()
        inside = sum(self._clock.cpu[role] for role in ("party", "others", "helper"))
        self._clock.cpu["aggregator"] = _children() - before - inside
        self._clock.wall["aggregator"] = time.perf_counter() - started
        if aggregator.returncode:
            raise EvaluationError(f"{BY_FILES}: the session failed: {error.strip()[-500:]}")
        (result,) = (self._folder / "results").glob("*.json")
        found = json.loads(result.read_text(encoding="utf-8"))["evaluation"]
        exchange = self._folder / "exchange"
        upload, download = exchange.glob(f"round-*/{SITES[0]}.submission"), exchange.glob("*.message")
        sent_before = (self._folder / each for each in files)
        played = Played(found["auc"], *self._clock.read(), *map(_sizes, (upload, download, sent_before)))
        name = f"{self._protocol}, {self._keys} keys, {BY_FILES}"
        told = checked(name, played, self._problem.auc, rounding(found["decimals"]) + 1e-9)
        return summary(self._problem, name, [told])

    def _prepare(self) -> list[str]:
        """Let all in, make the session and have all open it; return the files that the first site was sent."""
        helpers = (_HELPER,) if self._keys == "helper" else ()
        link = self._run("keys", "members", "new", "members", SITES[0], "--no-start")["link"]
        others = (*SITES[1:], _AGGREGATOR, *helpers)
        for name in others:
            self._run("keys", "join", link, name, "--no-start", answers=1)
        self._run("keys", "members", "admit", f"{SITES[0]}/config.toml", answers=len(others))
        (self._folder / "study.toml").write_text(_STUDY, encoding="utf-8")
        options = ["--thresholds", f"uniform:{self._problem.thresholds}", "--protocol", self._protocol]
        options += ["--aggregator", _AGGREGATOR, "--study", "study.toml", "--keys", self._keys]
        options += ["--helper", _HELPER] if helpers else []
        self._run("keys", "keys", "session", *SITES, *options, "--out", "made", *_store(SITES[0]))
        sealed, shared = self._keys == "sealed", f"made/session.{self._keys}"
        for number, name in enumerate((*SITES, *helpers)):
            sent = f"made/{name}.bundle" if name in SITES else shared
            agreed = ("--holder", SITES[0], "--study", "study.toml", *_store(name))
            self._run("keys", "keys", "open", sent, *agreed)
            config = {**_stored(name), "holder": SITES[0]}
            if name in SITES:
                data = self._problem.data(number)
                np.savez(self._folder / f"{name}.npz", y_true=data.y_true, y_score=data.y_score)
                config |= {"data": f"{name}.npz", "results": "results" if number == 0 else f"results of {name}"}
            self._write(name, config)
        session = "made/aggregator.bundle" if sealed else shared
        config = {"session": session, "holder": SITES[0], **_stored(_AGGREGATOR)}
        self._write(_AGGREGATOR, {**config, "round-timeout": _LIMIT})
        return [f"made/{SITES[0]}.bundle"] + [shared] * (not sealed)

    def _answer(self, folder: Path) -> None:
        """Have everybody answer whom this folder's message is for."""
        if folder.name == "helpers":
            self._run("helper", "helper", "answer", str(folder), f"{_HELPER}.toml")
            return
        for name in SITES:
            role = "party" if name == SITES[0] else "others"
            self._run(role, "session", "answer", str(folder), f"{name}.toml")

    def _run(self, role: str, *command: str, answers: int = 0) -> dict[str, Any]:
        """Run a command for a role, with its time, and say yes so many times; return what it prints."""
        started, before = time.perf_counter(), _children()
        with self._started(*command) as process:
            told, error = process.communicate("y\n" * answers)
        self._clock.cpu[role] += _children() - before
        self._clock.wall[role] += time.perf_counter() - started
        if process.returncode:
            raise EvaluationError(f"fhe-auc {' '.join(command[:2])} failed: {error.strip()[-500:]}")
        found: dict[str, Any] = json.loads(told)
        return found

    def _started(self, *command: str) -> subprocess.Popen[str]:
        call = [sys.executable, "-c", "from fhe_auc.cli import main; main()", *command, "--json"]
        return subprocess.Popen(  # noqa: S603 - ourselves
            call,
            cwd=self._folder,
            env=self._variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def _write(self, name: str, config: dict[str, Any]) -> None:
        entries = (f"{entry} = {json.dumps(value)}\n" for entry, value in config.items())
        (self._folder / f"{name}.toml").write_text("".join(entries), encoding="utf-8")


def _stored(name: str) -> dict[str, str]:
    """Return where a role's key store is."""
    return {"store": f"{name}/store", "passphrase-file": f"{name}/passphrase"}


def _store(name: str) -> tuple[str, ...]:
    return tuple(word for entry, value in _stored(name).items() for word in (f"--{entry}", value))


def _children() -> float:
    """Return the CPU seconds of all processes that this one has started, and that have ended."""
    told = os.times()
    return told.children_user + told.children_system


def _sizes(files: Any) -> int:
    return sum(file.stat().st_size for file in files)

"""A deployment of Flower on this machine: a SuperLink, and a SuperNode for each role of a session."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fhe_auc.machines.flower.certificates import node_keys
from fhe_auc.machines.flower.runtime import Runtime
from fhe_auc.rows.party_data import PartyData
from tests.support.machines import MachineSession

SLEEPS = "import sys, time\nif any('flwr-clientapp' in each for each in sys.orig_argv): time.sleep({})"
PATIENCE = 30.0
"""Seconds for a round: what an honest site takes on a busy machine, and more."""

LONG = 300.0
"""Where nobody is to be left out."""


class Deployment:
    """A SuperLink and a SuperNode for each site, and the helper if any, with a session that they have all joined."""

    def __init__(
        self, runtime: Runtime, sites: list[PartyData], *, protocol: str = "semi-honest", **asked: Any
    ) -> None:
        self.runtime, self.sites = runtime, sites
        self.session = MachineSession(sites, runtime.folder / "session", protocol, **asked)
        self.names, self.configs = [data.name for data in sites], self.session.roles
        runtime.start_superlink()
        self.keys, nodes = {}, []
        for number, name in enumerate(self.configs):
            self.keys[name], public = node_keys(self.session.folder, f"node-{number}")
            nodes.append(f"{name}:{runtime.register(public)}")
        self.config = {**self.session.aggregator, "nodes": ", ".join(nodes), "round-timeout": PATIENCE}

    def start(self, name: str, variables: dict[str, str] | None = None, **changes: str) -> None:
        self.runtime.start_supernode(name, self.keys[name], {**self.configs[name], **changes}, **(variables or {}))

    def start_all(self, *names: str) -> None:
        """Start nodes as they are configured."""
        for name in names:
            self.start(name)

    def run(self, **changes: Any) -> dict[str, Any]:
        return self.runtime.run({**self.config, **changes})

    def run_during(self, action: Callable[[], None], **changes: Any) -> dict[str, Any]:
        """Run the session, and do something meanwhile."""
        failures: list[BaseException] = []

        def act() -> None:
            try:
                action()
            except BaseException as error:  # shown where the test looks
                failures.append(error)

        acting = threading.Thread(target=act)
        acting.start()
        try:
            return self.run(**changes)
        finally:
            acting.join()
            assert not failures, failures

    def log_of_run(self) -> str:
        """What the SuperLink has kept of the only run's own log."""
        (run,) = json.loads(self.runtime.processes.call(["flwr", "list", "--format", "json"]))["runs"]
        return self.runtime.processes.call(["flwr", "log", str(run["run-id"]), "--show"])

    def log_of(self, name: str) -> Path:
        """The log of a node, or of the SuperLink."""
        return self.runtime.folder / f"{name}.log"

    def auc(self, name: str) -> Any:
        return self.session.outcome(name)

    def has_result(self, name: str) -> bool:
        return bool(self.session.results(name))

    def processes(self, program: str) -> list[int]:
        """Ids of this deployment's processes of a program."""
        mark = str(self.runtime.folder).encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes() and program in (entry / "cmdline").read_text():
                    found.append(int(entry.name))
        return found

    def children_of(self, name: str, program: str) -> list[int]:
        """Ids of the processes with which a site answers."""
        marks = f"FHE_AUC_SITE={name}".encode(), f"FLWR_HOME={self.runtime.folder}/flwr".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                is_site = set(marks) <= set((entry / "environ").read_bytes().split(b"\0"))
                if is_site and program in (entry / "cmdline").read_text():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def wait_until_it_answers(self, name: str, seconds: float = 60.0) -> None:
        wait_for(lambda: bool(self.children_of(name, "flwr-clientapp")), seconds)

    def kill(self, name: str, program: str = "") -> list[int]:
        """Kill a site's processes of a program, or all; return the ids of those that were still there."""
        return _killed(self.children_of(name, program))

    def kill_server_app(self) -> None:
        _killed(self.processes("flwr-serverapp"))

    def kill_superlink(self) -> None:
        self.runtime._superlink.kill()
        self.runtime._superlink.wait()


def _killed(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            found.append(pid)
    return found


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def patched(deployment: Deployment, code: str, name: str = "east") -> dict[str, str]:
    """Variables with which a node's Python runs some code of the test's first."""
    folder = deployment.runtime.folder / f"patch-{name}"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(code)
    others = filter(None, [os.environ.get("PYTHONPATH")])
    return {"PYTHONPATH": os.pathsep.join([str(folder), *others]), "FHE_AUC_SITE": name}

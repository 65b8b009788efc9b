"""A deployment of Flower on this machine: a SuperLink, and a SuperNode for each role of a session."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fhe_auc.machines import outcomes
from fhe_auc.machines.flower.certificates import node_keys
from fhe_auc.machines.flower.runtime import Runtime
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rows.counts import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request

GRID = np.linspace(0, 1, 16)
SLEEPS = "import sys, time\nif any('flwr-clientapp' in each for each in sys.orig_argv): time.sleep({})"
PATIENCE = 30.0
"""Seconds for a round: what an honest site takes on a busy machine, and more."""

LONG = 300.0
"""Where nobody is to be left out."""


class Deployment:
    """A SuperLink and a SuperNode for each site, and the helper if any, with a session that they have all joined."""

    def __init__(
        self, runtime: Runtime, sites: list[PartyData], *, min_parties: int, protocol: str = "semi-honest", **asked: Any
    ) -> None:
        self.runtime = runtime
        self.names = [data.name for data in sites]
        plugin = registry.load(protocol)
        request = Request(parties=tuple(self.names), thresholds=GRID, min_parties=min_parties, **asked)
        session = plugin.prepare(request)
        folder = runtime.folder / "session"
        folder.mkdir(mode=0o700)
        made = site_storage().local_sites(session, folder, {})
        runtime.start_superlink()
        self.configs = {name: dict(config) for name, config in made.sites.items()}
        self.keys, nodes = {}, []
        for data in sites:
            np.savez(folder / f"{data.name}.npz", y_true=data.y_true, y_score=data.y_score)
            own = {"data": str(folder / f"{data.name}.npz"), "results": str(folder / data.name)}
            self.configs[data.name] |= own
        for number, name in enumerate(self.configs):
            self.keys[name], public = node_keys(folder, f"node-{number}")
            nodes.append(f"{name}:{runtime.register(public)}")
        self.config = {**made.aggregator, "nodes": ", ".join(nodes), "round-timeout": PATIENCE}

    def start(self, name: str, variables: dict[str, str] | None = None, **changes: str) -> None:
        self.runtime.start_supernode(name, self.keys[name], {**self.configs[name], **changes}, **(variables or {}))

    def run(self, **changes: Any) -> dict[str, Any]:
        return self.runtime.run({**self.config, **changes})

    def auc(self, name: str) -> Any:
        (result,) = Path(self.configs[name]["results"]).glob("*.json")
        return outcomes.read(result)

    def has_result(self, name: str) -> bool:
        return any(Path(self.configs[name]["results"]).glob("*.json"))

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

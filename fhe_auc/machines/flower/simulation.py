"""Flower's simulation on this machine: a SuperLink whose nodes are virtual, by Flower's own commands."""

import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from fhe_auc.base.errors import EvaluationError
from fhe_auc.machines.flower import APP
from fhe_auc.machines.flower.apps import VIRTUAL_SITES
from fhe_auc.machines.local_sites import LocalCarrier
from fhe_auc.machines.processes import reserved_port, usable_cores

_POLL = 0.1
_STARTING = 300.0  # seconds for a SuperLink to come up, and for its commands
_ASK_FLOWER = 60.0  # seconds between questions to Flower itself, each of which starts a process
_LAST_WORDS = 2000  # characters of a log that an error quotes


class Simulation(LocalCarrier):
    """A SuperLink that simulates the sites; it listens on 127.0.0.1, on a port that is free."""

    def carry(self, server: Path, sites: Mapping[str, Path]) -> None:
        """Start the SuperLink, and the app."""
        port = self.held.enter_context(reserved_port())
        (self.folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n',
            encoding="utf-8",
        )
        virtual = self.folder / "sites.json"
        told = [{"exchange": str(exchange), "name": name, "wait": 0} for name, exchange in sites.items()]
        virtual.write_text(json.dumps(told), encoding="utf-8")
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(port), "--insecure", "--simulation"]
        self.start("flower-superlink", command, **{VIRTUAL_SITES: str(virtual)})
        deadline = time.monotonic() + _STARTING
        with socket.socket() as trying:
            while trying.connect_ex(("127.0.0.1", port)):
                self.require_alive()
                if time.monotonic() > deadline:
                    raise EvaluationError(f"Flower's SuperLink does not listen after {_STARTING:g} s")
                time.sleep(_POLL)
        settings = self.folder / "run.toml"
        settings.write_text(f"exchange = {json.dumps(str(server))}\nevery = 0.5\n", encoding="utf-8")
        cores = f"client-resources-num-cpus=1 init-args-num-cpus={usable_cores()}"
        resources = f"num-supernodes={len(sites)} {cores} init-args-log-to-driver=false"
        command = ["flwr", "run", str(APP), "--format", "json", "--run-config", str(settings)]
        started = json.loads(self.call([*command, "--federation-config", resources], timeout=_STARTING))
        if "run-id" not in started:
            raise EvaluationError(f"Flower does not run the app: {started.get('error-message') or started}")
        self._run, self._asked = str(started["run-id"]), time.monotonic()

    def check(self) -> None:
        """Raise `EvaluationError` where the SuperLink or the run has ended."""
        self.require_alive()
        if time.monotonic() < self._asked + _ASK_FLOWER:
            return
        self._asked = time.monotonic()
        runs = json.loads(self.call(["flwr", "list", "--format", "json"], timeout=_STARTING)).get("runs", [])
        status = next((str(run["status"]) for run in runs if str(run["run-id"]) == self._run), "")
        if status.startswith("finished"):
            log = self.call(["flwr", "log", self._run, "--show"], timeout=_STARTING).strip()[-_LAST_WORDS:]
            raise EvaluationError(f"Flower has ended the run ({status}): {log}")

"""Flower on this machine, started by its own commands: a SuperLink over TLS, and SuperNodes that are other users."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fhe_auc.machines.flower import APP
from fhe_auc.machines.local_sites import LocalCarrier
from fhe_auc.machines.processes import reserved_port
from tests.support.machines import toml
from tests.support.processes import wait_for
from tests.support.tls import TlsFiles, node_keys
from tests.support.users import is_root

PATIENCE = 600.0  # seconds, for a step that takes a few; only a broken test waits for them
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs") if is_root else ()
"""Before a command: root's files are its own, as Python may lie where only root reads, and others' are closed to it."""


class Deployment(LocalCarrier):
    """A SuperLink, which with `keys` takes nodes with a registered key alone; all ends with the context."""

    def __init__(self, *, keys: bool) -> None:
        super().__init__()
        self._keys = keys
        self._held = ExitStack()
        self._tls = TlsFiles.create(self.folder)
        port = self._held.enter_context(reserved_port())
        self._address = f"127.0.0.1:{port}"
        (self.folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{self._address}"\n'
            f'root-certificates = "{self._tls.authority}"\n'
        )
        tls = ["--ssl-ca-certfile", self._tls.authority, "--ssl-certfile", self._tls.certificate]
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", port, *tls, "--ssl-keyfile", self._tls.key]
        command += ["--enable-supernode-auth"] * keys
        self._superlink = self.processes.start("superlink", [str(each) for each in command])
        wait_for(lambda: self._listens(port), PATIENCE)

    def _listens(self, port: int) -> bool:
        self.processes.require_alive(self._superlink)
        with socket.socket() as trying:
            return trying.connect_ex(("127.0.0.1", port)) == 0

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._held.close()

    def __enter__(self) -> Deployment:
        return self

    def start(self, server: Path, sites: Mapping[str, Path]) -> None:
        """Start a node for each site, and our app."""
        ids = {name: self.node(name, {"exchange": str(path), "name": name}) for name, path in sites.items()}
        nodes = ", ".join(f"{name}:{node}" for name, node in ids.items())
        self.run(APP, {"exchange": str(server), "nodes": nodes, "every": 5})

    def check(self) -> None:
        """Raise `EvaluationError` where the SuperLink has ended."""
        self.processes.require_alive(self._superlink)

    def node(self, name: str, config: dict[str, Any]) -> int:
        """Start a SuperNode, as a user without rights; return its id, 0 without keys."""
        told, own = {"node-id": 0}, list[Any]()
        if self._keys:
            private, public = node_keys(self.folder, name)
            told = json.loads(
                self.processes.call(
                    ["flwr", "supernode", "register", str(public), "--format", "json"], timeout=PATIENCE
                )
            )
            own = ["--auth-supernode-private-key", private]
        settings = " ".join(f"{entry}={json.dumps(value)}" for entry, value in config.items())
        with reserved_port() as port:
            command = ["flower-supernode", "--superlink", self._address, "--root-certificates", self._tls.authority]
            command += [*own, "--node-config", settings, "--host", "127.0.0.1", "--port", port]
            self.processes.start(f"node {name}", [*WITHOUT_RIGHTS, *(str(each) for each in command)])
        return int(told["node-id"])

    def run(self, app: Path, config: dict[str, Any]) -> None:
        """Start a run."""
        settings = self.folder / f"run of {app.name}.toml"
        settings.write_text(toml(config))
        command = ["flwr", "run", str(app), "--format", "json", "--run-config", str(settings)]
        told = json.loads(self.processes.call(command, timeout=PATIENCE))
        assert "run-id" in told, told

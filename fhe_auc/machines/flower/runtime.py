"""Flower on this machine, to try and to test: a SuperLink that simulates sites, or one with a SuperNode a site."""

import json
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fhe_auc.base.errors import EvaluationError
from fhe_auc.machines.flower import bundle
from fhe_auc.machines.flower.certificates import TlsFiles, node_keys
from fhe_auc.machines.flower.client_app import VIRTUAL_SITES
from fhe_auc.machines.local_sites import LocalCarrier
from fhe_auc.machines.processes import reserved_port, usable_cores
from fhe_auc.results.result_file import told_error

_POLL = 0.1
_LAST_WORDS = 2000  # characters of a log that an error quotes
_STARTING = 30.0  # seconds for a SuperLink or a SuperNode to come up
_ASK_FLOWER = 5.0  # seconds between questions to Flower itself, each of which starts a process
_MOST_ROUNDS = 5
_BESIDES = 120.0  # seconds, beyond the rounds' own limits, for Flower to start and for the circuit


class Flower(LocalCarrier):
    """A SuperLink and what it runs: `deployed` gives each site a SuperNode, else the sites are simulated.

    Where nodes come in, the SuperLink speaks TLS only; a simulation has no TLS. `app` is the folder of the Flower app
    to run; by default this package's own.
    """

    def __init__(self, *, deployed: bool, app: Path | None = None) -> None:
        super().__init__()
        self.app = app or self.folder / "app"
        self.bundle_sha256 = bundle.write(self.app) if app is None else bundle.sha256(app)
        self._tls = TlsFiles.create(self.folder) if deployed else None
        self._held = ExitStack()
        self._port = self._held.enter_context(reserved_port())
        self.superlink = f"127.0.0.1:{self._port}"

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._held.close()

    def run(self, config: dict[str, Any], nodes: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        """Start Flower, run the session and return who took part; errors are those of `run_app`."""
        if self._tls is None:
            self.start_simulating(list(nodes.values()))
            return self.run_app(config, virtual_sites=len(nodes))
        self.start_superlink()
        folder = self.folder / "session"
        keys = {name: node_keys(folder, f"node-{number}") for number, name in enumerate(nodes)}
        ids = {name: self.register(public) for name, (_, public) in keys.items()}
        for number, (name, own) in enumerate(nodes.items()):
            self.start_supernode(f"supernode-{number}", keys[name][0], own)
        return self.run_app({**config, "nodes": ", ".join(f"{name}:{node}" for name, node in ids.items())})

    def start_simulating(self, sites: Sequence[Mapping[str, str]]) -> None:
        """Start a SuperLink that simulates these sites, each with a configuration as a node would have it."""
        folder = self.folder / "sites"
        folder.mkdir(mode=0o700)
        for number, site in enumerate(sites):
            (folder / f"{number}.json").write_text(json.dumps(dict(site)), encoding="utf-8")
        self._start_superlink(["--insecure", "--simulation"], **{VIRTUAL_SITES: str(folder)})

    def start_superlink(self, *more: str) -> None:
        """Start a SuperLink for nodes that show a registered key, over TLS, with more arguments."""
        assert self._tls is not None  # noqa: S101 - for the type checker
        arguments = ["--ssl-ca-certfile", str(self._tls.authority), "--ssl-certfile", str(self._tls.certificate)]
        self._start_superlink([*arguments, "--ssl-keyfile", str(self._tls.key), "--enable-supernode-auth", *more])

    def _start_superlink(self, arguments: Sequence[str], **variables: str) -> None:
        connection = "insecure = true\n" if self._tls is None else f'root-certificates = "{self._tls.authority}"\n'
        (self.folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "local"\n[superlink.local]\naddress = "{self.superlink}"\n{connection}',
            encoding="utf-8",
        )
        command = ["fhe-auc", "flower", "superlink", "--port", str(self._port), *arguments]
        self._superlink = self.processes.start("superlink", command, **variables)
        deadline = time.monotonic() + _STARTING
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError:
                self.processes.require_alive(self._superlink)
                if time.monotonic() > deadline:
                    raise EvaluationError(f"nothing listens on {self.superlink} after {_STARTING:g} s") from None
                time.sleep(_POLL)

    def register(self, public_key: Path) -> int:
        """Tell the SuperLink a node's public key; return the id that the node will have."""
        told = json.loads(self.processes.call(["flwr", "supernode", "register", str(public_key), "--format", "json"]))
        return int(told["node-id"])

    def start_supernode(self, name: str, private_key: Path, config: Mapping[str, str], **variables: str) -> None:
        """Start a SuperNode, which runs no bundle but this package's own; `variables` are for its environment."""
        assert self._tls is not None  # noqa: S101 - for the type checker
        settings = self.folder / f"{name}.toml"
        bundle.write_config(settings, config)
        command = ["fhe-auc", "flower", "supernode", "--superlink", self.superlink]
        command += ["--root-certificates", str(self._tls.authority), "--auth-supernode-private-key", str(private_key)]
        command += ["--bundle-sha256", self.bundle_sha256, "--node-config", str(settings)]
        self.processes.start(name, command, **variables)

    def run_app(self, config: Mapping[str, str | int | float], *, virtual_sites: int = 0) -> dict[str, Any]:
        """Run one session and return who took part, as the ServerApp has recorded it.

        `config` is the run configuration, with ``round-timeout``; `virtual_sites` is their number where sites are
        simulated. Where the session fails, the `FheAucError` is of the type and with the text that it failed with.
        """
        journal = self.folder / "journal"
        record = journal / "record.json"
        before = _written(record)  # by a run that this one goes on with
        settings = self.folder / "run.toml"
        bundle.write_config(settings, {**config, "journal": str(journal)})
        command = ["flwr", "run", str(self.app), "--format", "json", "--run-config", str(settings)]
        if virtual_sites:
            cores = f"client-resources-num-cpus=1 init-args-num-cpus={usable_cores()}"
            resources = f"num-supernodes={virtual_sites} {cores} init-args-log-to-driver=false"
            command += ["--federation-config", resources]
        started = json.loads(self.processes.call(command))
        if "run-id" not in started:
            raise EvaluationError(f"Flower does not run the app: {started.get('error-message') or started}")
        run_id = str(started["run-id"])
        deadline = time.monotonic() + _MOST_ROUNDS * float(config["round-timeout"]) + _BESIDES
        ask = time.monotonic() + _ASK_FLOWER
        while _written(record) in (None, before):
            self.processes.require_alive(self._superlink)
            if time.monotonic() > ask:
                self._require_running(run_id, record, before)
                ask = time.monotonic() + _ASK_FLOWER
            if time.monotonic() > deadline:
                raise EvaluationError(f"the session has not ended in time: {self.processes.log_end()}")
            time.sleep(_POLL)
        told: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        if "error" in told:
            raise told_error(told["error"])
        return told

    def _require_running(self, run_id: str, record: Path, before: int | None) -> None:
        told = json.loads(self.processes.call(["flwr", "list", "--format", "json"]))
        runs = told.get("runs", [])  # there are none where the SuperLink has just ended
        status = next((str(run["status"]) for run in runs if str(run["run-id"]) == run_id), "unknown")
        if status.startswith("finished") and _written(record) in (None, before):
            log = self.processes.call(["flwr", "log", run_id, "--show"]).strip()[-_LAST_WORDS:]
            raise EvaluationError(f"Flower has ended the run ({status}): {log}")


def _written(file: Path) -> int | None:
    """Return when a file was written, in nanoseconds; None where it is not there."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return None

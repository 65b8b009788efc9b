"""The job that FLARE runs for a session, and FLARE's simulator as a place for sessions on this machine."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nvflare.job_config.api import FedJob

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.machines.aggregator_role import require_absolute_paths
from fhe_auc.machines.flare import TASK
from fhe_auc.machines.flare.controller import SessionController
from fhe_auc.machines.flare.executor import SessionExecutor
from fhe_auc.machines.local_sites import LocalCarrier
from fhe_auc.session.journal import read_record

CLASSES = ["fhe_auc.machines.flare.controller.SessionController", "fhe_auc.machines.flare.executor.SessionExecutor"]


def write_job(folder: Path, config: Mapping[str, Any], *, min_clients: int) -> None:
    """Write a job for the session of `config` (`controller.evaluate`); raise `InputError` where FLARE takes none so."""
    require_absolute_paths(config)
    try:
        job = FedJob(name=folder.name, min_clients=min_clients)
        job.set_app_packages(["fhe_auc"])
        job.to_server(SessionController(dict(config)))
        job.to_clients(SessionExecutor(), tasks=[TASK])
        job.export_job(str(folder.parent))
    except (RuntimeError, ValueError) as error:
        raise InputError(f"{str(folder)!r} cannot be a job of FLARE: {error}") from None


class Simulator(LocalCarrier):
    """FLARE's simulator on this machine: a process for its server, and one for each client."""

    def run(self, config: dict[str, Any], nodes: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        """Run the session and return its record; raise `EvaluationError` where there is none."""
        workspace, job = self.folder / "workspace", self.folder / "job"
        clients = {name: f"site-{number}" for number, name in enumerate(nodes, 1)}  # FLARE takes few characters
        own = workspace / "local" / "fhe-auc"
        own.mkdir(mode=0o700, parents=True)
        (own.parent / "resources.json").write_text(json.dumps({"class_allow_list": CLASSES}), encoding="utf-8")
        for name, client in clients.items():
            entries = (f"{entry} = {json.dumps(value, ensure_ascii=False)}\n" for entry, value in nodes[name].items())
            (own / f"{client}.toml").write_text("".join(entries), encoding="utf-8")
        write_job(job, {**config, "journal": str(self.folder / "journal"), "clients": clients}, min_clients=len(nodes))
        command = ["nvflare", "simulator", str(job), "-w", str(workspace), "-c", ",".join(clients.values())]
        limit = 5 * float(config["round-timeout"]) + 300.0  # for its rounds, and to start and to end
        said = self.processes.call([*command, "-t", str(len(nodes))], timeout=limit, check=False)
        if (record := read_record(self.folder / "journal")) is None:
            raise EvaluationError(f"FLARE has not run the job: {said.strip()[-2000:]}")
        return record

"""Train a model on four regions with NVIDIA FLARE; every tenth round, one encrypted AUC beside the sites' average.

Needs the extra: pip install '.[flare]' in a clone, and Python 3.11. The regions are FLARE's simulated clients.
Run it with: .venv/bin/python examples/training/run_flare.py
"""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
from evaluations import EVERY, HEADER, ROUNDS, new_session, print_line, site_config
from nvflare.job_config.api import FedJob

from fhe_auc import datasets
from fhe_auc.counts import PartyData
from fhe_auc.flare import TASK

HERE = Path(__file__).parent


def regions() -> list[PartyData]:
    """The 78 clinics, by how many of their patients were ill, in four regions."""
    clinics = sorted(datasets.load("covid-clinics"), key=lambda each: each.y_true.mean())
    parts = [clinics[start : start + 20] for start in range(0, len(clinics), 20)]
    columns = [
        [np.concatenate([getattr(each, name) for each in part]) for name in ("y_true", "y_score")] for part in parts
    ]
    return [PartyData.from_arrays(f"region-{number}", *each) for number, each in enumerate(columns, 1)]


def main() -> None:
    from flare_training import Site, Training

    sites = regions()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    print(HEADER)
    with tempfile.TemporaryDirectory() as made_for_this:
        state = Path(made_for_this, "state.json")
        for number in range(EVERY, ROUNDS + 1, EVERY):  # a job is ten rounds of training, and an evaluation
            folder, workspace = Path(made_for_this, f"session-{number}"), Path(made_for_this, f"workspace-{number}")
            made = new_session(sites, folder)
            own = workspace / "local" / "fhe-auc"
            own.mkdir(parents=True)
            (own.parent / "resources.json").write_text(
                '{"class_allow_list": ["flare_training.Training", "flare_training.Site"]}'
            )
            configs = [site_config(made, site, place, folder) for place, site in enumerate(sites)]
            for site, config in zip(sites, configs, strict=True):
                text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in config.items())
                (own / f"{site.name}.toml").write_text(text)
            job = FedJob(name="training", min_clients=len(sites))
            job.set_app_packages(["fhe_auc", "flare_training", "app"])
            job.to_server(Training(EVERY, str(state), {**made.aggregator, "journal": str(folder / "journal")}))
            job.to_clients(Site(), tasks=["train", "judge", TASK])
            job.simulator_run(str(workspace), clients=[site.name for site in sites], log_config="error")
            print_line(number, configs[0], json.loads(state.read_text(encoding="utf-8"))["average"], sites)


if __name__ == "__main__":
    main()

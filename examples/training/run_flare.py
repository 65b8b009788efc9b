"""Train a model on six hospitals with NVIDIA FLARE; every tenth round, one encrypted AUC beside the sites' average.

Needs the extra: pip install '.[flare]' in a clone, and Python 3.11. The hospitals are FLARE's simulated clients.
Run it with: .venv/bin/python examples/training/run_flare.py
"""

import json
import os
import tempfile
from pathlib import Path

from evaluations import EVERY, HEADER, ROUNDS, new_session, print_line, site_configs
from nvflare.job_config.api import FedJob

from fhe_auc.machines.flare import TASK

HERE = Path(__file__).parent


def main() -> None:
    from flare_training import Site, Training

    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    print(HEADER)
    with tempfile.TemporaryDirectory() as made_for_this:
        state = Path(made_for_this, "state.json")
        for number in range(EVERY, ROUNDS + 1, EVERY):  # a job is ten rounds of training, and an evaluation
            folder, workspace = Path(made_for_this, f"session-{number}"), Path(made_for_this, f"workspace-{number}")
            made = new_session(folder)
            own = workspace / "local" / "fhe-auc"
            own.mkdir(parents=True)
            (own.parent / "resources.json").write_text(
                '{"class_allow_list": ["flare_training.Training", "flare_training.Site"]}'
            )
            configs = site_configs(made, folder)
            for name, config in configs.items():
                text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in config.items())
                (own / f"{name}.toml").write_text(text)
            job = FedJob(name="training", min_clients=len(configs))
            job.set_app_packages(["fhe_auc", "flare_training", "app"])
            job.to_server(Training(EVERY, str(state), {**made.aggregator, "journal": str(folder / "journal")}))
            job.to_clients(Site(), tasks=["train", "judge", TASK])
            job.simulator_run(str(workspace), clients=list(configs), log_config="error")
            print_line(number, configs, state)


if __name__ == "__main__":
    main()

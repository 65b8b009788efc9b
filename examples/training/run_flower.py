"""Train a model on 78 clinics with Flower; every tenth round, one encrypted AUC beside the average of the sites' AUCs.

Needs the extra: pip install '.[simulation]' in a clone. The clinics are simulated; app/ would run across real ones.
Run it with: .venv/bin/python examples/training/run_flower.py
"""

import json
from pathlib import Path

from evaluations import EVERY, HEADER, ROUNDS, new_session, print_line, site_config

from fhe_auc import datasets
from fhe_auc.flower.runtime import Runtime

APP = Path(__file__).parent / "app"


def main() -> None:
    clinics = datasets.load("covid-clinics")
    print(HEADER)
    state = None
    for number in range(EVERY, ROUNDS + 1, EVERY):  # a run of the app is ten rounds of training, and an evaluation
        with Runtime(secured=False, app=APP) as runtime:
            file, folder = runtime.folder / "state.json", runtime.folder / "session"
            if state is not None:
                file.write_text(json.dumps(state))
            made = new_session(clinics, folder)
            sites = [site_config(made, clinic, place, folder) for place, clinic in enumerate(clinics)]
            runtime.start_simulating(sites)
            runtime.run({**made.aggregator, "state": str(file), "round-timeout": 120.0}, virtual_sites=len(sites))
            state = json.loads(file.read_text())
            print_line(number, sites[0], state["average"], clinics)


if __name__ == "__main__":
    main()

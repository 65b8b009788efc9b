"""Train a model on six hospitals with Flower; every tenth round, one encrypted AUC beside the sites' average.

Needs the extra: pip install '.[simulation]' in a clone. The hospitals are simulated; app/ would run across real ones.
Run it with: .venv/bin/python examples/training/run_flower.py
"""

from pathlib import Path

from evaluations import EVERY, HEADER, ROUNDS, new_session, print_line, site_configs

from fhe_auc.machines.flower.runtime import Flower

APP = Path(__file__).parent / "app"


def main() -> None:
    print(HEADER)
    state = None
    for number in range(EVERY, ROUNDS + 1, EVERY):  # a run of the app is ten rounds of training, and an evaluation
        with Flower(deployed=False, app=APP) as runtime:
            file, folder = runtime.folder / "state.json", runtime.folder / "session"
            if state is not None:
                file.write_text(state, encoding="utf-8")
            made = new_session(folder)
            configs = site_configs(made, folder)
            runtime.start_simulating(list(configs.values()))
            config = {**made.aggregator, "state": str(file), "round-timeout": 120.0}
            runtime.run_app(config, virtual_sites=len(configs))
            state = file.read_text(encoding="utf-8")
            print_line(number, configs, file)


if __name__ == "__main__":
    main()

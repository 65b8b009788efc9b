"""FLARE's controller and executor: some rounds of training on all sites, then one encrypted AUC over all their rows.

What is fhe-auc's are `evaluate` at the server and `SessionExecutor` at the site; the rest is ordinary FLARE.
"""

import json
from pathlib import Path

import numpy as np
import tomllib
from app.model import START, own_auc, probabilities, rows_of, trained
from nvflare.apis.controller_spec import Task
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable

from fhe_auc.machines.flare.controller import evaluate
from fhe_auc.machines.flare.executor import SessionExecutor
from fhe_auc.rows.party_data import PartyData


class Training(Controller):
    """Trains from the model in a file on, and writes it there; then evaluates it."""

    def __init__(self, rounds: int, state: str, session: dict) -> None:
        super().__init__()
        self.rounds, self.state, self.session = rounds, state, session

    def start_controller(self, fl_ctx) -> None: ...

    def stop_controller(self, fl_ctx) -> None: ...

    def control_flow(self, abort_signal, fl_ctx) -> None:
        def asked(name: str) -> tuple[np.ndarray, np.ndarray]:
            task = Task(name, Shareable({"model": model.tolist()}), timeout=300)
            self.broadcast_and_wait(
                task, fl_ctx, min_responses=len(self._engine.get_clients()), abort_signal=abort_signal
            )
            answers = [each.result for each in task.client_tasks]
            return np.array([each["value"] for each in answers]), np.array([each["weight"] for each in answers])

        state = Path(self.state)
        model = np.array(json.loads(state.read_text(encoding="utf-8"))["model"]) if state.exists() else START
        for _ in range(self.rounds):
            models, weights = asked("train")
            model = np.average(models, axis=0, weights=weights)
        aucs, weights = asked("judge")
        found = {"model": model.tolist(), "average": float(np.average(aucs, weights=weights))}
        state.write_text(json.dumps(found), encoding="utf-8")
        evaluate(self, fl_ctx, abort_signal, self.session)  # in place of the average


class Site(SessionExecutor):
    """Trains and judges on the site's rows; its part in the evaluation is on the scores that it has kept."""

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        local = Path(fl_ctx.get_engine().get_workspace().get_site_config_dir(), "fhe-auc")
        config = tomllib.loads((local / f"{fl_ctx.get_identity_name()}.toml").read_text())
        self.y_true, features = rows_of(config["data"])
        if task_name == "train":
            model = trained(np.array(shareable["model"]), self.y_true, features)
            return Shareable({"value": model.tolist(), "weight": len(self.y_true)})
        if task_name == "judge":
            self.scores = probabilities(np.array(shareable["model"]), features)
            auc, weight = own_auc(self.y_true, self.scores)
            return Shareable({"value": auc, "weight": weight})
        return super().execute(task_name, shareable, fl_ctx, abort_signal)

    def rows(self, name, analysis) -> PartyData:
        return PartyData.from_arrays(name, self.y_true, self.scores)

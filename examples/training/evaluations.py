"""What both examples share: made-up sites, a session for each evaluation, and the table of what it found."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from app.model import probabilities, rows_of
from sklearn.metrics import roc_auc_score

from fhe_auc.machines import outcomes
from fhe_auc.machines.site_state import LocalSites, site_storage
from fhe_auc.question import thresholds
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request

EVERY, ROUNDS = 10, 30
HEADER = "round   AUC of all rows, encrypted         average of the sites' AUCs"
SITES = {  # how many patients, and how many of them ill; the last has no AUC of its own
    "hospital-1": (2000, 100),
    "hospital-2": (1500, 450),
    "hospital-3": (1000, 100),
    "hospital-4": (800, 400),
    "hospital-5": (400, 8),
    "hospital-6": (30, 0),
}
ILL = np.array([1.0, -0.8, 0.6, -0.4, 0.2])  # by how much the features of the ill differ, everywhere


def new_session(folder: Path) -> LocalSites:
    """The key holder's part; across real sites `fhe-auc keys session`, and `fhe-auc keys open` at each site."""
    folder.mkdir(mode=0o700)
    request = Request(parties=tuple(SITES), thresholds=thresholds.resolve("hybrid:5000"), interval=0.95)
    return site_storage().local_sites(registry.evaluating("verified").prepare(request), folder, {})


def site_configs(made: LocalSites, folder: Path) -> dict[str, dict[str, str]]:
    """Make up each site's rows, the same ones every time, and write them down; return the sites' configurations."""
    random, configs = np.random.default_rng(3), {}
    for name, (patients, ill) in SITES.items():
        y_true = (np.arange(patients) < ill).astype(np.uint8)
        shift = random.normal(0, 0.5, len(ILL))  # each site measures a little differently
        features = random.normal(size=(patients, len(ILL))) + shift + np.outer(y_true, ILL)
        rows, results = folder / f"{name}.npz", folder / f"{name}-results"
        np.savez(rows, y_true=y_true, features=features)
        configs[name] = {**made.sites[name], "data": str(rows), "results": str(results)}
    return configs


def print_line(number: int, configs: Mapping[str, Mapping[str, Any]], state: Path) -> None:
    """Print what a site has written down, beside the average; check it, only because these rows are made up."""
    trained = json.loads(state.read_text(encoding="utf-8"))
    (written,) = Path(configs["hospital-1"]["results"]).iterdir()
    found, average = outcomes.read(written), trained["average"]
    interval = f"{found.interval.low:.4f} to {found.interval.high:.4f}"
    rows = [rows_of(site["data"]) for site in configs.values()]
    y_true, features = (np.concatenate(each) for each in zip(*rows, strict=True))
    pooled = roc_auc_score(y_true, probabilities(np.array(trained["model"]), features))
    print(f"{number:5}   {found.auc:.6f} ({interval})   {average:.6f}, off by {abs(average - pooled):.6f}", flush=True)
    if abs(found.auc - pooled) > found.binning_error + found.numerical_error:
        raise SystemExit(f"the AUC of all rows is {pooled}")

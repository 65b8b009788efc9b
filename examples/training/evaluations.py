"""What both examples share: a session for each evaluation, and the table of what it found."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from fhe_auc import outcomes, registry, thresholds
from fhe_auc.counts import PartyData
from fhe_auc.protocol import Request
from fhe_auc.site_state import LocalSites, site_storage

EVERY, ROUNDS = 10, 20
HEADER = "round   AUC of all rows, encrypted         average of the sites' AUCs"


def new_session(sites: list[PartyData], folder: Path) -> LocalSites:
    """The key holder's part; across real sites `fhe-auc keys session`, and `fhe-auc keys open` at each site."""
    folder.mkdir(mode=0o700)
    request = Request(
        parties=tuple(site.name for site in sites), thresholds=thresholds.resolve("hybrid:4000"), interval=0.95
    )
    return site_storage().local_sites(registry.evaluating("verified").prepare(request), folder, {})


def site_config(made: LocalSites, site: PartyData, number: int, folder: Path) -> dict[str, str]:
    """Write a site's rows down; return its configuration."""
    rows, results = folder / f"rows-{number}.npz", folder / f"results-{number}"
    np.savez(rows, y_true=site.y_true, y_score=site.y_score)
    return {**made.sites[site.name], "data": str(rows), "results": str(results)}


def print_line(number: int, config: Mapping[str, Any], average: float, sites: list[PartyData]) -> None:
    """Print what a site has written down, beside the average; check it, only because these rows are public."""
    (written,) = Path(config["results"]).iterdir()
    found = outcomes.read(written)
    interval = f"{found.interval.low:.4f} to {found.interval.high:.4f}"
    pooled = roc_auc_score(*(np.concatenate([getattr(each, name) for each in sites]) for name in ("y_true", "y_score")))
    print(f"{number:5}   {found.auc:.6f} ({interval})   {average:.6f}, off by {abs(average - pooled):.6f}", flush=True)
    if abs(found.auc - pooled) > found.binning_error + found.numerical_error:  # training keeps the order of scores
        raise SystemExit(f"the AUC of all rows is {pooled}")

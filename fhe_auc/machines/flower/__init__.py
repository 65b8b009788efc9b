"""Exchanges carried by Flower (`flwr`, the extra ``fhe-auc[flower]``), by its public interface alone.

Flower's server chooses what a SuperNode runs. So that is a postman (`fhe_auc.machines.flower.apps`), and another user
than the site's ``fhe-auc serve``, which answers: it reaches a folder of signed and sealed messages, and neither rows
nor keys. `APP` is the folder that ``flwr run`` takes. Importing this package does not import flwr.
"""

import os
from pathlib import Path

APP = Path(__file__).with_name("app")
"""The Flower app: a configuration that names the two apps of this package, and no code."""

QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
"""Variables with which neither Flower nor Ray calls home."""


def be_quiet() -> None:
    """See to it that Flower calls nobody from here, where the user has not chosen otherwise."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)

"""Sessions between machines, carried by Flower (`flwr`, the extra ``fhe-auc[flower]``).

Flower moves bytes between a ServerApp, which plays a session's aggregator, and ClientApps, one a site. Neither knows of
cryptography: the rounds are `fhe_auc.session`, and what a site keeps is in its `fhe_auc.machines.site_state`. No
result comes to the server; every site writes its own.

`fhe_auc.machines.flower.server_app.evaluate` and `fhe_auc.machines.flower.client_app.answer` are the two calls with
which a Flower app of one's own gets a session in. Importing this package does not import flwr.
"""

import os
import sys
from importlib.metadata import version

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.machines.processes import QUIET

FLOWER = "1.41.0"  # the version of Flower on whose internals `server_app`, `superlink` and `supernode` rely


def require_flower(extra: str = "flower") -> None:
    """See to it that Flower calls nobody from here; `InputError` without the `extra`, or for another than `FLOWER`."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if sys.version_info < (3, 11):
        raise InputError(f"Flower needs Python 3.11 or later, and this is {sys.version_info[0]}.{sys.version_info[1]}")
    require(extra)
    if (found := version("flwr")) != FLOWER:
        raise InputError(
            f"flwr {found} is installed, fhe-auc relies on {FLOWER}: in a clone of fhe-auc, pip install '.[{extra}]'"
        )

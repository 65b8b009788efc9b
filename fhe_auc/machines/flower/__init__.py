"""Exchanges carried by Flower (`flwr`, the extra ``fhe-auc[flower]``), by its public interface alone.

Flower's server chooses what a SuperNode runs. So that is a postman (`fhe_auc.machines.flower.apps`), and another user
than the site's ``fhe-auc serve``, which answers: it reaches a folder of signed and sealed messages, and neither rows
nor keys. `APP` is the folder that ``flwr run`` takes. Importing this package does not import flwr.
"""

from pathlib import Path

APP = Path(__file__).with_name("app")
"""The Flower app: a configuration that names the two apps of this package, and no code."""

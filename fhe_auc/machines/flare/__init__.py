"""Exchanges carried by NVIDIA FLARE (`nvflare`, the extra ``fhe-auc[flare]``), by its public interface alone.

As over Flower, what FLARE runs at a site is a postman (`fhe_auc.machines.flare.postmen`), and another user than the
site's ``fhe-auc serve``: it reaches a folder of signed and sealed messages, and neither rows nor keys. `JOB` is the
folder that ``nvflare job submit -j`` takes. Importing this package does not import nvflare.
"""

from pathlib import Path

JOB = Path(__file__).with_name("job")
"""The job, which is the same for all: it names the two classes of this package, and has no code."""

"""The commands ``fhe-auc keys …``, ``members …`` and others: plug-ins of the command line (``fhe_auc.commands``)."""

from fhe_auc_keys.cli.keys import keys

__all__ = ["keys"]

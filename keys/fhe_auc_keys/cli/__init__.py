"""The commands ``fhe-auc keys …``, a plug-in of the command line (entry-point group ``fhe_auc.commands``)."""

import click

from fhe_auc.cli import output
from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.close import close
from fhe_auc_keys.cli.limits import budget
from fhe_auc_keys.cli.show import show

__all__ = ["keys"]


_HELP = """Look after key stores.

Who runs what:

\b
each party    budget               shows what noisy sessions have spent of its rows; sets a limit
everybody     show                 shows what is in a key store; with --check verifies everything
everybody     close                destroys the keys of sessions that have ended

Private keys stay in key stores, which a passphrase encrypts; `fhe-auc members` and `fhe-auc join` make them. Whatever
is sent is public or sealed to one recipient.
"""


@click.group(
    cls=common.InOrder,
    help=_HELP,
    epilog=output.examples(
        "fhe-auc keys show --store keystore --json  what is in a key store, for scripts",
        "fhe-auc keys close --help                  what a command does, with examples",
    ),
)
def keys() -> None:
    """Look after key stores."""


for _command in (
    budget,
    show,
    close,
):
    keys.add_command(_command)

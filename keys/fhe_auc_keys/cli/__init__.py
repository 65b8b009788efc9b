"""The commands ``fhe-auc keys …``, a plug-in of the command line (entry-point group ``fhe_auc.commands``)."""

import click

from fhe_auc.cli import output
from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.limits import budget
from fhe_auc_keys.cli.opening import open_bundle
from fhe_auc_keys.cli.session import session
from fhe_auc_keys.cli.show import show
from fhe_auc_keys.cli.upkeep import check, close

__all__ = ["keys"]


_HELP = """Hand out a session's keys, and look after key stores.

Who runs what, in this order; docs/guide/keys.md walks through it.

\b
key holder    session              makes one session's keys, sealed to each party
each party    open                 by hand: opens its bundle, once; the aggregator opens its own
each party    budget               shows what noisy sessions have spent of its rows; sets a limit
everybody     show                 shows what is in a key store
everybody     check                verifies everything in its key store
everybody     close                destroys the keys of sessions that have ended

Private keys stay in key stores, which a passphrase encrypts; `fhe-auc members` and `fhe-auc join` make them. Whatever
is sent is public or sealed to one recipient.
"""


@click.group(
    cls=common.InOrder,
    help=_HELP,
    epilog=output.examples(
        "fhe-auc keys show --store keystore --json  what is in a key store, for scripts",
        "fhe-auc keys open --help                   what a command does, with examples",
    ),
)
def keys() -> None:
    """Hand out a session's keys, and look after key stores."""


for _command in (
    session,
    open_bundle,
    budget,
    show,
    check,
    close,
):
    keys.add_command(_command)

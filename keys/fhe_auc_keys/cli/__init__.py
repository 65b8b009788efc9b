"""The commands ``fhe-auc keys …``, a plug-in of the command line (entry-point group ``fhe_auc.commands``)."""

import click

from fhe_auc.cli import output
from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.authority import ca_init, issue, revoke
from fhe_auc_keys.cli.enrol import enrol, join
from fhe_auc_keys.cli.limits import budget, policy
from fhe_auc_keys.cli.opening import open_bundle
from fhe_auc_keys.cli.session import session
from fhe_auc_keys.cli.show import show
from fhe_auc_keys.cli.upkeep import check, close

__all__ = ["keys"]


_HELP = """Certify sites, and hand out a session's keys.

Who runs what, in this order; docs/guide/keys.md walks through it.

\b
authority     ca-init              once: makes the authority, publishes ca.pem and ca.crl
each site     join                 by the authority's invitation: makes its own keys; NAME.csr goes back
              enrol                the same, step by step, without an invitation
authority     issue                certifies sites' names and keys; NAME.pem goes back to each
each site     join --certificate   takes it in; NAME.credential goes to the key holder
key holder    session              makes a session's keys, sealed to each party; --repeat: once more
each party    policy               says what `fhe-auc serve` and open --policy open unasked
each party    open                 by hand: opens its bundle, once; the aggregator opens its own
each party    budget               shows what noisy sessions have spent of its rows; sets a limit
authority     revoke               ends a certificate; with --refresh, regularly, a fresh list
everybody     show                 tells what a file is, and how much of it is verified
everybody     check                verifies everything in its key store
everybody     close                destroys the keys of sessions that have ended

Private keys stay in key stores, which a passphrase encrypts. Whatever is sent is public or sealed to one recipient;
fingerprints, compared by telephone, keep the post from being tampered with.
"""


@click.group(
    cls=common.InOrder,
    help=_HELP,
    epilog=output.examples(
        "fhe-auc keys enrol north                   a site's first step",
        "fhe-auc keys show north.bundle             what is this file, and who signed it?",
        "fhe-auc keys show --store keystore --json  what is in a key store, for scripts",
        "fhe-auc keys open --help                   what a command does, with examples",
    ),
)
def keys() -> None:
    """Certify sites, and hand out a session's keys."""


for _command in (
    ca_init,
    join,
    enrol,
    issue,
    session,
    open_bundle,
    policy,
    budget,
    revoke,
    show,
    check,
    close,
):
    keys.add_command(_command)

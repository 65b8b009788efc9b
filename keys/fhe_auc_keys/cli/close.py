"""``fhe-auc keys close``: the end of keys that have served."""

import click

from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.trust import key_store
from fhe_auc_keys.site import key_erasure
from fhe_auc_keys.store.vault import Vault


@common.command(
    "Destroy the keys of a session that is given up.",
    'fhe-auc keys close "31c4 ce5c 3af1 00a3 0dd3 d4d0 b719 1bc8" --lose-result',
    "        as `show` writes it, say since another session replaces it",
)
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True, type=common.SESSION_ID)
@key_store
@click.option(
    "--lose-result",
    is_flag=True,
    help="Also where there is no result yet: this site then gets none, nor does anybody where all must answer, or "
    "where this is the helper's store.",
)
@common.reported
def close(sessions: tuple[bytes, ...], vault: Vault, lose_result: bool) -> common.Report:
    """Destroy the keys of each SESSION, named by its id, in the key store.

    The secret key goes, and a party's seed. What stays: that the bundle was opened, so that it never opens again; until
    the session's end the last answer, for an aggregator that asks again; and the announcement.

    `fhe-auc serve` does this by itself, once the result is there; and once the session's time is over, it erases all
    but whose rows counted. As a clock can be wrong, that is 8 days after it has first seen the end. Backups hold keys
    that were there when they were made, encrypted.
    """
    with vault.open() as store:
        for session in sessions:
            key_erasure.close(store, session, lose_result=lose_result)
    rows: common.Rows = [("closed", session, "its keys are destroyed") for session in sessions]
    return common.Report({"store": vault.directory, "closed": sessions}, rows)

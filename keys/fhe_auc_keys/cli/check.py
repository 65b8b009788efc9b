"""``fhe-auc keys check``: whether everything in a key store is whole, genuine, and can still be used."""

from __future__ import annotations

import click

from fhe_auc.cli import failures, output
from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.key_store import key_store
from fhe_auc_keys.site.store_check import problems
from fhe_auc_keys.store.vault import Vault


@click.command(
    short_help="Verify everything in a key store.",
    epilog=output.examples(
        "fhe-auc keys check --store keystore",
        "fhe-auc keys check --store keystore --passphrase-file passphrase --json | jq .problems",
    ),
)
@key_store
@output.json_option
def check(vault: Vault, as_json: bool) -> None:
    """Read and verify everything in the key store: exit status 1 where anything is wrong, with the remedy on its line.

    Every entry must decrypt and be whole, and nothing else lie in the folder. Certificates and revocation lists must be
    current. Sessions that are not over need genuine signatures, nobody in them revoked, all keys, and an encryption
    library that works here. The audit trail is for `fhe-auc audit`. Nothing is changed, but that files
    are removed which a crash left half-written.
    """
    with vault.open() as store:
        found = problems(store, at=common.now())
    rows: list[tuple[output.Cell, ...]] = [(each.entry, f"{each.wrong}: {each.remedy}") for each in found]
    facts = {"store": str(vault.directory), "problems": [each._asdict() for each in found]}
    common.report(rows or [("key store", f"nothing is wrong in {str(vault.directory)!r}")], facts, as_json=as_json)
    if found:
        click.get_current_context().exit(failures.FAILED)

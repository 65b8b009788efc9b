"""``fhe-auc keys open-late``: the key holder opens the sum of the pads of the parties that count."""

from __future__ import annotations

from pathlib import Path

import click

from fhe_auc.base.files import read_from_others
from fhe_auc.cli import output
from fhe_auc_keys.cli import common, trust
from fhe_auc_keys.cli.key_store import key_store
from fhe_auc_keys.site.late_opening import open_late
from fhe_auc_keys.store.vault import Vault, certified_identity


@click.command(
    "open-late",
    short_help="As key holder, open once it is known who counts.",
    epilog=output.examples(
        "fhe-auc keys open-late 5f0c….request --out 5f0c….opening",
        "fhe-auc keys open-late 5f0c….request --out 5f0c….opening --store keystore",
    ),
)
@click.argument("file", metavar="FILE", type=common.FILE)
@key_store
@trust.list_option
@click.option(
    "--out",
    "target",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the opening goes, for the aggregator.",
)
@common.force_option
@output.json_option
def late(file: Path, vault: Vault, lists: tuple[str, ...], target: Path, force: bool, as_json: bool) -> None:
    """Open the sum of the pads of the parties that count.

    Needed where a session was made with --min-parties and what parties send is padded (exact, verified). The aggregator
    writes FILE once the submissions are closed: it names the parties, signed. The opening is made once. Asked again for
    the same parties it is the same file; for others it is refused. Making it erases the seeds; once the session has
    ended, so does the next command that opens this key store for a session.
    """
    common.check_free(target, force=force)
    with vault.open() as store:
        holder = certified_identity(store)
        trusted = trust.renewed(store, lists).trust
        with common.about(file):
            document = open_late(store, holder, trusted, read_from_others(file), at=common.now())
    common.write(target, document, common.PRIVATE, force=force)
    if as_json:
        output.print_json({"opening": str(target)})
    else:
        output.print_line(f"wrote {str(target)!r}: send it to the aggregator, who alone can open it")

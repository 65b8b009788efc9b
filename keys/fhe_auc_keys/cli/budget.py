"""``fhe-auc keys budget``: what sessions have spent of a site's rows, and the site's limit."""

from __future__ import annotations

from datetime import datetime, timezone

import click
import msgspec

from fhe_auc.cli import output
from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.key_store import key_store
from fhe_auc_keys.store import budget as budgets
from fhe_auc_keys.store.vault import Vault


@click.command(
    short_help="Show what sessions have spent of a privacy budget; set a limit.",
    epilog=output.examples(
        "fhe-auc keys budget --store keystore             what is spent, and what is left",
        "fhe-auc keys budget --limit 4 --store keystore   from now on sessions beyond 4 in all are refused",
    ),
)
@key_store
@click.option("--limit", type=click.FloatRange(min=0, max=1e6), help="Most that all sessions together may spend.")
@click.option(
    "--data-set",
    default=budgets.DEFAULT_DATA_SET,
    show_default=True,
    help="Rows that --limit is for, as data-set in the site's configuration names them.",
)
@output.json_option
def budget(vault: Vault, limit: float | None, data_set: str, as_json: bool) -> None:
    """Show what differentially private sessions have spent of each data set, and set a limit.

    A session spends its epsilon when the site's submission leaves; that it is sent again costs nothing, a new session
    does. All that is spent adds up, budgets for rows and for labels alike. Without a limit nothing is refused.
    """
    with vault.open() as store:
        if limit is not None:
            budgets.set_limit(store, data_set, limit)
        spent, limits, entries = budgets.spent(store), budgets.limits(store), budgets.entries(store)
    rows: list[tuple[output.Cell, ...]] = []
    told = {}
    for name in sorted({*spent, *limits, budgets.DEFAULT_DATA_SET}):
        found, most = spent.get(name, 0.0), limits.get(name)
        note = "no limit" if most is None else f"of {most:g}; {max(0.0, most - found):g} is left"
        rows.append((name, f"epsilon {found:g}", note))
        told[name] = {"epsilon": found, "limit": most}
        for session, entry in sorted(entries.items(), key=lambda each: each[1].at):
            if entry.data_set == name:
                when = datetime.fromtimestamp(entry.at, timezone.utc)
                what = f"{entry.epsilon:g} a {entry.unit}" + (f", delta {entry.delta:g}" if entry.delta else "")
                rows.append(("", what, f"{when:%Y-%m-%d %H:%M}, {entry.protocol}, session {session[:8]}"))
    sessions = {session: msgspec.structs.asdict(entry) for session, entry in entries.items()}
    common.report(rows, {"data_sets": told, "sessions": sessions}, as_json=as_json)

"""``fhe-auc keys policy``, ``budget``: what a site opens unasked, and what sessions spend of its rows."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import click
import msgspec

from fhe_auc.cli import output
from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.key_store import key_store
from fhe_auc_keys.site import policy as policies
from fhe_auc_keys.site.policy import Policy
from fhe_auc_keys.store import budget as budgets
from fhe_auc_keys.store.vault import Vault


@click.command(
    short_help="Say which sessions a site opens without being asked.",
    epilog=output.examples(
        "fhe-auc keys policy policy.toml --store keystore    sets it, in place of another",
        "fhe-auc keys policy --store keystore                shows it",
        "fhe-auc keys policy --remove --store keystore       from now on a person opens every session",
        "fhe-auc keys open --policy inbox --store keystore   opens what is within it",
    ),
)
@click.argument("file", metavar="[FILE]", required=False, type=common.FILE)
@key_store
@click.option("--remove", is_flag=True, help="Take the policy out of the key store.")
@output.json_option
def policy(file: Path | None, vault: Vault, remove: bool, as_json: bool) -> None:
    """Set what `open --policy` opens without asking anybody, or without FILE show it.

    FILE is TOML. It must have: holder, who makes the keys or convenes; protocols, a list; model and outcome, word for
    word as in the study; min-parties, without which there is no result; max-thresholds. It may have: cohort and period
    (any, unless they are there); keys, a list of "sealed" (the default), "joint", "none" and "helper"; with "helper"
    also helpers, a list of the names of who may be one; max-days, how long a session can still go on (7); max-row-cap,
    which each party must have then; score-columns and groups, lists of columns that may be asked for; and a table
    [options] with the options of the protocol that a session must have, such as interval = 0.95, or epsilon =
    [0.25, 0.75]. A session that lacks one of these, or has another option, is outside the policy.

    The policy is kept in the key store, and nothing that arrives can change it.
    """
    if remove and file is not None:
        raise click.UsageError("give a policy, or --remove, and not both")
    new = None if file is None else Policy.read(file)
    with vault.open() as store:
        if remove:
            policies.remove(store)
        elif new is not None:
            new.keep(store)
        found = None if remove else Policy.stored(store)
    if found is None:
        common.report([("policy", "removed", "a person opens every session")], {"policy": None}, as_json=as_json)
    else:
        common.report([*found.rows()], {"policy": msgspec.to_builtins(found)}, as_json=as_json)


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

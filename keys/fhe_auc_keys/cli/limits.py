"""``fhe-auc keys budget``: what sessions spend of a site's rows."""

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import click
import msgspec

from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.trust import key_store
from fhe_auc_keys.store import audit
from fhe_auc_keys.store import budget as budgets
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import Vault, own_identity


@common.command(
    "Show what sessions have spent of a privacy budget; set a limit; acknowledge an incident.",
    "fhe-auc keys budget --store keystore             what is spent, and what is left",
    "fhe-auc keys budget --limit 4 --store keystore   from now on sessions beyond 4 in all are refused",
    'fhe-auc keys budget --acknowledge SESSION --by "Ada Osei" --store keystore',
)
@key_store
@click.option(
    "--limit", type=click.FloatRange(min=0, max=1e6), help="Most epsilon that all sessions may spend together."
)
@click.option(
    "--delta",
    type=click.FloatRange(min=0, max=1, max_open=True),
    help="With --limit: most delta that they may spend together. Default: anything below 1 over the rows put in.",
)
@click.option(
    "--data-set",
    default=budgets.DEFAULT_DATA_SET,
    show_default=True,
    help="Rows that --limit is for, as data-set in the site's configuration names them.",
)
@click.option(
    "--acknowledge",
    metavar="SESSION",
    type=common.SESSION_ID,
    help="Say that somebody has looked into why this session's result was refused. Needs --by.",
)
@click.option(
    "--reconcile",
    is_flag=True,
    help="Say that somebody has looked into what the ledger of a restored key store lacks, and has set limits so that "
    "they are right: from now on it counts. Needs --by.",
)
@click.option("--by", metavar="NAME", help="Who has looked into it; stands in the audit trail.")
@common.reported
def budget(
    vault: Vault,
    limit: float | None,
    delta: float | None,
    data_set: str,
    acknowledge: bytes | None,
    reconcile: bool,
    by: str | None,
) -> common.Report:
    """Show what differentially private sessions have spent of each data set; set a limit; acknowledge an incident.

    A session spends its budget when the site's submission leaves; that it is sent again costs nothing, a new session
    does. Epsilons and deltas add up (basic composition), over budgets for rows, labels and scores alike; the sums are
    bounds for what all these sessions protect, which is shown. A session's delta must be below 1 over the rows put in,
    and so must the sum. Where there is a limit, sessions without a budget are refused. Where there is none, such
    sessions may have told exact results of these rows: how many, and since when, is shown. No epsilon bounds these.

    A result of a session with a budget that is refused is an incident: that it was refused can be one exact bit, chosen
    by the aggregator. No session on the data set goes on until somebody has acknowledged it. Nor does one with a budget
    where the key store was restored from a backup, until somebody has looked into what it lacks (--reconcile).
    """
    if (acknowledge is None and not reconcile) is not (by is None):
        raise click.UsageError("give --acknowledge, or --reconcile, and --by together")
    if delta is not None and limit is None:
        raise click.UsageError("--delta goes with --limit")
    if (limit is not None) + (acknowledge is not None) + reconcile > 1:
        raise click.UsageError("give --limit, --acknowledge or --reconcile, one at a time")
    with vault.open() as store, store.together():
        if limit is not None:
            _note(store, "limited", budgets.set_limit(store, data_set, limit, delta))
        elif acknowledge is not None and by is not None:
            _note(store, "acknowledged", budgets.acknowledge(store, acknowledge.hex(), by))
        elif by is not None:
            _note(store, "reconciled", budgets.reconcile(store, by))
        ledger = budgets.LEDGER.stored(store)
    rows: common.Rows = []
    told = {}
    used = {each.data_set for each in ledger.entries.values()}
    for name in sorted({*used, *(each for each, _ in ledger.exact.values()), *ledger.limits, budgets.DEFAULT_DATA_SET}):
        (epsilon, deltas), most = ledger.spent(name), ledger.limits.get(name)
        note = "no limit" if most is None else f"of {most.epsilon:g}; {max(0.0, most.epsilon - epsilon):g} is left"
        rows.append((name, f"epsilon {epsilon:g}", note))
        if deltas or (most is not None and most.delta is not None):
            below = "must stay below 1/rows" if most is None or most.delta is None else f"of {most.delta:g}"
            rows.append(("", f"delta {deltas:g}", below))
        protects = ledger.protects(name) if name in used else None
        if protects is not None:
            rows.append(("", "these sums", f"(basic composition) bound what is told of: {protects}"))
        out = sorted(datetime.fromtimestamp(at, timezone.utc) for each, at in ledger.exact.values() if each == name)
        if out:
            known = f"up to {len(out)}, of sessions without a budget since {out[0]:%Y-%m-%d %H:%M}"
            rows.append(("", "EXACT RESULTS", f"{known}: no epsilon bounds these"))
        since = {"sessions": len(out), "since": out[0].isoformat()} if out else None
        most_told = None if most is None else msgspec.structs.asdict(most)
        told[name] = {"epsilon": epsilon, "delta": deltas, "limit": most_told, "protects": protects, "exact": since}
        for session, entry in ledger.of(name).items():
            when = datetime.fromtimestamp(entry.at, timezone.utc)
            what = f"{entry.epsilon:g} a {entry.unit}" + (f", delta {entry.delta:g}" if entry.delta else "")
            rows.append(("", what, f"{when:%Y-%m-%d %H:%M}, {entry.protocol}, session {session[:8]}"))
            if entry.refused:
                by_whom = f"acknowledged by {entry.acknowledged}" if entry.acknowledged else "NOT acknowledged"
                rows.append(("", "INCIDENT", f"session {session}: result refused, {entry.refused}; {by_whom}"))
    if ledger.restored:
        rows.append(("", "RESTORED", "what was spent since the backup is not here: --reconcile once that is known"))
    sessions = {session: msgspec.structs.asdict(entry) for session, entry in ledger.entries.items()}
    return common.Report({"data_sets": told, "sessions": sessions, "restored": ledger.restored}, rows)


def _note(store: KeyStore, event: str, facts: Mapping[str, Any]) -> None:
    audit.append_line(store, own_identity(store), event, at=common.now(), **facts)

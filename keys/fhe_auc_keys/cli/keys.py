"""The commands ``fhe-auc keys …``: what is in a key store, what is spent of its rows, and the end of its keys."""

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import click
import msgspec

from fhe_auc.cli import output
from fhe_auc.cli.inputs import option
from fhe_auc.cli.settings import CommandGroup
from fhe_auc_keys.bundles.announcement import claimed
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.cli import common
from fhe_auc_keys.errors import KeysError, VersionError
from fhe_auc_keys.site import key_erasure, making
from fhe_auc_keys.site.store_check import problems
from fhe_auc_keys.store import audit, known_members
from fhe_auc_keys.store import budget as budgets
from fhe_auc_keys.store.key_store import KeyStore, session_ids
from fhe_auc_keys.store.vault import OWN, Vault, own_identity
from fhe_auc_keys.trust.identity import Identity

_HELP = """Look after key stores.

Who runs what:

\b
each party    budget               shows what noisy sessions have spent of its rows; sets a limit
everybody     show                 shows what is in a key store; with --check verifies everything
everybody     close                destroys the keys of sessions that have ended

Private keys stay in key stores, which a passphrase encrypts; `fhe-auc members` and `fhe-auc join` make them. Whatever
is sent is public or sealed to one recipient.
"""
_DELTA = "With --limit: most delta that they may spend together. Default: anything below 1 over the rows put in."
_DATA_SET = "Rows that --limit is for, as data-set in the site's configuration names them."
_ACKNOWLEDGE = "Say that somebody has looked into why this session's result was refused. Needs --by."
_RECONCILE = (
    "Say that somebody has looked into what the ledger of a restored key store lacks, and has set limits so that they "
    "are right: from now on it counts. Needs --by."
)
_LOSE_RESULT = (
    "Also where there is no result yet: this site then gets none, nor does anybody where all must answer, or where "
    "this is the helper's store."
)


@click.group(
    cls=CommandGroup,
    help=_HELP,
    epilog=output.examples(
        "fhe-auc keys show --store keystore --json  what is in a key store, for scripts",
        "fhe-auc keys close --help                  what a command does, with examples",
    ),
)
def keys() -> None:
    """Look after key stores."""


@common.command(
    "Show what sessions have spent of a privacy budget; set a limit; acknowledge an incident.",
    "fhe-auc keys budget --store keystore             what is spent, and what is left",
    "fhe-auc keys budget --limit 4 --store keystore   from now on sessions beyond 4 in all are refused",
    'fhe-auc keys budget --acknowledge SESSION --by "Ada Osei" --store keystore',
)
@common.key_store
@option("--limit EPSILON", "Most epsilon that all sessions may spend together.", type=click.FloatRange(0, 1e6))
@option("--delta DELTA", _DELTA, type=click.FloatRange(0, 1, max_open=True))
@option("--data-set NAME", _DATA_SET, default=budgets.DEFAULT_DATA_SET)
@option("--acknowledge SESSION", _ACKNOWLEDGE, type=common.SessionId())
@option("--reconcile", _RECONCILE)
@option("--by NAME", "Who has looked into it; stands in the audit trail.", name="who")
@common.reported
def budget(
    vault: Vault,
    limit: float | None,
    delta: float | None,
    data_set: str,
    acknowledge: bytes | None,
    reconcile: bool,
    who: str | None,
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
    if (acknowledge is None and not reconcile) is not (who is None):
        raise click.UsageError("give --acknowledge, or --reconcile, and --by together")
    if delta is not None and limit is None:
        raise click.UsageError("--delta goes with --limit")
    if (limit is not None) + (acknowledge is not None) + reconcile > 1:
        raise click.UsageError("give --limit, --acknowledge or --reconcile, one at a time")
    with vault.open() as store, store.together():
        if limit is not None:
            _note(store, "limited", budgets.set_limit(store, data_set, limit, delta))
        elif acknowledge is not None and who is not None:
            _note(store, "acknowledged", budgets.acknowledge(store, acknowledge.hex(), who))
        elif who is not None:
            _note(store, "reconciled", budgets.reconcile(store, who))
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


@common.command(
    "Show what is in a key store.",
    "fhe-auc keys show --store keystore",
    "fhe-auc keys show --store keystore --check --json | jq .problems",
)
@common.key_store
@option("--check", "Verify all of it instead; exit status 1 where anything is wrong.")
@common.reported
def show(vault: Vault, check: bool) -> common.Report:
    """Show whose key store it is, which members it knows, and what has become of its sessions; never a secret.

    With --check everything in it is read and verified, and what is wrong shown with its remedy: every entry must
    decrypt and be whole, and nothing else lie in the folder; the members' file must not have ended; sessions that are
    not over need genuine signatures, members alone, all keys, and an encryption library that works here; the audit
    trail must be whole, and in the privacy ledger no incident that nobody has acknowledged. Nothing is changed.
    """
    with vault.open() as store:
        if not check:
            return _stored(store)
        found = problems(store, at=common.now())
    rows: common.Rows = [(each.entry, f"{each.wrong}: {each.remedy}") for each in found]
    facts = {"store": vault.directory, "problems": [each._asdict() for each in found]}
    nothing: common.Rows = [("key store", f"nothing is wrong in {str(vault.directory)!r}")]
    return common.Report(facts, rows or nothing, failed=bool(found))


def _stored(store: KeyStore) -> common.Report:
    rows: common.Rows = [("key store", output.styled(str(store.directory), "bold"), "passphrase is right")]
    facts: dict[str, Any] = {"store": store.directory, "name": None, "members": None}
    known = known_members.known(store)
    if store.has("identity", OWN):
        identity = Identity.from_bytes(store.get("identity", OWN))
        facts["name"] = identity.name
        is_in = known is not None and known.by_name.get(identity.name) == identity.line
        rows.append((identity.name, "is a member" if is_in else "is NO member", "its private keys are here"))
    if known is not None:
        facts["members"] = {"version": known.version, "ends": known.ends, "names": list(known.by_name)}
        rows.append(
            ("members", f"version {known.version}, until {common.moment(known.ends)}", ", ".join(known.by_name))
        )
    sessions = {each: _session(store, each) for each in session_ids(store, "bundle")}
    rows += [("made", name, "its files are in the exchange until it is over") for name in making.sessions_sent(store)]
    rows += [("session", each, told) for each, (_, told) in sessions.items()]
    return common.Report({**facts, "sessions": {each.hex(): found for each, (found, _) in sessions.items()}}, rows)


def _session(store: KeyStore, session: bytes) -> tuple[dict[str, Any], str]:
    """Return what has become of a session, for programs and in words."""
    try:
        kept = Kept.stored(store, session)
    except KeysError:
        damaged = {"state": "damaged", "until": None, "has_result": False, "end_seen": None}
        return damaged, "DAMAGED: see `fhe-auc keys show --check`"
    seen = datetime.fromtimestamp(kept.end_seen, timezone.utc) if kept.end_seen else None
    ends = common.moment(kept.ends)
    if kept.closed:
        state, told = "closed", f"closed{', with its result' if kept.has_result else ''}; its keys are destroyed"
    elif common.now() > kept.ends:
        looked = "which nobody has noted yet" if seen is None else f"first seen on {common.moment(seen)}"
        later = f"`fhe-auc serve` destroys its keys {key_erasure.APART.days} days after that was seen"
        state, told = "ended", f"ended on {ends}, {looked}: {later}"
    else:
        state, told = "opened", f"opened; what it needs is here, until {ends}"
        try:
            claimed(kept.announcement)
        except VersionError:
            state = "of another version"
            told = (
                "of another version of fhe-auc: it does not go on here; make a new session, and close this one "
                "(`fhe-auc keys close SESSION --lose-result`)"
            )
    return {"state": state, "until": kept.ends, "has_result": kept.has_result, "end_seen": seen}, told


@common.command(
    "Destroy the keys of a session that is given up.",
    "fhe-auc keys close 31c4ce5c3af100a30dd3d4d0b7191bc8 --lose-result    say since another session replaces it",
)
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True, type=common.SessionId())
@common.key_store
@option("--lose-result", _LOSE_RESULT)
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


for _command in (budget, show, close):
    keys.add_command(_command)

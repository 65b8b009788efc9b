"""``fhe-auc keys show``: what is in a key store, in plain words, and whether it is whole; never a secret."""

from datetime import datetime, timezone
from typing import Any

import click

from fhe_auc.cli import output
from fhe_auc_keys.bundles.announcement import claimed
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.trust import key_store
from fhe_auc_keys.errors import KeysError, VersionError
from fhe_auc_keys.site import key_erasure, making
from fhe_auc_keys.site.store_check import problems
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.key_store import KeyStore, session_ids
from fhe_auc_keys.store.vault import OWN, Vault
from fhe_auc_keys.trust.identity import Identity


@common.command(
    "Show what is in a key store.",
    "fhe-auc keys show --store keystore",
    "fhe-auc keys show --store keystore --check --json | jq .problems",
)
@key_store
@click.option("--check", is_flag=True, help="Verify all of it instead; exit status 1 where anything is wrong.")
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

"""``fhe-auc keys show``: what is in a key store, in plain words; never a secret."""

from datetime import datetime, timezone
from typing import Any

from fhe_auc.cli import output
from fhe_auc_keys.bundles.announcement import claimed
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.trust import key_store
from fhe_auc_keys.errors import KeysError, VersionError
from fhe_auc_keys.site import key_erasure, making
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.key_store import KeyStore, session_ids
from fhe_auc_keys.store.vault import OWN, Vault
from fhe_auc_keys.trust.identity import Identity


@common.command(
    "Show what is in a key store.",
    "fhe-auc keys show --store keystore",
    "fhe-auc keys show --store keystore --json    for scripts",
)
@key_store
@common.reported
def show(vault: Vault) -> common.Report:
    """Show whose key store it is, which members it knows, and what has become of its sessions; never a secret.

    Whether all is well in it is what `check` finds out.
    """
    with vault.open() as store:
        return _stored(store)


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
        return damaged, "DAMAGED: see `fhe-auc keys check`"
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

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
    rows += [("session", each, _in_words(**found)) for each, found in sessions.items()]
    return common.Report({**facts, "sessions": {each.hex(): found for each, found in sessions.items()}}, rows)


def _session(store: KeyStore, session: bytes) -> dict[str, Any]:
    """Return what has become of a session: its state in a word, until when it can go on, and if its result is here.

    ``end_seen``: when its end was first seen.
    """
    try:
        kept = Kept.stored(store, session)
    except KeysError:
        return {"state": "damaged", "until": None, "has_result": False, "end_seen": None}
    state = "closed" if kept.closed else "ended" if common.now() > kept.ends else "opened"
    if state == "opened":
        try:
            claimed(kept.announcement)
        except VersionError:
            state = "of another version"
    seen = datetime.fromtimestamp(kept.end_seen, timezone.utc) if kept.end_seen else None
    return {"state": state, "until": kept.ends, "has_result": kept.has_result, "end_seen": seen}


def _in_words(state: str, until: datetime | None, has_result: bool, end_seen: datetime | None) -> str:
    """Say the same in words."""
    ends = "" if until is None else common.moment(until)
    looked = "which nobody has noted yet" if end_seen is None else f"first seen on {common.moment(end_seen)}"
    later = f"{key_erasure.APART.days} days after that was seen"
    return {
        "damaged": "DAMAGED: see `fhe-auc keys check`",
        "closed": f"closed{', with its result' if has_result else ''}; its keys are destroyed",
        "ended": f"ended on {ends}, {looked}: `fhe-auc serve` destroys its keys {later}",
        "of another version": "of another version of fhe-auc: it does not go on here; make a new session, and "
        "close this one (`fhe-auc keys close SESSION --lose-result`)",
        "opened": f"opened; what it needs is here, until {ends}",
    }[state]

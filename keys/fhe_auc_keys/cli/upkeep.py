"""``fhe-auc keys check``, ``close``: whether a key store is whole and of use, and the end of keys that have served."""

import click

from fhe_auc.cli import output
from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.trust import key_store
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site import key_erasure
from fhe_auc_keys.site.store_check import problems
from fhe_auc_keys.store.key_store import KeyStore, session_ids
from fhe_auc_keys.store.vault import Vault


@common.command(
    "Verify everything in a key store.",
    "fhe-auc keys check --store keystore",
    "fhe-auc keys check --store keystore --passphrase-file passphrase --json | jq .problems",
)
@key_store
@common.reported
def check(vault: Vault) -> common.Report:
    """Read and verify everything in the key store: exit status 1 where anything is wrong, with the remedy on its line.

    Every entry must decrypt and be whole, and nothing else lie in the folder. Certificates and revocation lists must be
    current. Sessions that are not over need genuine signatures, nobody in them revoked, all keys, and an encryption
    library that works here. The audit trail must be whole, and the privacy ledger say the same as it does, with no
    incident that nobody has acknowledged. Nothing is changed, but that files are removed which a crash left
    half-written.
    """
    with vault.open() as store:
        found = problems(store, at=common.now())
    rows: common.Rows = [(each.entry, f"{each.wrong}: {each.remedy}") for each in found]
    facts = {"store": vault.directory, "problems": [each._asdict() for each in found]}
    nothing: common.Rows = [("key store", f"nothing is wrong in {str(vault.directory)!r}")]
    return common.Report(facts, rows or nothing, failed=bool(found))


@common.command(
    "Destroy the keys of sessions that have ended.",
    "fhe-auc keys close --ended --store keystore     all that have ended",
    'fhe-auc keys close "31c4 ce5c 3af1 00a3 0dd3 d4d0 b719 1bc8" --lose-result',
    "        one that can still go on, as `show` writes it, say since another replaces it",
)
@click.argument("sessions", metavar="[SESSION]...", nargs=-1, type=common.SESSION_ID)
@key_store
@click.option("--ended", is_flag=True, help="All sessions in the key store that have ended.")
@click.option(
    "--lose-result",
    is_flag=True,
    help="Also a session that can still go on: this site then gets no result of it, nor does anybody where all must "
    "answer, or where this is the helper's store.",
)
@common.reported
def close(sessions: tuple[bytes, ...], vault: Vault, ended: bool, lose_result: bool) -> common.Report:
    """Destroy the keys of each SESSION, named by its id, in the key store.

    The secret key goes, and a party's seed. A site closes a session by itself once it has the result. What stays: that
    the bundle was opened, so that it never opens again; until the session's end the last answer, for an aggregator that
    asks again; and the announcement.

    As a clock can be wrong, a session has ended once it is 8 days ago that a command has seen it past its end, and
    written that down; `show` says when. Until then it is refused without --lose-result. Backups hold keys that were
    there when they were made, encrypted.
    """
    if bool(sessions) is ended:
        raise click.UsageError("name a session, or give --ended, and not both")
    if ended and lose_result:
        raise click.UsageError("--lose-result is for sessions that are named")
    with vault.open() as store:
        at = common.now()
        over, found = key_erasure.note_ends(store, at=at), _open(store) if ended else dict.fromkeys(sessions, True)
        closing = [session for session in found if session in over or not ended]
        for session in closing:
            key_erasure.close(store, session, at=at, lose_result=lose_result)
        seen = key_erasure.noted_ends(store)
    closed = [session for session in closing if found[session]]
    waits = [session for session in found if found[session] and session not in closing and session.hex() in seen]
    rows: common.Rows = [("closed", each, "its keys are destroyed") for each in closed]
    rows += [("ended", each, f"closed {key_erasure.APART.days} days after that was first seen") for each in waits]
    nothing: common.Rows = [("closed", "none", "no session here has ended that is not closed")]
    return common.Report({"store": vault.directory, "closed": closed, "waiting": waits}, rows or nothing)


def _open(store: KeyStore) -> dict[bytes, bool]:
    """Return the store's sessions, and whether more of each is left than its last answer; warn of damaged entries."""
    found = {}
    for session in session_ids(store, "bundle"):
        try:
            found[session] = not key_erasure.is_closed(store, session)
        except KeysError as error:
            output.print_warning(f"session {session.hex()} is left as it is: {error}")
    return found

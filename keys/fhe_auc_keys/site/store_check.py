"""A key store read as a whole: whether every entry decrypts, parses, is complete, and can still be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple, get_args

from fhe_auc.base.errors import BackendUnavailableError, FheAucError
from fhe_auc.machines.answers import without_secrets
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.errors import ExpiredError, RevokedError, UnsafeModeError, VersionError
from fhe_auc_keys.site import making, policy, restored
from fhe_auc_keys.site.session_files import verify_kept
from fhe_auc_keys.store import audit, budget, known_members
from fhe_auc_keys.store.key_store import KeyStore, Kind, session_ids
from fhe_auc_keys.store.vault import OWN
from fhe_auc_keys.trust.identity import Identity

_RESTORE = "restore it from the backup"
_NEW_SESSION = "ask for a new session: out of a backup, a seed that is used could come back"
_REMEDIES: tuple[tuple[type[FheAucError], str], ...] = (
    (RevokedError, "ask the coordinator why, and close what is open with them"),
    (ExpiredError, "ask the coordinator to renew it, and check the clock"),
    (UnsafeModeError, "and find out who has read it"),
    (VersionError, "close it here, `fhe-auc keys close SESSION --lose-result`"),
    (BackendUnavailableError, "install it: no round can be answered without"),
)


class StoreProblem(NamedTuple):
    """What is wrong with an entry of a key store, in a sentence, and what to do."""

    entry: str  # "bundle/…", from the store's folder on
    wrong: str
    remedy: str


def problems(store: KeyStore, *, at: datetime) -> list[StoreProblem]:
    """Return all that is wrong with an open key store; `at` is the present, with a time zone.

    A sentence that holds for several entries is told of the first. Sessions that are closed, or past their validity,
    only have to be whole: nothing can be done with them any more.
    """
    found: dict[str, StoreProblem] = {}

    def note(entry: str, wrong: str, remedy: str) -> None:
        found.setdefault(wrong, StoreProblem(entry, wrong, remedy))

    @contextmanager
    def checking(entry: str) -> Iterator[None]:
        """Note what is wrong with an entry; those on which others hang come first."""
        try:
            yield
        except FheAucError as error:
            wrong = str(error).removesuffix(f"; {_RESTORE}")
            whole = _NEW_SESSION if entry.startswith(("bundle/", "fleet/", "list/", "state/")) else _RESTORE
            remedy = next((text for kind, text in _REMEDIES if isinstance(error, kind)), whole)
            of_one = entry if isinstance(error, VersionError) else ""
            remedy = remedy.replace("SESSION", entry.partition("/")[2])
            found.setdefault(of_one + wrong, StoreProblem(entry, wrong, remedy))

    for stranger in store.strangers():
        note(stranger, f"{stranger!a} is nothing that a command has put into the key store", "move it elsewhere")
    for kind in get_args(Kind):
        for name in store.names(kind):
            with checking(f"{kind}/{name}"):
                store.get(kind, name)
    with checking(of_members := f"trust/{known_members.NAME}"):
        if (members := known_members.known(store)) is not None:
            members.check_time(at)
    with checking(f"trust/{policy.NAME}"):
        policy.agreed(store)
    with checking(f"trust/{making.NAME}"):
        making.sessions_sent(store)
    if store.has("identity", OWN):
        with checking(f"identity/{OWN}"):
            identity, members = Identity.from_bytes(store.get("identity", OWN)), known_members.known(store)
            if members is not None and identity.name in members.by_name:  # who waits to be let in is whole, too
                identity.member(members, at=at)
    for session in session_ids(store, "bundle"):
        with checking(f"bundle/{session.hex()}"):
            kept = Kept.stored(store, session)
            if at <= kept.ends and not kept.closed:
                verify_kept(store, session, at=at)
    for session in session_ids(store, "made"):
        with checking(f"made/{session.hex()}"):
            making.sent_files(store, session)
    for session in session_ids(store, "state"):
        with checking(f"state/{session.hex()}"):
            without_secrets(store.get("state", session.hex()), answer=True)
    if store.has("trust", known_members.NAME) and all(each.entry != of_members for each in found.values()):
        for wrong in audit.read_trail(store.trail(), known_members.stored(store), at=at).problems:
            note("trail", wrong, "compare it with a copy elsewhere, and find out who can write here")
    with checking(ledger := f"budget/{budget.LEDGER.name}"):
        if told := restored.warning(store):
            note(f"trust/{restored.NAME}", told, "find out who has put it back")
        for name, entry in budget.LEDGER.stored(store).entries.items():
            if entry.is_open:
                wrong = f"the result of session {name} was refused ({entry.refused}), and nobody has acknowledged it"
                note(ledger, wrong, f"find out why; then `fhe-auc keys budget --acknowledge {name} --by NAME`")
    return list(found.values())

"""A key store read as a whole: whether every entry decrypts, parses, is complete, and can still be used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
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
    for stranger in store.strangers():
        wrong = f"{stranger!a} is nothing that a command has put into the key store"
        found[wrong] = StoreProblem(stranger, wrong, "move it elsewhere")
    for entry, check in _checks(store, at):
        try:
            check()
        except FheAucError as error:
            wrong = str(error).removesuffix(f"; {_RESTORE}")
            whole = _NEW_SESSION if entry.startswith(("bundle/", "fleet/", "list/", "state/")) else _RESTORE
            remedy = next((text for kind, text in _REMEDIES if isinstance(error, kind)), whole)
            of_one = entry if isinstance(error, VersionError) else ""
            remedy = remedy.replace("SESSION", entry.partition("/")[2])
            found.setdefault(of_one + wrong, StoreProblem(entry, wrong, remedy))
    known = all(problem.entry != f"trust/{known_members.NAME}" for problem in found.values())
    for problem in _record_problems(store, at, known=known):
        found.setdefault(problem.wrong, problem)
    return list(found.values())


def _record_problems(store: KeyStore, at: datetime, *, known: bool) -> Iterator[StoreProblem]:
    """Yield what is wrong with the ledger and, where the members are `known`, with the audit trail."""
    if known and store.has("trust", known_members.NAME):
        for wrong in audit.read_trail(store.trail(), known_members.stored(store), at=at).problems:
            yield StoreProblem("trail", wrong, "compare it with a copy elsewhere, and find out who can write here")
    ledger = f"budget/{budget.LEDGER.name}"
    try:
        if told := restored.warning(store):
            yield StoreProblem(f"trust/{restored.NAME}", told, "find out who has put it back")
        for session, entry in budget.LEDGER.stored(store).entries.items():
            if entry.is_open:
                wrong = f"the result of session {session} was refused ({entry.refused}), and nobody has acknowledged it"
                remedy = f"find out why; then `fhe-auc keys budget --acknowledge {session} --by NAME`"
                yield StoreProblem(ledger, wrong, remedy)
    except FheAucError as error:
        yield StoreProblem(ledger, str(error).removesuffix(f"; {_RESTORE}"), _RESTORE)


def _checks(store: KeyStore, at: datetime) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each entry with what raises where it is of no use, those first on which others hang."""
    for kind in get_args(Kind):
        for name in store.names(kind):
            yield f"{kind}/{name}", partial(store.get, kind, name)
    yield f"trust/{known_members.NAME}", partial(_check_members, store, at)
    yield f"trust/{policy.NAME}", partial(policy.agreed, store)
    yield f"trust/{making.NAME}", partial(making.sessions_sent, store)
    if store.has("identity", OWN):
        yield f"identity/{OWN}", partial(_check_identity, store, at)
    for session in session_ids(store, "bundle"):
        yield f"bundle/{session.hex()}", partial(_check_session, store, session, at)
    for session in session_ids(store, "made"):
        yield f"made/{session.hex()}", partial(making.sent_files, store, session)
    for session in session_ids(store, "state"):
        yield f"state/{session.hex()}", partial(_check_state, store, session)


def _check_members(store: KeyStore, at: datetime) -> None:
    if (members := known_members.known(store)) is not None:
        members.check_time(at)


def _check_identity(store: KeyStore, at: datetime) -> None:
    identity, members = Identity.from_bytes(store.get("identity", OWN)), known_members.known(store)
    if members is not None and identity.name in members.by_name:  # who waits to be let in is whole, too
        identity.member(members, at=at)


def _check_session(store: KeyStore, session: bytes, at: datetime) -> None:
    kept = Kept.stored(store, session)
    if at <= kept.ends and not kept.closed:
        identity = Identity.from_bytes(store.get("identity", OWN))
        verify_kept(store, session, identity, known_members.stored(store), at=at)


def _check_state(store: KeyStore, session: bytes) -> None:
    without_secrets(store.get("state", session.hex()), answer=True)

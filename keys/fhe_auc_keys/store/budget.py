"""The ledger of a site's rows: what differentially private sessions have spent, the limits, and what was refused.

One entry of the key store, written in one transaction with the submission and the audit trail's line about it, before
that leaves, and kept when sessions are closed. The same submission, sent again, is in the same line; a new session on
the same rows is another one. Where a store was put back to an older one, its ledger lacks what was spent since: then
it is `restored`, and nothing that has to do with a budget goes on until somebody has looked into that (`reconcile`).

Sessions on the same *data set*, which is what a site calls so, add up (basic composition; Dwork and Roth, "The
algorithmic foundations of differential privacy", 2014, theorem 3.16), for what each of them protects: a row, its label
or its score. A session's delta is below 1 over the rows that the site puts in, as with more it may publish a row; the
sum is below 1 over the most rows put into any, unless its limit says otherwise. Where a data set has a limit, a session
without noise is refused, and one after which nothing is left that all protect. A result that is refused is an incident
(docs/security/verified.md).

No epsilon bounds what sessions without a budget tell: `Ledger.exact` says which there were.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from fhe_auc.base.errors import InputError
from fhe_auc.base.serialise import KeptFormat
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Spending
from fhe_auc_keys.store.key_store import KeyStore, Record

DEFAULT_DATA_SET = "rows"
MOST_CHARACTERS = 100
INCIDENTS = ("ResultCheckError", "VerificationError")
"""Names of the errors with which a session ends whose result has failed its checks."""

_ROUNDING = 1e-9  # sums of ten times 0.1 may reach a limit of 1
_PROTECTS: Mapping[str, set[str]] = {"row": {"label", "score"}, "label": {"label"}, "score": {"score"}}


class Limit(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Most that a data set's sessions may spend together; `delta` None: anything below 1 over the rows."""

    epsilon: float
    delta: float | None = None


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one session has spent; `at` is in seconds since 1970.

    `rows` were put in; `refused` names the error where the result failed the checks, `acknowledged` who looked into it.
    """

    data_set: str
    protocol: str
    epsilon: float
    delta: float
    unit: str
    rows: int
    at: int
    refused: str = ""
    acknowledged: str = ""

    def facts(self) -> dict[str, Any]:
        """Return what the audit trail says of it, as plain JSON."""
        told = msgspec.structs.asdict(self)
        return {name: told[name] for name in told if name not in ("at", "acknowledged") and told[name] != ""}

    @property
    def is_open(self) -> bool:
        """Whether it is an incident that nobody has acknowledged."""
        return bool(self.refused) and not self.acknowledged


class Ledger(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Limits by data set, and what each session has spent, by its id in hex, in order.

    `exact` has the data set, and when that was (in seconds since 1970), of each session without a budget.
    """

    limits: dict[str, Limit] = {}
    entries: dict[str, Entry] = {}
    exact: dict[str, tuple[str, int]] = {}
    restored: bool = False  # whether it may lack what was spent, and nobody has looked into that

    def with_entry(self, session: str, entry: Entry) -> Ledger:
        """Return this with a session's entry, in place of another."""
        return msgspec.structs.replace(self, entries={**self.entries, session: entry})

    def of(self, data_set: str) -> dict[str, Entry]:
        """Return a data set's entries."""
        return {session: each for session, each in self.entries.items() if each.data_set == data_set}

    def incident(self, data_set: str) -> str:
        """Return the session that is an open incident on a data set; empty for none."""
        return next((session for session, each in self.of(data_set).items() if each.is_open), "")

    def spent(self, data_set: str) -> tuple[float, float]:
        """Return the sums of epsilon and of delta."""
        found = self.of(data_set).values()
        return sum(each.epsilon for each in found), math.fsum(each.delta for each in found)

    def protects(self, data_set: str) -> str:
        """Return in words what the sums are bounds for: what every session protects, "nothing" where that is none."""
        return " and ".join(sorted(_protected(each.unit for each in self.of(data_set).values()))) or "nothing"


LEDGER = Record("budget", "ledger", KeptFormat(b"fheledg", Ledger, "privacy ledger"), Ledger())


def spend(
    store: KeyStore, data_set: str, manifest: Manifest, spending: Spending | None, *, rows: int, at: datetime
) -> Mapping[str, Any]:
    """Write down what a session spends; return what the audit trail has to say of it.

    `rows` are those that the site puts in; `spending` None is no bound. Raise `InputError`, and write nothing, where it
    is more than is left, its delta is too large, or spent without a bound where there is a limit; where an incident on
    the data set is not acknowledged, or a restored ledger not reconciled; or where the site has submitted before.
    """
    name, ledger = manifest.session.hex(), LEDGER.stored(store)
    if name in ledger.entries or name in ledger.exact:
        raise InputError("the site has submitted in this session, and its state is gone: it answers nothing more")
    if reason := incident_of(ledger, data_set) or _objection(ledger, data_set, spending, rows):
        raise InputError(f"{reason}; nothing was sent")
    now = int(at.timestamp())
    if spending is None:
        LEDGER.keep(store, msgspec.structs.replace(ledger, exact={**ledger.exact, name: (data_set, now)}))
        return {"exact": data_set}
    entry = Entry(data_set, manifest.protocol, spending.epsilon, spending.delta, spending.unit, rows, now)
    LEDGER.keep(store, ledger.with_entry(name, entry))
    return {"spent": entry.facts()}


def refuse(store: KeyStore, manifest: Manifest, error: str) -> None:
    """Write down that a session's result was refused, with an error of `INCIDENTS`; nothing where it had no budget."""
    name, ledger = manifest.session.hex(), LEDGER.stored(store)
    if name in ledger.entries and not ledger.entries[name].refused:
        LEDGER.keep(store, ledger.with_entry(name, msgspec.structs.replace(ledger.entries[name], refused=error)))


def stop(store: KeyStore, data_set: str, manifest: Manifest) -> None:
    """Raise `InputError` where an open incident keeps a session that has spent from going on, to one more verdict."""
    ledger, name = LEDGER.stored(store), manifest.session.hex()
    if name in ledger.entries and name != ledger.incident(data_set) and (reason := incident_of(ledger, data_set)):
        raise InputError(reason)


def acknowledge(store: KeyStore, session: str, by: str) -> Mapping[str, Any]:
    """Say who has looked into an incident; return what the audit trail has to say. `InputError` where it is none."""
    checked_name("by", by)
    ledger = LEDGER.stored(store)
    entry = ledger.entries.get(session)
    if entry is None or not entry.is_open:
        raise InputError(f"session {session} is no incident to acknowledge (`fhe-auc keys budget` shows what is)")
    LEDGER.keep(store, ledger.with_entry(session, msgspec.structs.replace(entry, acknowledged=by)))
    return {"session": session, "by": by, "spent": entry.facts()}


def note_restored(store: KeyStore) -> None:
    """Write down that the store was put back to an older one.

    Where no session had a budget, and no data set a limit, there is nothing that the ledger could lack.
    """
    ledger = LEDGER.stored(store)
    if ledger.entries or ledger.limits:
        LEDGER.keep(store, msgspec.structs.replace(ledger, restored=True))


def reconcile(store: KeyStore, by: str) -> Mapping[str, Any]:
    """Say who has looked into what a restored ledger lacks: it counts as it is from now on; return facts as above.

    What was spent since the backup, a copy of the audit trail or the results say; that much less is the limit then.
    """
    checked_name("by", by)
    ledger = LEDGER.stored(store)
    if not ledger.restored:
        raise InputError("this key store was not restored from a backup: there is nothing to reconcile")
    LEDGER.keep(store, msgspec.structs.replace(ledger, restored=False))
    return {"by": by}


def set_limit(store: KeyStore, data_set: str, epsilon: float, delta: float | None = None) -> Mapping[str, Any]:
    """Set a data set's limits; return what the audit trail has to say. `InputError` where `data_set` is no name."""
    ledger, limit = LEDGER.stored(store), Limit(epsilon, delta)
    limits = {**ledger.limits, checked_name("data-set", data_set): limit}
    LEDGER.keep(store, msgspec.structs.replace(ledger, limits=limits))
    return {"limit": {"data_set": data_set, **msgspec.structs.asdict(limit)}}


def checked_name(what: str, name: str) -> str:
    """Return the name of a data set or of a person; raise `InputError`, which says `what`, where it is none."""
    if not (0 < len(name) <= MOST_CHARACTERS and name.isprintable() and name == name.strip()):
        raise InputError(f"{what}: a name has 1 to {MOST_CHARACTERS} printable characters, got {name!a}")
    return name


def _protected(units: Iterable[str]) -> set[str]:
    return {"label", "score"}.intersection(*(_PROTECTS.get(unit, set()) for unit in units))


def incident_of(ledger: Ledger, data_set: str) -> str:
    """Say which open incident, or restored ledger, keeps sessions off a data set; empty where none does."""
    if ledger.restored and (data_set in ledger.limits or ledger.of(data_set)):
        return (
            "this key store was restored from a backup, and its ledger may lack what was spent since. Find out from a "
            "copy of the audit trail, or from the results; then `fhe-auc keys budget --reconcile --by NAME`"
        )
    session = ledger.incident(data_set)
    return session and (
        f"session {session} on data set {data_set!r} ended with a result that failed its checks "
        f"({ledger.entries[session].refused}), which may have told the aggregator an exact count. Find out why; then "
        f"`fhe-auc keys budget --acknowledge {session} --by NAME`"
    )


def _objection(ledger: Ledger, data_set: str, spending: Spending | None, rows: int) -> str:
    """Say why a new session must not go on; empty where it may."""
    limit, mine = ledger.limits.get(data_set), ledger.of(data_set)
    if spending is None:
        if limit is None:
            return ""
        return f"data set {data_set!r} has a limit, and the session no privacy budget: it would spend without a bound"
    epsilon, delta = ledger.spent(data_set)
    if spending.delta * rows >= 1:
        return f"the session has delta = {spending.delta:g}, which must be below 1/rows = {1 / rows:.3g}"
    if spending.delta:
        most = None if limit is None else limit.delta
        total, largest = delta + spending.delta, max(rows, *(each.rows for each in mine.values()), 0)
        if total * largest >= 1 if most is None else total > most * (1 + _ROUNDING):
            below = f"the sum must be below 1/rows = {1 / largest:.3g}"
            bound = below if most is None else f"the limit is {most:g}"
            return (
                f"the session would spend delta = {spending.delta:g} of data set {data_set!r}, of which {delta:g} is "
                f"spent, and {bound}"
            )
    if limit is None:
        return ""
    if not _protected([spending.unit, *(each.unit for each in mine.values())]):
        return (
            f"data set {data_set!r} has a limit, and the session's budget is for a {spending.unit}, which earlier ones "
            "did not protect: then nothing is left that the limit bounds"
        )
    if epsilon + (asked := spending.epsilon + spending.after) > limit.epsilon * (1 + _ROUNDING):
        both = " and the one after it" * bool(spending.after)
        return (
            f"the session{both} would spend epsilon = {asked:g} of data set {data_set!r}, of which {epsilon:g} is "
            f"spent and {limit.epsilon:g} is the limit. Raise the limit (fhe-auc keys budget --limit), if those whom "
            "the rows are about may be told more of"
        )
    return ""

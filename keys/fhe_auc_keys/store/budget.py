"""The ledger of a site's rows: what differentially private sessions have spent, the limits, and what was refused.

One entry of the key store, written before a submission leaves, and kept when sessions are closed. The same submission,
sent again, is in the same line; a new session on the same rows is another one. The role's audit trail, which is signed
and chained, says the same of each session and limit, and each session's state what it has spent, and whether its result
was refused. Where one of the three was lost, put back to an older version or changed, they differ (`differences`), and
`spend` refuses what has to do with a budget, until somebody has looked into that and puts them right (`reconciled`).
Who can write on the disk can still remove or put back all three together, and with the role's key write a trail anew.

Sessions on the same *data set*, which is what a site calls so, add up (basic composition; Dwork and Roth, "The
algorithmic foundations of differential privacy", 2014, theorem 3.16), for what each of them protects: a row, its label
or its score. A session's delta is below 1 over the rows that the site puts in, as with more it may publish a row; the
sum is below 1 over the most rows put into any, unless its limit says otherwise. Where a data set has a limit, a session
without noise is refused, and one after which nothing is left that all protect. A result that is refused is an incident
(docs/security/private-auc.md).

No epsilon bounds what sessions without a budget tell: the trail says which there were (`exact`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.base.serialise import KeptFormat
from fhe_auc.machines.site_state import spent_by
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Spending
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.store import audit, known_members
from fhe_auc_keys.store.key_store import TRAIL, KeyStore, session_ids

DEFAULT_DATA_SET = "rows"
MOST_CHARACTERS = 100
INCIDENTS = ("ResultCheckError", "VerificationError")
"""Names of the errors with which a session ends whose result has failed its checks."""

LEDGER = "ledger"  # name of its entry in the key store
_ROUNDING = 1e-9  # sums of ten times 0.1 may reach a limit of 1
_PROTECTS: Mapping[str, set[str]] = {"row": {"label", "score"}, "label": {"label"}, "score": {"score"}}


class Limit(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Most that a data set's sessions may spend together; `delta` None: anything below 1 over the rows."""

    epsilon: float
    delta: float | None = None


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one session has spent; `at` is in seconds since 1970, and no part of what two entries have to agree on.

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
    """Limits by data set, and what each session has spent, by its id in hex, in order."""

    limits: dict[str, Limit] = {}
    entries: dict[str, Entry] = {}

    @classmethod
    def stored(cls, store: KeyStore) -> Ledger:
        """Return a key store's ledger, which may be empty; raise `DamagedFileError` where it cannot be read."""
        if LEDGER not in store.names("budget"):
            return cls()
        return store.load("budget", LEDGER, _FORMAT, "; restore it from the backup")

    def to_bytes(self) -> bytes:
        """Serialise, for a key store."""
        return _FORMAT.frame(self)

    def keep(self, store: KeyStore) -> None:
        """Put it into a key store, in place of another."""
        store.put("budget", LEDGER, self.to_bytes(), replace=True)

    def with_entry(self, session: str, entry: Entry) -> Ledger:
        """Return this with a session's entry at its end, in place of another."""
        others = {name: each for name, each in self.entries.items() if name != session}
        return Ledger(self.limits, {**others, session: entry})

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


_FORMAT = KeptFormat(b"fheledg", Ledger, "privacy ledger")


class Difference(NamedTuple):
    """What ledger, trail and states say differently; `lost` where the ledger may lack what was spent or refused."""

    wrong: str
    lost: bool


def spend(
    store: KeyStore, data_set: str, manifest: Manifest, spending: Spending | None, *, rows: int, at: datetime
) -> Mapping[str, Any]:
    """Write down what a session spends, once; return what the audit trail has to say of it.

    `rows` are those that the site puts in; `spending` None is no bound. Raise, and write nothing, `KeysError` where
    ledger, trail and states differ, and the session has a budget, or the data set a limit or earlier sessions with one.

    `InputError` where it is more than is left, its delta is too large, or spent without a bound where there is a limit;
    where an incident on the data set is not acknowledged; where the site has submitted, and its state is gone; or where
    a crash has left the session in the ledger for other rows.
    """
    name, ledger, trail = manifest.session.hex(), Ledger.stored(store), _Told.by(store, at=at)
    if spending is not None or data_set in ledger.limits.keys() | trail.limits.keys() or ledger.of(data_set):
        lost = next((each.wrong for each in _differences(store, ledger, trail) if each.lost), None)
        if lost is not None:
            raise KeysError(
                f"the privacy ledger and the audit trail differ: {lost}; nothing was sent. Find out why (keys check), "
                "then `fhe-auc keys budget --reconcile --by NAME`"
            )
    mine = ledger.entries.get(name)
    reason = incident_of(ledger, data_set)
    if reason or (mine is None and (reason := _objection(ledger, data_set, spending, rows))):
        raise InputError(f"{reason}; nothing was sent")
    if mine is not None:
        if name in trail.submitted:
            raise InputError("the site has submitted in this session, and its state is gone: it answers nothing more")
        if (mine.data_set, mine.rows) != (data_set, rows):
            raise InputError(
                f"the session was charged to {mine.rows:,} rows of data set {mine.data_set!r} before, and is now for "
                f"{rows:,} of {data_set!r}; nothing was sent"
            )
        ledger.with_entry(name, mine).keep(store)  # the trail's line is yet to come
        return {"spent": mine.facts()}
    if spending is None:
        return {"exact": data_set}
    about = spending.epsilon, spending.delta, spending.unit, rows
    found = Entry(data_set, manifest.protocol, *about, int(at.timestamp()))
    ledger.with_entry(name, found).keep(store)
    return {"spent": found.facts()}


def refuse(store: KeyStore, manifest: Manifest, error: str) -> None:
    """Write down that a session's result was refused, with an error of `INCIDENTS`; nothing where it had no budget."""
    name, ledger = manifest.session.hex(), Ledger.stored(store)
    if name in ledger.entries and not ledger.entries[name].refused:
        entry = msgspec.structs.replace(ledger.entries[name], refused=error)
        Ledger(ledger.limits, {**ledger.entries, name: entry}).keep(store)


def stop(store: KeyStore, data_set: str, manifest: Manifest) -> None:
    """Raise `InputError` where an open incident keeps a session that has spent from going on, to one more verdict."""
    ledger, name = Ledger.stored(store), manifest.session.hex()
    if name in ledger.entries and name != ledger.incident(data_set) and (reason := incident_of(ledger, data_set)):
        raise InputError(reason)


def acknowledged(store: KeyStore, session: str, by: str) -> tuple[Ledger, Entry]:
    """Return the ledger with an incident acknowledged, and its entry; it is kept once the audit trail says so."""
    checked_name("by", by)
    ledger = Ledger.stored(store)
    entry = ledger.entries.get(session)
    if entry is None or not entry.is_open:
        raise InputError(f"session {session} is no incident to acknowledge (`fhe-auc keys budget` shows what is)")
    entry = msgspec.structs.replace(entry, acknowledged=by)
    return ledger.with_entry(session, entry), entry


def reconciled(store: KeyStore, by: str, *, at: datetime) -> tuple[Ledger, Mapping[str, Any]]:
    """Return the ledger, which is not kept yet, that has all that it, the trail or a state says was spent or refused.

    Besides what the audit trail has to say first: who has looked into the differences, and the ledger that counts from
    then on. Where limits differ, the ledger's do. Raise `InputError` where nothing differs, or `by` is no name.
    """
    checked_name("by", by)
    ledger, trail = Ledger.stored(store), _Told.by(store, at=at)
    if not list(_differences(store, ledger, trail)):
        raise InputError("ledger, audit trail and sessions do not differ: there is nothing to reconcile")
    entries = {**trail.entries, **ledger.entries}
    for session, entry in (*trail.entries.items(), *_of_states(store)[0].items()):
        mine = entries.setdefault(session, entry)
        if entry.refused and not mine.refused:
            entries[session] = msgspec.structs.replace(mine, refused=entry.refused, acknowledged=entry.acknowledged)
    ledger = Ledger({**trail.limits, **ledger.limits}, entries)
    return ledger, {"by": by, "ledger": msgspec.to_builtins(ledger)}


def differences(store: KeyStore, *, at: datetime) -> list[str]:
    """Return what ledger, audit trail and states say differently, in sentences; errors as `Ledger.stored`."""
    return [each.wrong for each in _differences(store, Ledger.stored(store), _Told.by(store, at=at))]


def exact(store: KeyStore, *, at: datetime) -> list[tuple[str, datetime]]:
    """Return of each session without a budget the data set, and when rows were submitted; in order."""
    return list(_Told.by(store, at=at).exact.values())


def set_limit(store: KeyStore, data_set: str, epsilon: float, delta: float | None = None) -> Mapping[str, Any]:
    """Set a data set's limits; return what the audit trail has to say. `InputError` where `data_set` is no name."""
    ledger, limit = Ledger.stored(store), Limit(epsilon, delta)
    Ledger({**ledger.limits, checked_name("data-set", data_set): limit}, ledger.entries).keep(store)
    return {"limit": {"data_set": data_set, **msgspec.structs.asdict(limit)}}


def checked_name(what: str, name: str) -> str:
    """Return the name of a data set or of a person; raise `InputError`, which says `what`, where it is none."""
    if not (0 < len(name) <= MOST_CHARACTERS and name.isprintable() and name == name.strip()):
        raise InputError(f"{what}: a name has 1 to {MOST_CHARACTERS} printable characters, got {name!a}")
    return name


def _protected(units: Iterable[str]) -> set[str]:
    return {"label", "score"}.intersection(*(_PROTECTS.get(unit, set()) for unit in units))


def incident_of(ledger: Ledger, data_set: str) -> str:
    """Say which open incident keeps sessions off a data set; empty where none does."""
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
    if epsilon + spending.epsilon > limit.epsilon * (1 + _ROUNDING):
        return (
            f"the session would spend epsilon = {spending.epsilon:g} of data set {data_set!r}, of which {epsilon:g} is "
            f"spent and {limit.epsilon:g} is the limit. Raise the limit (fhe-auc keys budget --limit), if those whom "
            "the rows are about may be told more of"
        )
    return ""


class _Spent(msgspec.Struct, frozen=True):
    data_set: str
    protocol: str
    epsilon: float
    delta: float
    unit: str
    rows: int
    refused: str = ""

    def entry(self, at: int, *, refused: str = "", by: str = "") -> Entry:
        facts = {**msgspec.structs.asdict(self), "refused": self.refused or refused}
        return Entry(**facts, at=at, acknowledged=by)


class _Limited(msgspec.Struct, frozen=True):
    data_set: str
    epsilon: float
    delta: float | None


class _Line(msgspec.Struct, frozen=True):
    """What counts here of a line of the trail."""

    event: str
    time: datetime
    session: str = ""
    outcome: str = ""
    by: str = ""
    spent: _Spent | None = None
    limit: _Limited | None = None
    ledger: Any = None  # from which all begins anew
    exact: str = ""  # data set, of a session without a budget


class _Told(NamedTuple):
    """What a store's audit trail says of budgets."""

    limits: dict[str, Limit]
    entries: dict[str, Entry]
    submitted: set[str]  # sessions
    wrong: str  # what is wrong with it; empty where nothing is that counts
    exact: dict[str, tuple[str, datetime]]  # data sets and times of sessions without a budget, by their ids

    @classmethod
    def by(cls, store: KeyStore, *, at: datetime) -> _Told:
        path = store.directory / TRAIL
        limits: dict[str, Limit] = {}
        entries: dict[str, Entry] = {}
        submitted: set[str] = set()
        exact: dict[str, tuple[str, datetime]] = {}
        members, previous, wrong = known_members.known(store), b"", ""
        for number, text in enumerate(path.read_bytes().split(b"\n")[:-1] if path.exists() else (), 1):
            follows, previous = audit.follows(text, previous), text
            try:
                line = msgspec.json.decode(text, type=_Line)
            except msgspec.DecodeError:
                wrong = wrong or f"line {number} of the audit trail is none that a role has written"
                continue
            if not follows:
                wrong = wrong or f"before line {number} of the audit trail lines were removed or changed"
            submits = line.event == "submitted"
            says = line.spent or submits or line.limit or line.ledger or (line.outcome and line.session in entries)
            if says and (members is None or not audit.is_genuine(text, members, at=max(at, line.time))):
                wrong = wrong or f"line {number} of the audit trail is not what its role has signed"
                continue
            if submits:
                submitted.add(line.session)
                if line.exact:
                    exact.setdefault(line.session, (line.exact, line.time))  # a crash may have put it there twice
            if line.ledger is not None:
                kept = msgspec.convert(line.ledger, Ledger)
                limits, entries, wrong = dict(kept.limits), dict(kept.entries), ""
            if line.limit is not None:
                limits[line.limit.data_set] = Limit(line.limit.epsilon, line.limit.delta)
            if line.event == "acknowledged":
                entries.pop(line.session, None)  # the ledger has it at the end then, too
            if line.spent is not None:
                entries[line.session] = line.spent.entry(int(line.time.timestamp()), by=line.by)
            elif line.outcome in INCIDENTS and line.session in entries:
                entries[line.session] = msgspec.structs.replace(entries[line.session], refused=line.outcome)
        return cls(limits, entries, submitted, wrong, exact)


def _of_states(store: KeyStore) -> tuple[dict[str, Entry], set[str]]:
    """Return what states say was spent, or refused, and which submitted without a budget; none that cannot be read."""
    found, exact = {}, set()
    for session in session_ids(store, "state"):
        with suppress(FheAucError):
            spent, outcome = spent_by(store.get("state", session.hex()))
            if "spent" in spent:
                known, refused = msgspec.convert(spent["spent"], _Spent), outcome if outcome in INCIDENTS else ""
                found[session.hex()] = known.entry(0, refused=refused)
            elif "exact" in spent:
                exact.add(session.hex())
    return found, exact


def _differences(store: KeyStore, ledger: Ledger, trail: _Told) -> Iterator[Difference]:
    mine, told = ledger.entries, trail.entries
    if trail.wrong:
        yield Difference(trail.wrong, lost=True)
    entries, exact = _of_states(store)  # the ledger is held against the trail
    for session in sorted(exact - trail.submitted):
        yield Difference(f"session {session} has submitted, and the audit trail does not say so", lost=False)
    for session, each in entries.items():
        found = told.get(session)
        if found is None or _plain(found) != _plain(each) or (each.refused and not found.refused):
            what = "had its result refused" if each.refused else "spent a budget"
            yield Difference(f"session {session} has {what}, and the audit trail does not say so", lost=True)
    for session, each in told.items():
        if session not in mine:
            yield Difference(f"session {session} has spent a budget, and the ledger has no entry of it", lost=True)
        elif msgspec.structs.replace(mine[session], at=each.at) != each:
            lost = _plain(mine[session]) != _plain(each) or bool(each.refused and not mine[session].refused)
            lost |= bool(mine[session].acknowledged and not each.acknowledged)
            yield Difference(f"the ledger's entry of session {session} is not what was submitted", lost=lost)
    for session in mine.keys() - told.keys():
        yield Difference(f"the ledger has an entry of session {session}, which has not submitted", lost=False)
    if [each for each in mine if each in told] != [each for each in told if each in mine]:
        yield Difference("the ledger's entries are not in the order of the submissions", lost=False)
    for data_set in sorted(ledger.limits.keys() | trail.limits.keys()):
        if ledger.limits.get(data_set) != trail.limits.get(data_set):
            lost = data_set in trail.limits
            yield Difference(f"the limit of data set {data_set!r} is not the one that was set last", lost=lost)


def _plain(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, at=0, refused="", acknowledged="")

"""What a site keeps: the sessions that it has joined, and how far it is in each.

At a site every message may meet a fresh process. A transport calls `answer` alone: it looks up the session in the
site's state, makes the party, restores it, and writes down the answer before that leaves the site. So a round is
answered in one way, however often it is asked, and whatever dies in between.

A plug-in (entry-point group ``fhe_auc.site_state``) keeps these things: transports know nothing of keys, and keys
nothing of transports.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError, MessageError, ResultCheckError
from fhe_auc.base.exchange import Exchange, place_of
from fhe_auc.base.logs import LOGGER
from fhe_auc.base.names import AGGREGATOR
from fhe_auc.base.serialise import KeptFormat, SecretStruct, encode
from fhe_auc.input_proofs.sessions import NOT_PROVED
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.asked import Asked
from fhe_auc.rows.own_rows import near_other_sessions
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import MESSAGE, Message, Protection
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Session, Spending

GROUP = "fhe_auc.site_state"
_GONE = (
    "party {party!r}: the rows have changed since they were submitted, or cannot be read; the result is of the rows as "
    "they were, and was not compared with them"
)

_MAX_MESSAGE = 2**31  # Flower, and gRPC beneath it, carries no more; the party itself has a closer limit


class Records(ABC):
    """What a role writes down about a session so that others can check it later."""

    @abstractmethod
    def note(self, event: str, **facts: Any) -> None:
        """Add to the audit trail what has happened, and facts (plain JSON); `OSError` where that cannot be written."""

    def question(self) -> tuple[Asked | None, tuple[bytes, ...]]:
        """Return what the session's study asks, and the ids of the sessions before that answer it with this one."""
        return None, ()

    @abstractmethod
    def signed(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the role tells as plain JSON with its signature; `told` has a ``time`` (ISO, with time zone)."""


@dataclass(frozen=True)
class Joined:
    """What a role of a session between machines starts from; `material` is for the protocol's role."""

    manifest: Manifest
    material: bytes = field(repr=False)
    protection: Protection
    records: Records
    fix_list: Callable[[bytes], bytes] | None = field(default=None, repr=False)  # as of `Aggregator`
    loaded: object = field(default=None, repr=False, compare=False)  # the public context in an aggregator's material
    helps: bool = False  # whether the role is the session's helper, which has no rows and no result

    def aggregator(self) -> Aggregator:
        """Return the session's aggregator."""
        made = registry.load(self.manifest.protocol).aggregator(self.manifest, self.material)
        made.protection, made.fix_list = self.protection, self.fix_list
        return made

    @property
    def analysis(self) -> Analysis:
        """What the session estimates, which says which columns a site's rows have."""
        return registry.load(self.manifest.protocol).analysis_of(self.manifest)

    def helper(self) -> Party[Any]:
        """Return the session's helper."""
        made = registry.load(self.manifest.protocol).helper(self.manifest, self.material)
        made.protection = self.protection
        return made

    def party(self, rows: PartyData) -> Party[Any]:
        """Return the party with these rows; raise `InputError` where they are more than its cap in the session."""
        if self.manifest.study is not None:
            self.manifest.study.require_rows(rows.name, rows.rows)
        made = registry.load(self.manifest.protocol).party(self.manifest, self.material, rows)
        made.protection = self.protection
        return made


class SiteState(ABC):
    """An open, locked place where one site keeps what must not be lost nor seen."""

    name: str  # of the site, as its certificate has it: the party it is in every session

    @abstractmethod
    def session(self, session: bytes) -> Joined:
        """Return what the site's party starts from in a session; `FheAucError` where it is not, or no longer, in it."""

    @abstractmethod
    def state(self, session: bytes) -> bytes | None:
        """Return what `keep` was given last for a session; None: nothing yet."""

    @abstractmethod
    def others(self, session: bytes) -> list[bytes]:
        """Return what `keep` was given last for each other session, where it can be read."""

    @abstractmethod
    def keep(self, session: bytes, state: bytes) -> None:
        """Write down a session's state: after a crash the old or the new one is there, whole."""

    @abstractmethod
    def charge(self, manifest: Manifest, spending: Spending | None, *, rows: int) -> Mapping[str, Any]:
        """Write down what a session spends of the privacy of the site's `rows`, once; before its submission leaves.

        Returns facts for the audit trail, as plain JSON. Raises `FheAucError` where the site does not allow it.
        """

    @abstractmethod
    def stop(self, manifest: Manifest) -> None:
        """Raise `FheAucError` where a session that has spent must not go on, for what another one has ended with."""

    @abstractmethod
    def refuse(self, manifest: Manifest, error: str) -> None:
        """Write down that a result has failed its checks, with an error of this name, before all else.

        With a privacy budget, the site has to look into that before it submits these rows again.
        """

    @abstractmethod
    def spend(self, session: bytes) -> None:
        """Erase what the site's party needed to submit, and needs no more; there may be nothing."""

    @abstractmethod
    def close(self, session: bytes) -> None:
        """Erase the keys of a session that has ended here, but not its state; there may be none."""


class Meeting(NamedTuple):
    """Who meets in a session, by their members' names: whose places in an exchange it goes through."""

    session: bytes
    aggregator: str
    begins: datetime
    ends: datetime
    helper: str = ""  # "": none

    def place(self, name: str) -> str:
        """Return where a member writes in this session."""
        return f"{place_of(name)}{self.session.hex()}/"


class Standing(NamedTuple):
    """Who a role is, and who makes sessions for it, by their members' names."""

    name: str
    makers: tuple[str, ...]


class Arrived(NamedTuple):
    """What has become of a session that has arrived for a role, and why.

    "opened" is what it was before, too; "waits" is what is not all there yet, and "late" what has begun without it.
    """

    outcome: Literal["opened", "waits", "late", "passed over", "REFUSED"]
    why: str = ""
    meeting: Meeting | None = None  # of what is opened
    genuine: bool = False  # whether its maker has signed it, for this role
    caps: str = ""  # the parties whose rows no cap bounds, while others' are


@dataclass(frozen=True)
class LocalSites:
    """A consortium made up for one session on this machine: each role's configuration, for `SiteStorage`."""

    aggregator: Mapping[str, str]
    sites: Mapping[str, Mapping[str, str]] = field(repr=False)  # of each party and the helper, by name


Newest: TypeAlias = Callable[[Meeting, Protection], int]
"""Tells the number of the round that has begun in a session, by what its aggregator has signed; 0: none."""


class SiteStorage(ABC):
    """A plug-in that keeps the state of sites, and opens sessions for aggregators."""

    @abstractmethod
    def site(self, config: Mapping[str, Any]) -> AbstractContextManager[SiteState]:
        """Open a site's state as configured; raise `FheAucError` where that fails."""

    def make_due(self, config: Mapping[str, Any], exchange: Exchange) -> list[str]:
        """Make the sessions that are due of the studies that this site makes; return what is wrong with them."""
        return []

    @abstractmethod
    def serving(self, config: Mapping[str, Any], *, by_policy: bool) -> AbstractContextManager[None]:
        """Be the process that plays a role for long: all other calls open the role's state without its passphrase.

        Raises `FheAucError` where the state cannot be opened, `by_policy` has no policy to go by, or another process
        serves with it.
        """

    @abstractmethod
    def standing(self, config: Mapping[str, Any], *, by_policy: bool) -> Standing:
        """Return who the role is, and whose sessions it takes part in; renew what ends, such as lists.

        Errors are raised where the role's own state or certificate is at fault.
        """

    @abstractmethod
    def take_in(self, config: Mapping[str, Any], session: bytes, files: Mapping[str, bytes], begun: Newest) -> Arrived:
        """Open a session that has arrived, from its maker's `files`, by their names there, as the role's policy allows.

        `begun` tells which round has begun. What is wrong is told; errors are raised where the role's own state or
        certificate is at fault.
        """

    @abstractmethod
    def opens(self, config: Mapping[str, Any], document: bytes) -> Meeting | None:
        """Return who meets in the session that a file opens for this aggregator; None: another file opens that.

        Raises `FheAucError` where it opens none.
        """

    @abstractmethod
    def begins(self, document: bytes) -> float:
        """Return when a session begins, as its announcement says, in Unix seconds; `FheAucError` for no such."""

    @abstractmethod
    def ends(self, config: Mapping[str, Any], session: bytes) -> datetime | None:
        """Return when a session ends that a site or a helper has opened; None where it knows of none."""

    @abstractmethod
    def shield(self, config: Mapping[str, Any]) -> None:
        """Take out of this process's environment, which its children inherit, secrets that `config` has in files."""

    @abstractmethod
    def aggregator(self, config: Mapping[str, Any], document: bytes | None = None) -> Joined:
        """Return what the aggregator starts from, by a file, with `document` in it if given; errors likewise."""

    @abstractmethod
    def local_sites(self, session: Session, folder: Path, grids: Mapping[str, bytes]) -> LocalSites:
        """Play authority and key holder; make each site's state in an empty folder that only this user can read.

        `grids` holds, by party, the thresholds that it has found before: it joins a session for these only.
        """


@lru_cache(maxsize=16)
def site_storage(clock: Clock = SYSTEM) -> SiteStorage:
    """Return the installed plug-in, by whose clock certificates end; raise `InputError` unless there is exactly one."""
    points = {point.value: point for point in entry_points(group=GROUP)}
    if len(points) != 1:
        names = sorted(points) or "none"
        raise InputError(f"exactly one package must keep sessions (entry point {GROUP}), found {names}")
    (point,) = points.values()
    made = point.load()(clock)
    if not isinstance(made, SiteStorage):
        raise InputError(f"{point.value} is not a fhe_auc.machines.site_state.SiteStorage")
    return made


class _Answered(SecretStruct, frozen=True):
    message: bytes  # SHA-256 of the message answered last
    submission: bytes
    rows: bytes  # SHA-256 of the rows that the session is about
    party: bytes  # `Party.saved`
    question: bytes  # SHA-256 of what is evaluated: the study's model and outcome
    size: int  # number of rows
    counted: tuple[str, ...]  # who counts, as the role was told or decided last; of a session that was not read, too
    ended: bool
    outcome: str  # in a word, of a party that has ended, or has read its result
    spent: dict[str, Any]  # what `SiteState.charge` returned
    noted: bool = True  # whether the audit trail says that the rows are in, or they are not
    parties: tuple[str, ...] = ()  # of the session


_FORMAT = KeptFormat(b"fheansw", _Answered, "answer kept", version=6)
_READ = "result", "UndefinedAucError", "UndefinedMetricError"  # outcomes that tell about the rows


def answer(
    site: SiteState,
    message: bytes,
    rows: Callable[[str, Analysis], PartyData],
    done: Callable[[Party[Any], Records], object],
) -> bytes:
    """Return a site's submission for an aggregator's message; the same one where it has been asked before.

    `rows` returns the site's rows for the session's analysis, as the party of that name. The first answer submits
    them; where they have changed afterwards, or cannot be read, the session goes on without them.

    `done` takes the party after the last round, to read its result, and the records that sign it; before the last
    answer is written down or sent, so that a crash cannot lose the result. A warning says where the site has put nearly
    as many rows into another session of the same model and outcome.

    The site's audit trail says when it has submitted, how many rows, and what that spends of their privacy; whose pads
    a helper has opened; and how the session has ended. A crash may put a line there twice, as it is written first.

    Raises `MessageError` for anything but the next message of its session, with the field "signature" where it is not
    the aggregator's, "ended" where the site answers nothing more, "missed" where the session has gone on without it;
    `FheAucError` where the site is not in that session, its rows are more than its cap, or it does not allow what the
    session spends.
    """
    parsed = Message.from_bytes(message, limit=_MAX_MESSAGE)
    session = parsed.session
    kept = site.state(session)
    last = None if kept is None else _FORMAT.unframe(kept)
    asked = hashlib.sha256(message).digest()
    if last is not None and not last.noted:  # a crash came between the two
        site.session(session).records.note("submitted", rows=last.size, **last.spent)
        site.keep(session, _FORMAT.frame(msgspec.structs.replace(last, noted=True)))
    if last is not None and last.message == asked:
        _tidy(site, session, ended=last.ended)  # a crash may have come between the two
        return last.submission
    if last is not None and last.ended:
        raise MessageError(f"the session has ended for party {site.name!r}", field="ended")
    joined = site.session(session)
    joined.protection.check(AGGREGATOR, MESSAGE, parsed.digest, parsed.signature)  # before it costs anything
    if last is not None and last.spent:
        site.stop(joined.manifest)
    none = PartyData.without_rows(site.name, joined.analysis), b"", 0
    data, digest, size = none if joined.helps else _rows(site.name, joined, rows, last)
    party = joined.helper() if joined.helps else joined.party(data)
    if last is not None:
        party.restore(last.party)
        party.who.listed = last.counted
    if parsed.round > party.next_round:
        raise MessageError(
            f"the session has gone on to round {parsed.round} without {party.name!r}: nothing is to be done; it takes "
            "part in the next session",
            field="missed",
        )
    if data.rows == 0 and not joined.helps:
        party.own_warnings = (_GONE.format(party=party.name),)
        LOGGER.warning("%s", *party.own_warnings, extra={"session": session.hex(), "round": parsed.round})
    study = joined.manifest.study
    question = b"" if study is None else hashlib.sha256(encode(study.question)).digest()
    spent: Mapping[str, Any] = {} if last is None else last.spent
    known, mine = site.others(session) if parsed.round > 1 and question else (), joined.manifest.parties
    others = [each for each in map(_known, known) if each and each.question == question]
    read = (each for each in (*others, last) if each and each.outcome in _READ and set(each.parties) == set(mine))
    party.who.earlier = (mine, *(each.counted for each in read if each.counted))

    def answered(message: bytes, submission: bytes, *, outcome: str = "", noted: bool = True) -> bytes:
        about = digest, party.saved(), question, size, party.who.listed, party.ended
        ends = outcome, dict(spent), noted, joined.manifest.parties
        return _FORMAT.frame(_Answered(message, submission, *about, *ends))

    try:
        submission = party.respond(message)
    except EvaluationError as error:
        _check_verdict(site, joined, error)
        try:
            joined.records.note("ended", outcome=type(error).__name__)
        finally:  # it answers nothing more, whatever becomes of the trail
            site.keep(session, answered(b"", b"", outcome=type(error).__name__))
        raise
    stopped = party.failure if joined.helps else None
    if party.who.unpadded or stopped is not None:
        not_proved = {"not_proved": list(party.who.unproved)} if party.who.unproved else {}
        joined.records.note("opened", parties=list(party.who.unpadded), **not_proved)
        for why in [*(f"{name}: {NOT_PROVED}" for name in party.who.unproved), *([str(stopped)] if stopped else [])]:
            LOGGER.warning("%s", why, extra={"session": session.hex(), "round": parsed.round})
    if last is None and not joined.helps:
        spending = registry.load(joined.manifest.protocol).spends(joined.manifest)
        spent = site.charge(joined.manifest, spending, rows=size)
        # The bytes are kept before the trail says that they are in: so nobody who finds that line sends others.
        site.keep(session, answered(asked, submission, noted=False))
        joined.records.note("submitted", rows=size, **spent)
    if party.ended and party.failure is not None:
        _check_verdict(site, joined, party.failure)
    outcome = ("result" if party.failure is None else type(party.failure).__name__) if party.ended else ""
    if party.ended and not joined.helps:
        party.own_warnings += near_other_sessions(party.name, size, [each.size for each in others])
        if last is not None and outcome in _READ:  # whatever dies from now on, this list is one that was read
            read_now = msgspec.structs.replace(last, counted=party.who.listed, outcome=outcome, noted=True)
            site.keep(session, _FORMAT.frame(read_now))
        done(party, joined.records)
    if party.ended:
        joined.records.note("ended", outcome="helped" if joined.helps and stopped is None else outcome)
    site.keep(session, answered(asked, submission, outcome=outcome))
    _tidy(site, session, ended=party.ended)
    return submission


def _check_verdict(site: SiteState, joined: Joined, error: EvaluationError) -> None:
    """Have the site write down, before anything leaves it, that a result has failed its checks."""
    if isinstance(error, ResultCheckError) and not joined.helps:
        site.refuse(joined.manifest, type(error).__name__)


def ending(site: SiteState, session: bytes) -> str | None:
    """Return with what a session has ended at the site, "result" or the kind of error; None: it has not ended."""
    kept = site.state(session)
    found = None if kept is None else _FORMAT.unframe(kept)
    return None if found is None or not found.ended else found.outcome


def spent_by(state: bytes) -> tuple[Mapping[str, Any], str]:
    """Return what a session has spent, as of `SiteState.charge`, and its outcome in a word; empty until it is noted."""
    kept = _FORMAT.unframe(state)
    return (kept.spent, kept.outcome) if kept.noted else ({}, "")


def _rows(
    name: str, joined: Joined, rows: Callable[[str, Analysis], PartyData], last: _Answered | None
) -> tuple[PartyData, bytes, int]:
    """Return a party's rows, their digest and their number: none of them, where they are in and are not there now."""
    try:
        data = rows(name, joined.analysis)
        digest = _digest(data)
    except (OSError, InputError):
        if last is None:
            raise
        digest = b""
    if last is None:
        return data, digest, data.rows
    if digest != last.rows:
        data = PartyData.without_rows(name, joined.analysis)
    return data, last.rows, last.size


def _known(state: bytes) -> _Answered | None:
    """Return another session's state; None where it is of another version: that costs this session nothing."""
    try:
        return _FORMAT.unframe(state)
    except DeserialisationError:
        return None


def _tidy(site: SiteState, session: bytes, *, ended: bool) -> None:
    site.spend(session)
    if ended:
        site.close(session)


def without_secrets(state: bytes, *, answer: bool) -> bytes:
    """Return a session's state without what its party would go on from; the last answer stays if `answer` is set."""
    kept = _FORMAT.unframe(state)
    bare = {} if answer else {"message": b"", "submission": b""}
    return _FORMAT.frame(msgspec.structs.replace(kept, party=b"", **bare))


def _digest(data: PartyData) -> bytes:
    digests = [hashlib.sha256() for _ in range(1 + len(data.scores) + len(data.groups))]
    for batch in data.batches():
        for digest, array in zip(digests, (batch.labels, *batch.scores, *batch.groups), strict=True):
            digest.update(array)  # type: ignore[arg-type]
    return hashlib.sha256(b"".join(each.digest() for each in digests)).digest()

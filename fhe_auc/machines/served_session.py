"""A session as `serve` knows it, and what is done in it at a look: by a site or a helper, or by an aggregator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fhe_auc.base.clock import Clock, Retry
from fhe_auc.base.errors import FheAucError, InputError, MessageError
from fhe_auc.base.files import LONGEST, write_atomically
from fhe_auc.base.logs import RoleLog, one_line
from fhe_auc.exchange.exchange import Arrivals, file_of, place_of, told
from fhe_auc.machines import aggregator_role, site_role
from fhe_auc.machines.file_transport import (
    ANNOUNCEMENT,
    FOR_AGGREGATOR,
    NOTHING,
    Begun,
    Own,
    is_submission,
    message_name,
    newest_round,
    of_session,
    off,
    submission_name,
    time_of,
)
from fhe_auc.machines.health import Problem
from fhe_auc.machines.isolation import Isolation, Work, sentence
from fhe_auc.machines.site_state import Meeting, SiteStorage, Standing
from fhe_auc.session import journal
from fhe_auc.session.messages import Protection

FOREIGN = "not for this role"
_MOST_SKIPPED = 3  # files in the status of a session
_NOT_GENUINE = {"signature", "ended", "format", "version", "length", "checksum", "body"}
"""Fields of errors of messages that the session's aggregator has not signed, or a site answers no more."""

_ENDS = "ends"  # file in a journal's folder: when the session ends, ISO
_WITHOUT_KEYS = (
    "it has begun, and what has opened it is not here any more: its maker puts that back, or makes another session"
)


@dataclass
class Session:
    """A session of a maker's, as far as it is known; `step` is for the status.

    `wrong` is what somebody has to look at, and `rule` what kind of problem that is (`fhe_auc.machines.health`).
    """

    maker: str
    name: str  # its id, hexadecimal
    clock: Clock
    view: Arrivals
    log: RoleLog
    step: str = ""
    since: str = ""
    wrong: str = ""
    rule: str = "failed"
    meeting: Meeting | None = None
    met: Meeting | None = None  # the same, or of what was refused
    judged: Mapping[str, object] = field(default_factory=dict)  # files of the maker that need not be read again
    answered: Begun | None = None
    word: tuple[str, str, str] = ("", "", "")  # the step that this was, and what is wrong with it
    own: Own | None = None  # what this role has put there last
    outcome: str | None = None  # with what it has ended here
    caps: str = ""  # whose rows no cap bounds, while others' are
    replaced: str = ""  # what of this role others have changed, since the look before
    times: int = 0  # that this has happened, by an aggregator's own process
    skipped: Mapping[str, str] = field(default_factory=dict)  # by file, why it does not count
    stuck: Mapping[str, str] = field(default_factory=dict)  # those of them that stay as they are
    awaited: dict[str, str] = field(default_factory=dict)  # since when
    clocks: Mapping[str, tuple[float, str]] = field(default_factory=dict)  # by member: when heard, how far it is off
    asked: tuple[int, float, float, float] = 0, 0.0, 0.0, 0.0  # round; its time; what that lies between, monotonic
    missing: Mapping[str, str] = field(default_factory=dict)  # parties that the result lacks, and why
    retry: Retry = field(init=False)
    work: Work | None = None  # an aggregator's, while it runs
    failed: object = None  # the round in which that has ended with an error
    journal: Path = Path()

    def __post_init__(self) -> None:
        self.retry = Retry(self.clock)

    @property
    def place(self) -> str:
        """Where its maker writes."""
        return f"{place_of(self.maker)}{self.name}/"

    @property
    def is_over(self) -> bool:
        """Whether it has ended here, well or not."""
        return self.outcome is not None

    @property
    def concerns(self) -> bool:
        """Whether there is anything in it for this role, as far as is known."""
        return self.step not in ("", FOREIGN)

    @property
    def rests(self) -> bool:
        """Whether there is nothing to do in it before its `retry` is due."""
        return (self.is_over or (not self.concerns and self.retry.wanted)) and not self.retry.due

    def tell(self, step: str, wrong: str = "", rule: str = "failed") -> None:
        """Log a step, and what is wrong, once."""
        self.rule = rule
        if (step, wrong) != (self.step, self.wrong):
            self.step, self.wrong, self.since = step, wrong, self.clock.told()
            (self.log.warning if wrong or step.startswith(("refused", "not answered")) else self.log.info)(
                "%s", one_line(f"{self.name[:8]}: {step}")
            )

    def problems(self) -> Iterator[Problem]:
        """Yield what somebody has to look at."""
        if self.wrong:
            yield Problem(self.rule, self.wrong, self.maker if self.rule == "refused" else "", self.name)
        if self.replaced:
            yield Problem("replaced", self.replaced, session=self.name)
        if self.caps:
            yield Problem("row caps", f"no row cap is for {self.caps}", self.maker, self.name)
        for party, why in self.missing.items():
            yield Problem("not counted", f"not counted{': ' * bool(why)}{why}", party, self.name)
        stuck = {self.view.shown(name): self.view.skipped[name] for name in self.view.stuck}
        for name, why in sorted({**stuck, **self.stuck}.items()):
            yield Problem("skipped", f"{name}: {why}", session=self.name)

    def mends(self, other: Session) -> bool:
        """Whether nobody has to look at what another session lacks any more, as this is a later, good one of its study.

        Good is one with a result here; where the other was refused, one that is answered.
        """
        if self.meeting is None or other.met is None or self.maker != other.maker:
            return False
        good = self.outcome == "result" or (self.answered is not None and other.meeting is None)
        return good and self.meeting.study == other.met.study and self.meeting.begins > other.met.begins

    def told(self) -> dict[str, Any]:
        """Return what the status says of it."""
        some = [f"{file}: {why}" for file, why in list(self.skipped.items())[:_MOST_SKIPPED]]
        step = f"{self.step}; skipped {'; '.join(some)}" if some else self.step
        who = {"session": self.name, "maker": self.maker}
        return {**who, "step": one_line(step), "time": self.since, "awaited": dict(self.awaited)}


@dataclass
class Part(ABC):
    """What a role does in each session, as `standing` says who it is."""

    config: Mapping[str, Any]
    storage: SiteStorage
    isolation: Isolation
    clock: Clock
    standing: Standing

    @property
    @abstractmethod
    def bundle(self) -> str:
        """The name of a maker's file that is for this role alone."""

    @abstractmethod
    def attend(self, session: Session) -> None:
        """Do what there is to do in a session."""

    def read(self, session: Session, wanted: Sequence[str]) -> dict[str, bytes]:
        """Return these files of a session's maker; none, if none has changed, and nothing is to be tried again."""
        view, place = session.view, session.place
        there = view.names(place)
        names = [place + name for name in wanted if name in there]
        versions = {name: view.version(name) for name in names}
        if versions == session.judged and not session.retry.due:
            return {}
        if session.retry.due:
            for name in names:
                view.again(name)
        changed = {name: data for name in names if (data := view.read(name)) is not None}
        if not changed:
            return {}
        for name in names:
            if name not in changed:
                view.again(name)
                if (data := view.read(name)) is not None:
                    changed[name] = data
        return {name.removeprefix(place): data for name, data in changed.items()}

    def _wait(self, session: Session) -> None:
        """Look again later where nothing was to be read: most members' places have answers alone."""
        if not session.step and session.maker not in self.standing.makers:
            session.retry.plan(wanted=True)


class Answering(Part):
    """A site, or a helper, that answers each round."""

    @property
    def bundle(self) -> str:
        """That of its name."""
        return f"{file_of(self.standing.name)}.bundle"

    def attend(self, session: Session) -> None:
        """Take in what is for this role, and answer the newest round."""
        if session.rests:
            session.replaced = ""  # what was, is put back
            return
        session.view.begin()
        if session.meeting is None:
            self._take_in(session)
        if session.meeting is not None:
            session.view.names(session.place)  # what was skipped there and is gone is forgotten
            self._answer(session, session.meeting)
            skipped = session.view.skipped.items()
            session.skipped = {name.rstrip("/").rpartition("/")[2]: why for name, why in skipped}
            if session.is_over:
                session.retry.plan(wanted=True)  # whether what it has said is still there

    def _take_in(self, session: Session) -> None:
        """Open a session that is for this role."""
        files = self.read(session, (ANNOUNCEMENT, self.bundle))
        if not files:
            self._wait(session)
            return
        begun, own = partial(self._begun, session), self._own(session)
        arrived = self.isolation.call(
            partial(self.storage.take_in, self.config, bytes.fromhex(session.name), files, begun, own), learns=True
        )
        session.met, session.caps = arrived.meeting, arrived.caps
        session.meeting = arrived.meeting if arrived.outcome == "opened" else None
        refused, names = arrived.outcome == "REFUSED", [session.place + name for name in files]
        if not refused or arrived.meeting is not None:
            session.judged = {name: session.view.version(name) for name in names}
            for name in names:
                session.view.clear(name)
        match arrived.outcome:
            case "opened":
                session.log.session = session.name
                session.tell("opened")
            case "passed over":
                session.tell(FOREIGN)
            case "REFUSED" if arrived.meeting is None:
                for name in names:
                    session.view.name(name, arrived.why)
                session.tell(f"refused: {arrived.why}")
            case "waits":
                session.tell(arrived.why)
            case _:
                session.tell(f"refused: {arrived.why}", arrived.why if refused else "", "refused")
        session.retry.plan(wanted=refused or arrived.outcome in ("waits", "passed over"))

    def _begun(self, session: Session, meeting: Meeting, protection: Protection) -> int:
        place = meeting.place(meeting.aggregator)
        view = Arrivals(session.view.exchange, wanted=of_session)
        begun = newest_round(view, place, meeting.session, protection=protection)
        return 0 if begun is None else begun.number

    def _answer(self, session: Session, meeting: Meeting) -> None:
        """Answer the newest round, and see that what was answered is still there."""
        view, place, mine = session.view, meeting.place(meeting.aggregator), meeting.place(self.standing.name)
        helps, session.replaced = meeting.helper == self.standing.name, ""
        if any(why for _, why in session.clocks.values()):  # it may have been set
            self._compare_clocks(session, meeting)
        view.names(mine)
        while (begun := newest_round(view, place, meeting.session, to_helper=helps)) is not None:
            asked = place + message_name(begun.number, to_helper=helps)
            said: bytes | None = b""
            if begun != session.answered or (session.retry.due and not session.is_over):
                said = self._said(session, asked)
                if said is None:
                    continue  # that is not the aggregator's
                session.answered = begun
                session.retry.plan(wanted=not said and bool(session.wrong))
                session.own = Own(view, mine + submission_name(session.log.round), said) if said else None
            if session.own is not None:
                replaced = session.own.keep(partial(self._again, session, asked, said))
                session.replaced = replaced and f"{view.shown(session.own.name)}: {replaced}"
                session.tell(*session.word)
            return

    def _own(self, session: Session) -> list[bytes]:
        """Return what lies where this role's answers in a session belong, but for more than anybody's answers are."""
        view, mine, found = session.view, f"{place_of(self.standing.name)}{session.name}/", list[bytes]()
        left = LONGEST
        for name in view.names(mine):
            with suppress(OSError, InputError):
                if is_submission(name):
                    found.append(view.exchange.read(mine + name, left))
                    left -= len(found[-1])
        return found

    def _again(self, session: Session, asked: str, said: bytes | None) -> bytes:
        """Return what was `said` just now, or before; raise `InputError` where it cannot be said again."""
        said = said or self._said(session, asked)
        if not said:
            raise InputError("what this role has said before is lost, and cannot be said again")
        return said

    def _said(self, session: Session, asked: str) -> bytes | None:
        """Return the answer to a message, empty where there is none; None where the message is not the aggregator's."""
        try:
            message = session.view.exchange.read(asked)
        except (OSError, InputError) as error:
            session.view.skip(asked, sentence(error))
            return None
        own = self._own(session)
        reply = self.isolation.call(partial(_replied, self.config, message, own, session.log, self.clock))
        session.log = reply.log
        if reply.field in _NOT_GENUINE:
            session.view.skip(asked, reply.failure)
            return None
        if reply.submission and session.meeting is not None:
            self._hear(session, session.meeting, time_of(message), reply.log.round)
        word: tuple[str, str, str]
        if reply.field == "missed":
            word = f"not answered: {reply.failure}", "", ""
        elif reply.failure:
            word = f"failed: {reply.failure}", reply.failure, "failed"
        elif reply.outcome is None:
            word = f"round {reply.log.round} answered", "", ""
        elif reply.outcome == "result":
            helps = session.meeting is not None and session.meeting.helper == self.standing.name
            word = "ended" if helps else "result delivered", "", ""
        else:
            word = f"ended without a result: {reply.outcome}", f"there is no result: {reply.outcome}", "no result"
        session.outcome, session.word = reply.outcome, word
        session.tell(*word)
        return reply.submission

    def _hear(self, session: Session, meeting: Meeting, time: float, number: int) -> None:
        """Note when a round's message was made: after what was said before, and before now."""
        last, _, _, before = session.asked
        if last != number:
            now = self.clock.monotonic()
            session.asked = number, time, before if last else now, now
            self._compare_clocks(session, meeting, first=not last)

    def _compare_clocks(self, session: Session, meeting: Meeting, *, first: bool = False) -> None:
        """Compare this clock, as it is now, with the aggregator's; a `first` message may have lain there for long."""
        _, time, after, before = session.asked
        why = off(time, time if first else after + self.clock.ahead, before + self.clock.ahead)
        session.clocks = {meeting.aggregator: (before, why)}


class _Reply(NamedTuple):
    submission: bytes
    outcome: str | None
    failure: str
    field: str  # of the error
    log: RoleLog


def _replied(config: Mapping[str, Any], message: bytes, own: Sequence[bytes], log: RoleLog, clock: Clock) -> _Reply:
    """Answer a message, in a process of its own where there is one."""
    try:
        submission, outcome = site_role.answer(config, message, own=own, log=log, clock=clock)
        return _Reply(submission, outcome, "", "", log)
    except Exception as error:
        return _Reply(b"", None, sentence(error), error.field if isinstance(error, MessageError) else "", log)


@dataclass
class Conducting(Part):
    """An aggregator, with the folder `state`."""

    state: Path
    bundle = FOR_AGGREGATOR

    def attend(self, session: Session) -> None:
        """Conduct the session once what opens it is there, until it has ended."""
        session.view.begin()
        if session.work is not None:
            self._see(session, session.work)
        elif not session.rests:
            self._start(session)

    def _start(self, session: Session) -> None:
        files = self.read(session, (ANNOUNCEMENT, FOR_AGGREGATOR))
        if not files:  # a place of somebody who takes part
            self._wait(session)
            return
        session.journal = self.state / "journals" / session.name
        record = journal.read_record(session.journal)
        if session.outcome is None and record is not None and journal.is_finished(record):
            self._ended(session, record)
            return
        why, names = "", [session.place + name for name in files]
        try:
            meeting = self.storage.opens(self.config, files)
            if meeting is not None and meeting.session.hex() != session.name:
                why = f"it is of session {meeting.session.hex()}, and lies in the place of another"
            elif meeting is not None and meeting.maker != session.maker:  # else it would begin twice
                why = f"{meeting.maker!r} has made it, and it lies in the place of {session.maker!r}"
        except FheAucError as error:
            meeting, why = None, told(error)
        for name in names:
            session.view.name(name, why) if why else session.view.clear(name)
        if why or meeting is None:
            begun = journal.read_status(session.journal) is not None
            wrong = "" if why or not begun else _WITHOUT_KEYS
            missing = FOR_AGGREGATOR if ANNOUNCEMENT in files else ANNOUNCEMENT
            session.tell(f"refused: {why or wrong}" if why or wrong else f"waits for {missing}", wrong, "refused")
            session.retry.plan(wanted=True)
            return
        session.meeting = session.met = meeting
        session.log.session = session.name
        session.journal.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(session.journal / _ENDS, meeting.ends.isoformat().encode(), mode=0o600, durable=True)
        config = {**self.config, "journal": str(session.journal)}
        conducted = config, session.view.exchange, meeting, files, self.clock
        session.retry.plan(wanted=False)
        journal.forget_status(session.journal)  # of an earlier process
        session.outcome, session.times = None, 0
        session.work = self.isolation.begin(
            lambda: aggregator_role.passes(*conducted),
            lambda: "error" in (journal.read_record(session.journal) or {}),  # which the status tells
        )
        self._see(session, session.work)

    def _see(self, session: Session, work: Work) -> None:
        """Say how the session that is conducted stands."""
        runs, said = work.runs(), journal.read_status(session.journal)
        session.clocks = said.get("clocks", {}) if said is not None else session.clocks
        if runs and said is not None:
            why = said["awaited"]
            awaited = ", ".join(f"{who} ({why[who]})" if why[who] not in ("", NOTHING) else who for who in why)
            step = f"round {said['round']} of {said['rounds']}, awaits {awaited or 'nobody'}, until {said['until']}"
            trouble = said.get("trouble", "") or (session.wrong if session.failed == said["round"] else "")
            session.tell(step, trouble)
            skipped = said.get("skipped", {})
            session.skipped = {file: reason for file, reason in skipped.items() if reason not in why.values()}
            session.stuck = {file: skipped[file] for file in said.get("stuck", ()) if file in skipped}
            times, replaced = said.get("replaced", (session.times, ""))
            session.times, session.replaced = times, replaced if times != session.times else ""
            session.awaited = {who: session.awaited.get(who, self.clock.told()) for who in why}
        if runs:
            return
        record, status = journal.read_record(session.journal) or {}, work.status
        session.work, session.awaited, session.stuck, session.replaced = None, {}, {}, ""
        if status == 0:
            self._ended(session, record)
            return
        signalled = f"its process was ended by signal {-status}, and is started again"
        why = signalled if status < 0 else record.get("error", {}).get("message", "see the log")
        session.failed = said and said["round"]
        session.tell(f"failed: {why}", why)
        session.retry.plan(wanted=True)

    def _ended(self, session: Session, record: Mapping[str, Any]) -> None:
        lacking = [name for name in record["counted"] if name not in record["delivered"]]
        why = record["refused"]
        session.outcome = "result"
        session.missing = {name: why.get(name, "") for name in record["missing"]}
        if lacking:
            session.tell(f"ended, but not for {', '.join(lacking)}: asked again")
        else:
            left = (f"{name} ({why[name]})" if name in why else name for name in record["missing"])
            session.tell("; not counted: ".join(filter(None, ("ended: all have their results", ", ".join(left)))))
        session.retry.plan(wanted=bool(lacking))


def over(folder: Path, day: timedelta, clock: Clock) -> bool:
    """Whether the session of an aggregator's journal ended so long ago, by what it has written there."""
    try:
        return datetime.fromisoformat((folder / _ENDS).read_text()) + day < clock.now()
    except (OSError, ValueError):
        return False

"""What a site, or a helper, does in a session at a look: `Answering`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from fhe_auc.base.clock import Clock
from fhe_auc.base.errors import InputError, MessageError
from fhe_auc.base.files import LONGEST
from fhe_auc.base.logs import RoleLog
from fhe_auc.exchange.exchange import Arrivals, file_of, place_of
from fhe_auc.machines import site_role
from fhe_auc.machines.file_transport import (
    ANNOUNCEMENT,
    Own,
    is_submission,
    message_name,
    newest_round,
    of_session,
    off,
    submission_name,
    time_of,
)
from fhe_auc.machines.isolation import sentence
from fhe_auc.machines.served_session import FOREIGN, Part, Session
from fhe_auc.machines.site_state import Meeting
from fhe_auc.session.messages import Protection

_NOT_GENUINE = {"signature", "ended", "format", "version", "length", "checksum", "body"}
"""Fields of errors of messages that the session's aggregator has not signed, or a site answers no more."""


class Answering(Part):
    """A site, or a helper, that answers each round."""

    @property
    def bundle(self) -> str:
        """That of its name."""
        return f"{file_of(self.standing.name)}.bundle"

    def ends(self, name: str) -> datetime | None:
        """As the key store says."""
        return self.storage.ends(self.config, bytes.fromhex(name))

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

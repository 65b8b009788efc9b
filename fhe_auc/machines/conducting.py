"""What an aggregator does in a session at a look: `Conducting`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fhe_auc.base.errors import FheAucError
from fhe_auc.base.files import write_atomically
from fhe_auc.exchange.exchange import Exchange, told
from fhe_auc.machines import aggregator_role
from fhe_auc.machines.file_transport import ANNOUNCEMENT, FOR_AGGREGATOR, NOTHING
from fhe_auc.machines.isolation import Work
from fhe_auc.machines.served_session import Part, Session
from fhe_auc.session import journal

_ENDS = "ends"  # file in a journal's folder: when the session ends, ISO
_WITHOUT_KEYS = (
    "it has begun, and what has opened it is not here any more: its maker puts that back, or makes another session"
)


@dataclass
class Conducting(Part):
    """An aggregator, with the folder `state`."""

    state: Path
    bundle = FOR_AGGREGATOR

    @property
    def _journals(self) -> Path:
        return self.state / "journals"

    def ends(self, name: str) -> datetime | None:
        """As its journal says."""
        return datetime.fromisoformat((self._journals / name / _ENDS).read_text())

    def tidy(self, exchange: Exchange) -> None:
        """Remove messages and submissions from the journals, too."""
        super().tidy(exchange)
        for folder in self._journals.glob("*"):
            if self.is_past(folder.name):
                for file in [*folder.glob("round-*.message"), *folder.glob("round-*.submission")]:
                    file.unlink()

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
        session.journal = self._journals / session.name
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
        if said is not None:
            session.clocks = said["clocks"]
        if runs and said is not None:
            why = said["awaited"]
            awaited = ", ".join(f"{who} ({why[who]})" if why[who] not in ("", NOTHING) else who for who in why)
            step = f"round {said['round']} of {said['rounds']}, awaits {awaited or 'nobody'}, until {said['until']}"
            session.tell(step, said["trouble"] or (session.wrong if session.failed == said["round"] else ""))
            skipped, (times, replaced) = said["skipped"], said["replaced"]
            session.skipped = {file: reason for file, reason in skipped.items() if reason not in why.values()}
            session.stuck = {file: skipped[file] for file in said["stuck"]}
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
